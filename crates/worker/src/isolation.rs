//! Isolation of suspects: jobs that were running at a crash and may crash their process again.

use std::sync::Arc;

use punctual_core::Job;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

/// Environment variable by which a [`Supervisor`](crate::Supervisor) tells a worker process which suspects it runs.
pub(crate) const VARIABLE: &str = "PUNCTUAL_ISOLATION";

/// Which suspects a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// One suspect beside other jobs; from its second crash on, a suspect runs alone.
    Beside,
    /// None: the supervisor has separate processes for suspects.
    Elsewhere,
    /// Only suspects, one after the other: this is such a process.
    Only,
}

impl Isolation {
    /// The value set by the supervisor, or the default without a supervisor.
    pub(crate) fn of_process() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Ok("elsewhere") => Self::Elsewhere,
            Ok("only") => Self::Only,
            _ => Self::Beside,
        }
    }

    /// The value that [`of_process`](Self::of_process) reads.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Beside => "beside",
            Self::Elsewhere => "elsewhere",
            Self::Only => "only",
        }
    }
}

/// Isolates suspects within one process.
#[derive(Debug)]
pub(crate) struct Isolator {
    isolation: Isolation,
    /// Held by the one suspect that runs.
    suspect: Arc<Semaphore>,
    /// Every execution holds a read lock; a job that runs alone holds the write lock. A waiting writer precedes later
    /// readers.
    process: Arc<RwLock<()>>,
}

/// The lock that an execution holds while its handler runs.
#[derive(Debug)]
#[expect(dead_code, reason = "held, not read")]
pub(crate) enum Share {
    All(OwnedRwLockWriteGuard<()>),
    Some(OwnedRwLockReadGuard<()>),
}

impl Isolator {
    pub(crate) fn new(isolation: Isolation) -> Self {
        Self { isolation, suspect: Arc::new(Semaphore::new(1)), process: Arc::default() }
    }

    /// A permit to run one more suspect, if this worker may run one now.
    pub(crate) fn may_claim_suspect(&self) -> Option<OwnedSemaphorePermit> {
        let runs = self.isolation == Isolation::Beside;
        runs.then(|| Arc::clone(&self.suspect).try_acquire_owned().ok()).flatten()
    }

    /// Whether this worker runs only suspects.
    pub(crate) fn is_for_suspects(&self) -> bool {
        self.isolation == Isolation::Only
    }

    /// Whether the job runs alone in this process.
    pub(crate) fn runs_alone(&self, job: &Job) -> bool {
        self.isolation == Isolation::Beside && job.runs_alone()
    }

    /// The lock that a job needs to run, if it is free.
    pub(crate) fn free_share(&self, job: &Job) -> Option<Share> {
        let process = Arc::clone(&self.process);
        match self.runs_alone(job) {
            true => process.try_write_owned().ok().map(Share::All),
            false => process.try_read_owned().ok().map(Share::Some),
        }
    }

    /// Waits for the lock that a job needs to run.
    pub(crate) async fn share(&self, job: &Job) -> Share {
        let process = Arc::clone(&self.process);
        match self.runs_alone(job) {
            true => Share::All(process.write_owned().await),
            false => Share::Some(process.read_owned().await),
        }
    }
}
