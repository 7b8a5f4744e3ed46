//! Connections come in, bounded in number and in time, and end in order.

use std::{
    convert::Infallible,
    fmt, io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::http::Request;
use axum_server::{
    Handle,
    accept::Accept,
    tls_rustls::{RustlsAcceptor, RustlsConfig},
};
use hyper_util::rt::TokioTimer;
use punctual_client::Punctual;
use punctual_core::store::Metric;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
    time,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::Service;

use crate::{
    app::{App, RequestLimits},
    auth::Tokens,
    counter_cache::CounterCache,
    event_feed::EventFeed,
    first_byte_timeout::FirstByteTimeout,
    health::Readiness,
    history::{self, History},
    peer::{Connection, Peer},
    service::service,
    subscriber::StreamLimits,
};

/// Connections at once.
const CONNECTIONS_MAX: usize = 10_000;
/// Bytes of the head of a request.
const HEAD_MAX_BYTES: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// Requests at once on one connection of HTTP/2.
const STREAMS_MAX: u32 = 128;

/// A server to start.
pub struct Server {
    punctual: Punctual,
    tls: Option<Tls>,
    insecure: bool,
    limits: RequestLimits,
    connections_max: usize,
    stream: StreamLimits,
    metrics: Box<dyn Fn() -> Vec<Metric> + Send + Sync>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("punctual", &self.punctual).field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// A certificate and its key, each a PEM file.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, with those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Others could do anything.
    #[error(
        "{0} can be reached from other machines, and no token is valid: create one with `punctual token create NAME --role admin`, or listen on 127.0.0.1"
    )]
    NoTokens(SocketAddr),
    /// Others could read tokens on their way.
    #[error(
        "{0} can be reached from other machines, and tokens would go there in the clear: give a certificate with --tls-cert and --tls-key, or set --insecure-http if a proxy in front terminates TLS"
    )]
    NoTls(SocketAddr),
    /// The certificate is of no use.
    #[error("cannot use the certificate {certificate} with the key {key}: {error}")]
    BadCertificate {
        /// The certificate.
        certificate: String,
        /// Its key.
        key: String,
        /// What is wrong.
        error: io::Error,
    },
    /// Somebody else listens there, or it is not an address of this machine.
    #[error("cannot listen on {address}: {error}; choose another address with --listen")]
    CannotListen {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        error: io::Error,
    },
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] punctual_core::StoreError),
}

impl Server {
    /// Serves this store.
    pub fn new(punctual: Punctual) -> Self {
        let limits = RequestLimits::default();
        let metrics = Box::new(Vec::new);
        Self {
            punctual,
            tls: None,
            insecure: false,
            limits,
            connections_max: CONNECTIONS_MAX,
            stream: StreamLimits::default(),
            metrics,
        }
    }

