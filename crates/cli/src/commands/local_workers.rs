//! The workers that `up` and `serve` start.

use anyhow::{Error, Result, anyhow};
use punctual::{Punctual, RunningSupervisor, RunningWorker, Stats};

use crate::{
    commands::{http::WatchStats, work},
    format,
};

/// A worker in this process, or separate worker processes.
pub(crate) enum LocalWorkers {
    Worker(RunningWorker),
    Processes(RunningSupervisor),
}

impl LocalWorkers {
    /// Starts the workers once the store can be written; returns `None` after a stop signal.
    pub(crate) async fn start(
        punctual: &Punctual,
        stop_signal: impl Future<Output = ()>,
        make: impl AsyncFnOnce() -> Result<Self>,
    ) -> Result<Option<Self>> {
        tokio::select! {
            () = stop_signal => Ok(None),
            () = punctual.until_writable() => make().await.map(Some),
        }
    }

    pub(crate) fn watch_stats(&self) -> WatchStats {
        match self {
            Self::Worker(worker) => Box::new(worker.watch_stats()),
            Self::Processes(supervisor) => Box::new(supervisor.watch_stats()),
        }
    }

    /// Waits until no worker can continue, and returns the reason.
    pub(crate) async fn failed(&mut self) -> Error {
        match self {
            Self::Worker(worker) => worker.failed().await.into(),
            Self::Processes(supervisor) => tokio::select! {
                error = supervisor.failed() => error.into(),
                reason = supervisor.given_up() => anyhow!("no worker process can start: {reason}"),
            },
        }
    }

    /// Stops gracefully, or at once after an error that [`failed`](Self::failed) returned.
    pub(crate) async fn end(self, ended: Result<()>, json: bool) -> Result<()> {
        match (self, &ended) {
            (Self::Worker(worker), Ok(())) => return work::stop(worker, json).await,
            (Self::Processes(supervisor), Ok(())) => return stop_processes(supervisor, json).await,
            (Self::Worker(worker), Err(_)) => drop(worker.stop_now().await),
            (Self::Processes(supervisor), Err(_)) => drop(supervisor.stop(std::future::ready(())).await),
        }
        ended
    }
}

/// Stops all processes gracefully; a second signal stops them at once.
async fn stop_processes(supervisor: RunningSupervisor, json: bool) -> Result<()> {
    let (Stats { running, .. }, again) = (supervisor.stats(), work::stop_signal()?);
    eprintln!("draining: {} jobs are running; interrupt again to end now", format::number(running));
    let stats = supervisor.stop(again).await;
    work::print_done("all worker processes", stats, json)
}
