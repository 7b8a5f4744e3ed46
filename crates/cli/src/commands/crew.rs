//! Who sees to it that jobs run.

use anyhow::{Error, Result, anyhow};
use punctual::{RunningSupervisor, RunningWorker};

use super::{http::WatchStats, serve, work};

/// A worker in this process, or processes of their own.
pub(crate) enum Crew {
    Worker(RunningWorker),
    Processes(RunningSupervisor),
}

impl Crew {
    pub(crate) fn watch_stats(&self) -> WatchStats {
        match self {
            Self::Worker(worker) => Box::new(worker.watch_stats()),
            Self::Processes(supervisor) => Box::new(supervisor.watch_stats()),
        }
    }

    /// Waits until no work can be done any more, and says why.
    pub(crate) async fn failed(&mut self) -> Error {
        match self {
            Self::Worker(worker) => worker.failed().await.into(),
            Self::Processes(supervisor) => tokio::select! {
                error = supervisor.failed() => error.into(),
                reason = supervisor.given_up() => anyhow!("no worker process can start: {reason}"),
            },
        }
    }

    /// Ends at once after [`failed`](Self::failed).
    pub(crate) async fn abandon(self) {
        match self {
            Self::Worker(worker) => drop(worker.stop_now().await),
            Self::Processes(supervisor) => drop(supervisor.stop(std::future::ready(())).await),
        }
    }

    pub(crate) async fn stop(self) -> Result<()> {
        match self {
            Self::Worker(worker) => work::stop(worker).await,
            Self::Processes(supervisor) => serve::stop(supervisor).await,
        }
    }
}
