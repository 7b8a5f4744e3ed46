//! Accepts connections, limits their number and duration, and closes them gracefully.

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
use punctual_client::{Punctual, admin::Retention};
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
    app::{App, RequestLimits, StreamLimits},
    auth::Tokens,
    counter_cache::CounterCache,
    event_feed::EventFeed,
    first_byte_timeout::FirstByteTimeout,
    history::History,
    peer::{Connection, Peer},
    readiness::Readiness,
    sampler,
    service::{probes, service},
};

/// Default of the maximum number of concurrent connections.
const CONNECTIONS_MAX: usize = 10_000;
/// Maximum bytes of a request head.
const HEAD_MAX_BYTES: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// Maximum number of concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;

/// A server that is configured but not started.
pub struct Server {
    punctual: Punctual,
    tls: Option<Tls>,
    insecure: bool,
    limits: RequestLimits,
    connections_max: usize,
    stream: StreamLimits,
    retention: Option<Retention>,
    metrics: Box<dyn Fn() -> Vec<Metric> + Send + Sync>,
    worker_problem: Box<dyn Fn() -> Option<String> + Send + Sync>,
    probes_only: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("punctual", &self.punctual).field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// TLS certificate and private key, both PEM files.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// An address that is bound: no other program can listen on it. Connections wait until a server answers them.
#[derive(Debug)]
pub struct BoundAddress {
    address: SocketAddr,
    listener: TcpListener,
}

impl BoundAddress {
    /// Binds an address; with port 0, the system chooses a free port.
    pub fn bind(address: SocketAddr) -> Result<Self, StartError> {
        let cannot_listen = |error| StartError::CannotListen { address, error };
        let listener = TcpListener::bind(address).map_err(cannot_listen)?;
        listener.set_nonblocking(true).map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        Ok(Self { address, listener })
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not loopback and there is no valid token: every host on the network would have full access.
    #[error(
        "{0} can be reached from other hosts, and there is no valid token: create one with `punctual tokens create NAME --role admin`, or listen on 127.0.0.1"
    )]
    NoTokens(SocketAddr),
    /// The address is not loopback and there is no TLS, so that tokens could be read on the network.
    #[error(
        "{0} can be reached from other hosts, and tokens would be sent unencrypted: set a certificate with --tls-cert and --tls-key, or set --insecure-http if a proxy in front terminates TLS"
    )]
    NoTls(SocketAddr),
    /// The certificate or its key cannot be used.
    #[error("cannot use the certificate {certificate} with the key {key}: {error}")]
    BadCertificate {
        /// The certificate.
        certificate: String,
        /// The private key.
        key: String,
        /// The error.
        error: io::Error,
    },
    /// The address is in use, or is not an address of this machine.
    #[error("cannot listen on {address}: {error}; choose another address with --listen")]
    CannotListen {
        /// The address.
        address: SocketAddr,
        /// The error.
        error: io::Error,
    },
    /// The store cannot be reached or used.
    #[error(transparent)]
    Store(#[from] punctual_core::StoreError),
}

impl Server {
    /// A server for this store.
    pub fn new(punctual: Punctual) -> Self {
        let limits = RequestLimits::default();
        Self {
            punctual,
            tls: None,
            insecure: false,
            limits,
            connections_max: CONNECTIONS_MAX,
            stream: StreamLimits::default(),
            retention: None,
            metrics: Box::new(Vec::new),
            worker_problem: Box::new(|| None),
            probes_only: false,
        }
    }

    /// Serves HTTPS with this certificate.
    #[must_use]
    pub fn tls(mut self, tls: Option<Tls>) -> Self {
        self.tls = tls;
        self
    }

