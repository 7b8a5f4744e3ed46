//! The server of the API and the dashboard, beside whatever else runs.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Error, Result};
use punctual::{
    Punctual, Stats,
    core::{StoreError, store::Vital},
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

/// Starts it, unless it is not wanted.
pub(crate) async fn start(punctual: &Punctual, args: &ListenArgs, stats: WatchStats) -> Result<Option<RunningServer>> {
    let Some(address) = args.listen.0 else { return Ok(None) };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(certificate, key)| Tls { certificate, key });
    // Without it there are fewer connections; who has too few is told by the system.
    if let Err(error) = punctual_server::raise_file_limit() {
        tracing::warn!(%error, "cannot have more files open than by default");
    }
    let stats = Mutex::new(stats);
    let vitals = move || vitals(stats.lock().unwrap_or_else(PoisonError::into_inner)());
    let server = Server::new(punctual.clone()).tls(tls).insecure_http(args.insecure_http).vitals(vitals);
    Ok(Some(server.start(address).await?))
}

/// Ends it in order.
pub(crate) async fn stop(server: Option<RunningServer>) {
    if let Some(server) = server {
        server.stop(DRAIN).await;
    }
}

/// After a failure of the store: `/readyz` says why for a moment, before the process ends with the same error.
pub(crate) async fn let_probes_see(error: &Error) {
    if error.is::<StoreError>() {
        time::sleep(FAILURE_SHOWN).await;
    }
}

fn vitals(stats: Stats) -> Vec<Vital> {
    let total = |name, about, count: u64| Vital::new(name, about, count as f64);
    vec![
        total("punctual_worker_claimed_total", "Jobs that the workers of this server took.", stats.claimed),
        total("punctual_worker_stale_settles_total", "Their settles that came too late to count.", stats.stale),
        total(
            "punctual_worker_lost_leases_total",
            "Leases that they lost, or jobs that were cancelled while they ran.",
            stats.lost_leases,
        ),
        total("punctual_worker_reaped_total", "Jobs of vanished workers that they put back.", stats.reaped),
        total("punctual_schedule_occurrences_total", "Occurrences of schedules that they enqueued.", stats.occurrences),
        total("punctual_schedule_misfires_total", "Schedules that they found to have misfired.", stats.misfires),
    ]
}