    /// Speaks TLS.
    #[must_use]
    pub fn tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Other machines may come without TLS: something in front of it speaks that.
    #[must_use]
    pub fn insecure_http(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// How large requests may be, and how long they may take to come.
    #[must_use]
    pub fn limits(mut self, limits: RequestLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Shows also in its metrics what those count of themselves who work beside it.
    #[must_use]
    pub fn metrics(mut self, metrics: impl Fn() -> Vec<Metric> + Send + Sync + 'static) -> Self {
        self.metrics = Box::new(metrics);
        self
    }

    /// How many connections there may be at once; further ones are closed.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = count;
        self
    }

    /// How many may listen to the stream, and how.
    #[must_use]
    pub fn stream(mut self, limits: StreamLimits) -> Self {
        self.stream = limits;
        self
    }

    /// Starts it at an address, or says why that would not be safe.
    pub async fn start(self, address: SocketAddr) -> Result<RunningServer, StartError> {
        let is_local = address.ip().is_loopback();
        if !is_local {
            let now = self.punctual.store().now();
            let tokens = self.punctual.store().tokens().await?;
            if !tokens.iter().any(|token| token.session_of.is_none() && token.is_good(now)) {
                return Err(StartError::NoTokens(address));
            }
            if self.tls.is_none() && !self.insecure {
                return Err(StartError::NoTls(address));
            }
        }
        let tls = match &self.tls {
            Some(tls) => Some(tls.load().await?),
            None => None,
        };
        let cannot = |error| StartError::CannotListen { address, error };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let (stopping, sockets) = (CancellationToken::new(), TaskTracker::new());
        let app = Arc::new(App {
            tokens: Tokens::new(self.punctual.clone()),
            meter: CounterCache::new(self.punctual.clone()),
            follower: EventFeed::new(self.punctual.clone(), self.stream.behind_max_looks),
            stream: self.stream,
            sockets: Arc::new(Semaphore::new(self.stream.sockets_max)),
            open_sockets: sockets.clone(),
            metrics: self.metrics,
            store_name: self.punctual.store().info().location,
            history: History::new(self.punctual.clone()),
            readiness: Readiness::new(self.punctual.clone()),
            punctual: self.punctual,
            may_be_open: is_local,
            has_tls: tls.is_some(),
            limits: self.limits,
            stopping: stopping.clone(),
        });
        // From now on it counts.
        app.meter.look().await?;
        tokio::spawn(history::watch(Arc::clone(&app)));
        let bounded = Bounded(Arc::new(Semaphore::new(self.connections_max)));
        let (handle, make, scheme) =
            (Handle::new(), service(app).into_make_service(), if tls.is_some() { "https" } else { "http" });
        let mut server = axum_server::from_tcp(listener).map_err(cannot)?.handle(handle.clone());
        let (builder, patience) = (server.http_builder(), self.limits.head_timeout);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            // A client that has closed its sending side is answered.
            .half_close(true)
            .max_buf_size(HEAD_MAX_BYTES)
            .max_headers(HEADERS_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            // One that does not answer is gone.
            .keep_alive_interval(patience)
            .keep_alive_timeout(patience)
            .max_header_list_size(HEAD_MAX_BYTES as u32);
        let task = match tls {
            Some(config) => {
                let acceptor = RustlsAcceptor::new(config).handshake_timeout(patience).acceptor(bounded);
                tokio::spawn(server.acceptor(FirstByteTimeout { acceptor, within: patience }).serve(make))
            }
            None => tokio::spawn(server.acceptor(FirstByteTimeout { acceptor: bounded, within: patience }).serve(make)),
        };
        Ok(RunningServer { address, scheme, handle, stopping, sockets, task })
    }
}

impl Tls {
    async fn load(&self) -> Result<RustlsConfig, StartError> {
        // Whoever embeds us may have chosen another one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let bad = |error| StartError::BadCertificate {
            certificate: self.certificate.display().to_string(),
            key: self.key.display().to_string(),
            error,
        };
        RustlsConfig::from_pem_file(&self.certificate, &self.key).await.map_err(bad)
    }
}

/// A server that answers.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    scheme: &'static str,
    handle: Handle<SocketAddr>,
    stopping: CancellationToken,
    sockets: TaskTracker,
    task: JoinHandle<io::Result<()>>,
}

impl RunningServer {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a browser finds it.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Takes no more connections, lets those end that are answered, and closes the others after so long.
    pub async fn stop(self, within: Duration) {
        self.stopping.cancel();
        self.handle.graceful_shutdown(Some(within));
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the server did not end in order");
        }
        // Those who listen are told that it ends, if they take it in time.
        self.sockets.close();
        let _ = time::timeout(within, self.sockets.wait()).await;
    }
}

/// Takes so many connections at once. More are closed at once: whoever waits for a free one could wait for ever.
#[derive(Debug, Clone)]
struct Bounded(Arc<Semaphore>);

impl<S> Accept<TcpStream, S> for Bounded {
    type Stream = Connection;
    type Service = Counted<S>;
    type Future = std::future::Ready<io::Result<(Connection, Counted<S>)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let accepted = match Arc::clone(&self.0).try_acquire_owned() {
            Ok(slot) => stream.set_nodelay(true).map(|()| {
                let connection = Connection::new(stream);
                let peer = connection.peer();
                (connection, Counted { service, peer, _slot: Arc::new(slot) })
            }),
            Err(_) => Err(io::Error::other("there are too many connections")),
        };
        std::future::ready(accepted)
    }
}

/// The service of one connection, which counts for as long as it lives.
#[derive(Debug, Clone)]
struct Counted<S> {
    service: S,
    /// Put into each request, which may look whether its client is still there.
    peer: Peer,
    _slot: Arc<OwnedSemaphorePermit>,
}

impl<S, B> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Error = Infallible>,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.extensions_mut().insert(self.peer.clone());
        self.service.call(request)
    }
}
