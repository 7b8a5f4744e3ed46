//! The server of the API and the dashboard, beside whatever else runs.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Error, Result};
use punctual::{
    Punctual, Stats,
    core::{StoreError, store::Metric},
};
use punctual_server::{RunningServer, Server, Tls};

use tokio::time;

use crate::args::ListenArgs;

/// How long those may take that are answered when it ends.
const DRAIN: Duration = Duration::from_secs(10);

/// How long a server whose store has failed still answers.
const FAILURE_SHOWN: Duration = Duration::from_secs(2);

/// Tells what the workers beside the server have done.
pub(crate) type WatchStats = Box<dyn Fn() -> Stats + Send>;

/// Where the server finds what the workers have done, once there are any.
#[derive(Clone, Default)]
pub(crate) struct CrewStats(Arc<OnceLock<Mutex<WatchStats>>>);

impl CrewStats {
    /// The workers are there.
    pub(crate) fn watch(&self, stats: WatchStats) {
        // There is one crew.
        let _ = self.0.set(Mutex::new(stats));
    }

    fn now(&self) -> Stats {
        self.0.get().map(|stats| stats.lock().unwrap_or_else(PoisonError::into_inner)()).unwrap_or_default()
    }
}

/// Starts it, unless it is not wanted.
pub(crate) async fn start(punctual: &Punctual, args: &ListenArgs, stats: CrewStats) -> Result<Option<RunningServer>> {
    let Some(address) = args.listen.0 else { return Ok(None) };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(certificate, key)| Tls { certificate, key });
    // Without it there are fewer connections; who has too few is told by the system.
    if let Err(error) = punctual_server::raise_file_limit() {
        tracing::warn!(%error, "cannot have more files open than by default");
    }
    let server = Server::new(punctual.clone()).tls(tls).insecure_http(args.insecure_http);
    let server = server.metrics(move || metrics(stats.now()));
    Ok(Some(server.start(address).await?))
}

/// Ends it in order. After a failure of the store, `/readyz` says why for a moment, before the process ends with the
/// same error.
pub(crate) async fn stop_after(ended: &Result<()>, server: Option<RunningServer>) {
    let Some(server) = server else { return };
    let is_store =
        |error: &Error| error.is::<StoreError>() || matches!(error.downcast_ref(), Some(punctual::Error::Store(_)));
    if ended.as_ref().is_err_and(is_store) {
        time::sleep(FAILURE_SHOWN).await;
    }
    server.stop(DRAIN).await;
}

fn metrics(stats: Stats) -> Vec<Metric> {
    let total = |name, about, count: u64| Metric::new(name, about, count as f64);
    vec![
        total("punctual_worker_claimed_total", "Jobs that the workers of this server took.", stats.claimed),
        total("punctual_worker_stale_settles_total", "Their settles that came too late to count.", stats.stale),
        total(
            "punctual_worker_lost_leases_total",
            "Leases that they lost, or jobs that were cancelled while they ran.",
            stats.lost_leases,
        ),
        total("punctual_worker_reaped_total", "Jobs of lost workers that were returned to the queue.", stats.reaped),
        total("punctual_schedule_occurrences_total", "Occurrences of schedules that they enqueued.", stats.occurrences),
        total("punctual_schedule_misfires_total", "Schedules that they found to have misfired.", stats.misfires),
    ]
}
