//! Who sees to it that jobs run.

use anyhow::Result;
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

    /// Ends, with the reason, when nobody can do any work.
    pub(crate) async fn given_up(&mut self) -> String {
        match self {
            Self::Worker(_) => std::future::pending().await,
            Self::Processes(supervisor) => supervisor.given_up().await,
        }
    }

    pub(crate) async fn stop(self) -> Result<()> {
        match self {
            Self::Worker(worker) => work::stop(worker).await,
            Self::Processes(supervisor) => serve::stop(supervisor).await,
        }
    }
}
