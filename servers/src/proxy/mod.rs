//! A TCP proxy in front of a server, which injects faults: a slow, silent or broken network, and lost answers.
//!
//! The proxy never sends a byte twice and never drops bytes from the middle of a stream, as TCP guarantees. Swallowed
//! bytes are held back, like those of lost packets, and pass when the network is healed, unless their connection was
//! reset meanwhile.

mod answers;
mod link;

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use tokio::{net::TcpListener, runtime, sync::watch};

pub(crate) use self::answers::Protocol;

/// A fault of the network between a client and its server.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Bytes of both directions arrive later, by this duration.
    Delay(Duration),
    /// Bytes pass in small chunks, with a pause before each.
    Throttle {
        /// The size of a chunk.
        bytes: usize,
        /// The pause before each chunk.
        pause: Duration,
    },
    /// Bytes are swallowed, and connections stay open.
    Swallow(Direction),
    /// New connections are reset at once.
    Refuse,
    /// The connection is cut when the server has answered a request, before the client receives the answer.
    LoseAnswer {
        /// The number of answers that pass before.
        after: u64,
        /// Only answers to requests that contain this text, in lower case, are counted.
        to: String,
    },
    /// The same, for every answer with this probability.
    LoseAnswers {
        /// Between 0 and 1.
        probability: f64,
        /// Seed of the random choice.
        seed: u64,
    },
}

/// The direction of the bytes that a fault affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Bytes that the client sends.
    ToServer,
    /// Bytes that the server sends.
    ToClient,
    /// Bytes of both directions.
    Both,
}

impl Direction {
    pub(crate) fn includes(self, other: Self) -> bool {
        self == Self::Both || self == other
    }
}

/// A running proxy. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    network: Arc<Network>,
    /// The proxy ends when this is dropped.
    _alive: watch::Sender<()>,
}

/// State shared by all connections.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) server: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) fault: watch::Sender<Option<Fault>>,
    /// Connections that are open when it changes are reset.
    pub(crate) resets: watch::Sender<u64>,
    /// Connections that are open when it changes are forgotten.
    pub(crate) forgets: watch::Sender<u64>,
    /// The number of matching answers so far, and the random generator that chooses lost answers.
    losing: Mutex<(u64, fastrand::Rng)>,
    lost: AtomicU64,
}

impl Network {
    /// Whether the answer to a request is lost.
    pub(crate) fn loses(&self, request: &str) -> bool {
        let mut losing = self.losing.lock().unwrap_or_else(PoisonError::into_inner);
        let (passed, chance) = &mut *losing;
        let loses = match &*self.fault.borrow() {
            Some(Fault::LoseAnswer { after, to }) if request.to_lowercase().contains(to) => {
                *passed += 1;
                *passed == after + 1
            }
            Some(Fault::LoseAnswers { probability, .. }) => chance.f64() < *probability,
            _ => false,
        };
        self.lost.fetch_add(u64::from(loses), Ordering::Relaxed);
        loses
    }
}

impl Proxy {
    /// Starts a proxy in front of the server of an address: `postgres://…`, `redis://…` or `sqlserver://…`.
    pub fn before(url: &str) -> Result<Self> {
        let protocol = match url.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Protocol::Postgres,
            Some("redis") => Protocol::Redis,
            Some("sqlserver") => Protocol::SqlServer,
            _ => bail!("unsupported scheme: expected postgres, redis or sqlserver"),
        };
        let (_, host, _) = parts(url)?;
        let server = host.to_socket_addrs()?.next().with_context(|| format!("{host} has no address"))?;
        let (alive, mut ended) = watch::channel(());
        let network = Arc::new(Network {
            server,
            protocol,
            fault: watch::Sender::new(None),
            resets: watch::Sender::new(0),
            forgets: watch::Sender::new(0),
            losing: Mutex::new((0, fastrand::Rng::with_seed(0))),
            lost: AtomicU64::new(0),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (address, shared) = (listener.local_addr()?, Arc::clone(&network));
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = async move {
            tokio::select! {
                served = accept(listener, shared) => served,
                _ = ended.changed() => Ok(()),
            }
        };
        thread::Builder::new().name("proxy".to_owned()).spawn(move || runtime.block_on(serve))?;
        Ok(Self { address, network, _alive: alive })
    }

    /// Replaces host and port in an address of the server by those of the proxy.
    pub fn url_of(&self, url: &str) -> Result<String> {
        let (before, _, behind) = parts(url)?;
        Ok(format!("{before}{}{behind}", self.address))
    }

    /// Injects this fault from now on, instead of any earlier one.
    pub fn set(&self, fault: Fault) {
        let seed = if let Fault::LoseAnswers { seed, .. } = fault { seed } else { 0 };
        *self.network.losing.lock().unwrap_or_else(PoisonError::into_inner) = (0, fastrand::Rng::with_seed(seed));
        self.network.fault.send_replace(Some(fault));
    }

    /// Injects no fault from now on. Swallowed bytes pass, late.
    pub fn heal(&self) {
        self.network.fault.send_replace(None);
    }

    /// Resets all connections.
    pub fn reset(&self) {
        self.network.resets.send_modify(|resets| *resets += 1);
    }

    /// Forgets all open connections, like a firewall that has lost their state: they stay open, but no byte passes any
    /// more. New connections work.
    pub fn forget(&self) {
        self.network.forgets.send_modify(|forgets| *forgets += 1);
    }

    /// The number of lost answers.
    pub fn lost(&self) -> u64 {
        self.network.lost.load(Ordering::Relaxed)
    }
}

async fn accept(listener: std::net::TcpListener, network: Arc<Network>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(link::serve(client, Arc::clone(&network)));
    }
}

/// Splits an address: the part before the host, host and port, and the rest.
fn parts(url: &str) -> Result<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://").context("an address has a scheme")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let start = scheme.len() + "://".len();
    Ok((&url[..start + host], &rest[host..end], &rest[end..]))
}
