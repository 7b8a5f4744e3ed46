//! The server of the API and the dashboard, beside the workers.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Error, Result};
use punctual::{Punctual, Stats, core::StoreError};
use punctual_server::{RunningServer, Server, Tls};

use tokio::time;

use crate::{args::ListenArgs, config::Config};

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

/// Starts the server, unless it is disabled.
pub(crate) async fn start(
    config: &Config,
    punctual: &Punctual,
    args: &ListenArgs,
    stats: WorkerStats,
) -> Result<Option<RunningServer>> {
    let Some(address) = args.listen.0 else { return Ok(None) };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(certificate, key)| Tls { certificate, key });
    // Without a higher limit, fewer connections are possible; the system reports when the limit is reached.
    if let Err(error) = punctual_server::raise_file_limit() {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    let server = Server::new(punctual.clone()).tls(tls).insecure_http(args.insecure_http);
    let server = server.retention(config.retention()).metrics(move || stats.now().metrics());
    Ok(Some(server.start(address).await?))
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
