//! The server of the API and the dashboard, beside the workers.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Error, Result};
use punctual::{Punctual, Stats, core::StoreError};
use punctual_server::{BoundAddress, RunningServer, Server, Tls};

use tokio::time;

use crate::{
    args::{Listen, ListenArgs},
    config::Config,
};

/// Maximum duration of requests under way when the server stops.
const DRAIN: Duration = Duration::from_secs(10);

/// How long a server keeps answering after its store has failed.
const FAILURE_SHOWN: Duration = Duration::from_secs(2);

/// Returns the counters of the workers beside the server.
pub(crate) type WatchStats = Box<dyn Fn() -> Stats + Send>;

/// The counters of the workers, once they have started.
#[derive(Clone, Default)]
pub(crate) struct WorkerStats(Arc<OnceLock<Mutex<WatchStats>>>);

impl WorkerStats {
    /// Sets the source of the counters.
    pub(crate) fn watch(&self, stats: WatchStats) {
        // Called once per process, so the slot is empty.
        let _ = self.0.set(Mutex::new(stats));
    }

    fn now(&self) -> Stats {
        self.0.get().map(|stats| stats.lock().unwrap_or_else(PoisonError::into_inner)()).unwrap_or_default()
    }
}

/// Returns why the worker does not claim jobs, if it does not.
pub(crate) type WatchClaims = Box<dyn Fn() -> Option<&'static str> + Send>;

/// Whether the worker claims jobs, once it has started.
#[derive(Clone, Default)]
pub(crate) struct WorkerClaims(Arc<OnceLock<Mutex<WatchClaims>>>);

impl WorkerClaims {
    /// Sets the source.
    pub(crate) fn watch(&self, claims: WatchClaims) {
        // Called once per process, so the slot is empty.
        let _ = self.0.set(Mutex::new(claims));
    }

    fn problem(&self) -> Option<String> {
        let Some(claims) = self.0.get() else { return Some("the worker has not started yet".to_owned()) };
        claims.lock().unwrap_or_else(PoisonError::into_inner)().map(str::to_owned)
    }
}

/// Binds the address, unless the server is disabled. Comes first: a busy port must be found before anything happens.
pub(crate) fn bind(listen: Listen) -> Result<Option<BoundAddress>> {
    Ok(listen.0.map(BoundAddress::bind).transpose()?)
}

/// Starts the health endpoints of a worker.
pub(crate) async fn start_probes(
    punctual: &Punctual,
    address: Option<BoundAddress>,
    stats: WorkerStats,
    claims: WorkerClaims,
) -> Result<Option<RunningServer>> {
    let Some(address) = address else { return Ok(None) };
    let server = Server::new(punctual.clone()).probes_only();
    let server = server.metrics(move || stats.now().metrics()).ready_unless(move || claims.problem());
    Ok(Some(server.start_on(address).await?))
}

/// The server with its settings. A cleanup over HTTP uses the retention periods of the configuration.
pub(crate) fn server(config: &Config, punctual: &Punctual, args: &ListenArgs, stats: WorkerStats) -> Server {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(certificate, key)| Tls { certificate, key });
    let server = Server::new(punctual.clone()).tls(tls).insecure_http(args.insecure_http);
    server.retention(config.retention()).metrics(move || stats.now().metrics())
}

/// Starts the server on its address, unless it is disabled.
pub(crate) async fn start(server: Server, address: Option<BoundAddress>) -> Result<Option<RunningServer>> {
    let Some(address) = address else { return Ok(None) };
    // Without a higher limit, fewer connections are possible; the system reports when the limit is reached.
    if let Err(error) = punctual_server::raise_file_limit() {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    Ok(Some(server.start_on(address).await?))
}

/// Stops the server gracefully. After a failure of the store, `/readyz` reports the reason for a moment before the
/// process exits with the same error.
pub(crate) async fn stop_after(ended: &Result<()>, server: Option<RunningServer>) {
    let Some(server) = server else { return };
    let is_store =
        |error: &Error| error.is::<StoreError>() || matches!(error.downcast_ref(), Some(punctual::Error::Store(_)));
    if ended.as_ref().is_err_and(is_store) {
        time::sleep(FAILURE_SHOWN).await;
    }
    server.stop(DRAIN).await;
}