    /// Accepts plaintext connections from other hosts: TLS terminates at a proxy.
    #[must_use]
    pub fn insecure_http(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Sets size limits and timeouts of requests.
    #[must_use]
    pub fn limits(mut self, limits: RequestLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the retention periods of a cleanup over HTTP; without them, it is refused. They should be those of the
    /// workers.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Adds the metrics of the workers that run beside the server to its own.
    #[must_use]
    pub fn metrics(mut self, metrics: impl Fn() -> Vec<Metric> + Send + Sync + 'static) -> Self {
        self.metrics = Box::new(metrics);
        self
    }

    /// Adds a reason why the worker beside the server is not ready, if it returns one: `/readyz` then answers 503 with
    /// it.
    #[must_use]
    pub fn ready_unless(mut self, problem: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        self.worker_problem = Box::new(problem);
        self
    }

    /// Serves only `/healthz`, `/readyz` and `/metrics`. Without the API there is nothing that other hosts could
    /// change, so it may listen on any address; `/metrics` still needs a token, except on loopback addresses of a store
    /// without tokens.
    #[must_use]
    pub fn probes_only(mut self) -> Self {
        self.probes_only = true;
        self
    }

    /// Sets the maximum number of concurrent connections; further connections are closed at once.
    #[must_use]
    pub fn connections_max(mut self, count: usize) -> Self {
        self.connections_max = count;
        self
    }

    /// Sets the limits of the stream: number of subscribers, backlog and timeouts.
    #[must_use]
    pub fn stream(mut self, limits: StreamLimits) -> Self {
        self.stream = limits;
        self
    }

    /// Starts listening on an address; fails if that would not be safe.
    pub async fn start(self, address: SocketAddr) -> Result<RunningServer, StartError> {
        self.start_on(BoundAddress::bind(address)?).await
    }

    /// Starts to answer on an address that is bound already; fails if that would not be safe.
    pub async fn start_on(self, listener: BoundAddress) -> Result<RunningServer, StartError> {
        let BoundAddress { address, listener } = listener;
        let is_local = address.ip().is_loopback();
        if !is_local && !self.probes_only {
            self.check_exposure(address).await?;
        }
        let tls = match &self.tls {
            Some(tls) => Some(tls.load().await?),
            None => None,
        };
        let cannot_listen = |error| StartError::CannotListen { address, error };
        let (stopping, sockets) = (CancellationToken::new(), TaskTracker::new());
        let app = Arc::new(App {
            tokens: Tokens::new(self.punctual.clone(), is_local),
            counter_cache: CounterCache::new(self.punctual.clone()),
            event_feed: EventFeed::new(self.punctual.clone(), self.stream.behind_max_polls),
            stream: self.stream,
            sockets: Arc::new(Semaphore::new(self.stream.sockets_max)),
            open_sockets: sockets.clone(),
            metrics: self.metrics,
            worker_problem: self.worker_problem,
            store_name: self.punctual.store().info().location,
            history: History::new(self.punctual.clone()),
            retention: self.retention,
            readiness: Readiness::new(self.punctual.clone()),
            punctual: self.punctual,
            has_tls: tls.is_some(),
            limits: self.limits,
            stopping: stopping.clone(),
        });
        // The first read sets the baseline of the counters.
        app.counter_cache.counts().await?;
        let service = if self.probes_only {
            probes(app)
        } else {
            tokio::spawn(sampler::run(Arc::clone(&app)));
            service(app)
        };
        let bounded = Bounded(Arc::new(Semaphore::new(self.connections_max)));
        let (handle, make, scheme) =
            (Handle::new(), service.into_make_service(), if tls.is_some() { "https" } else { "http" });
        let mut server = axum_server::from_tcp(listener).map_err(cannot_listen)?.handle(handle.clone());
        let (builder, timeout) = (server.http_builder(), self.limits.head_timeout);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(timeout)
            // A client that has closed its sending side still receives its answer.
            .half_close(true)
            .max_buf_size(HEAD_MAX_BYTES)
            .max_headers(HEADERS_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            // A client that does not answer keep-alive pings is disconnected.
            .keep_alive_interval(timeout)
            .keep_alive_timeout(timeout)
            .max_header_list_size(HEAD_MAX_BYTES as u32);
        let task = match tls {
            Some(config) => {
                let acceptor = RustlsAcceptor::new(config).handshake_timeout(timeout).acceptor(bounded);
                tokio::spawn(server.acceptor(FirstByteTimeout { acceptor, timeout }).serve(make))
            }
            None => tokio::spawn(server.acceptor(FirstByteTimeout { acceptor: bounded, timeout }).serve(make)),
        };
        Ok(RunningServer { address, scheme, handle, stopping, sockets, task })
    }

    /// Fails if it would not be safe to listen on an address that other hosts can reach.
    async fn check_exposure(&self, address: SocketAddr) -> Result<(), StartError> {
        let now = self.punctual.store().now();
        let tokens = self.punctual.store().tokens().await?;
        if !tokens.iter().any(|token| token.session_of.is_none() && token.is_valid(now)) {
            return Err(StartError::NoTokens(address));
        }
        if self.tls.is_none() && !self.insecure {
            return Err(StartError::NoTls(address));
        }
        Ok(())
    }
}

impl Tls {
    async fn load(&self) -> Result<RustlsConfig, StartError> {
        // Fails if the embedding program has installed a provider already, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |error| StartError::BadCertificate {
            certificate: self.certificate.display().to_string(),
            key: self.key.display().to_string(),
            error,
        };
        RustlsConfig::from_pem_file(&self.certificate, &self.key).await.map_err(unusable)
    }
}

/// A running server.
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
    /// The address that it listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the dashboard.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Stops accepting connections, waits for requests under way, and closes all connections after `within`.
    pub async fn stop(self, within: Duration) {
        self.stopping.cancel();
        self.handle.graceful_shutdown(Some(within));
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the server did not stop cleanly");
        }
        // Stream subscribers are notified of the shutdown, if they receive it in time.
        self.sockets.close();
        let _ = time::timeout(within, self.sockets.wait()).await;
    }
}

/// Limits the number of concurrent connections. Connections above the limit are closed at once: there is no bound on
/// how long they would wait for a free slot.
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
            Err(_) => Err(io::Error::other("too many connections")),
        };
        std::future::ready(accepted)
    }
}

/// The service of one connection. It holds the connection's slot until it is dropped.
#[derive(Debug, Clone)]
struct Counted<S> {
    service: S,
    /// Inserted into each request, so that its handler can check whether the client is still connected.
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
