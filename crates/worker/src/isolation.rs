//! Which of the jobs that were running at a crash a worker runs, and beside what: they may crash their process again.

use std::sync::Arc;

use punctual_core::Job;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock, Semaphore};

/// Tells a process of a [`Supervisor`](crate::Supervisor) which suspects it runs.
pub(crate) const VARIABLE: &str = "PUNCTUAL_ISOLATION";

/// Which suspects a worker runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// One at a time beside other jobs; from its second crash on a suspect runs alone.
    Beside,
    /// None: its supervisor keeps a process for them.
    Elsewhere,
    /// Only suspects, one after the other: it is that process.
    Only,
}

impl Isolation {
    /// As its supervisor says, if it has one.
    pub(crate) fn of_process() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Ok("elsewhere") => Self::Elsewhere,
            Ok("only") => Self::Only,
            _ => Self::Beside,
        }
    }

    /// As [`of_process`](Self::of_process) reads it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Beside => "beside",
            Self::Elsewhere => "elsewhere",
            Self::Only => "only",
        }
    }
}

/// What keeps suspects apart within one process.
#[derive(Debug)]
pub(crate) struct Isolator {
    isolation: Isolation,
    /// Whoever has a suspect in hand.
    suspect: Arc<Semaphore>,
    /// All that runs has a share; what runs alone has it whole. Who waits for all of it comes before those who come
    /// later.
    process: Arc<RwLock<()>>,
}

/// What an execution has of its process while its handler runs.
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

    /// The right to one suspect more, if this worker may run one now.
    pub(crate) fn may_claim_suspect(&self) -> Option<OwnedSemaphorePermit> {
        let runs = self.isolation == Isolation::Beside;
        runs.then(|| Arc::clone(&self.suspect).try_acquire_owned().ok()).flatten()
    }

    /// Whether suspects are all that it runs.
    pub(crate) fn is_for_suspects(&self) -> bool {
        self.isolation == Isolation::Only
    }

    /// Whether the job runs alone in this process.
    pub(crate) fn runs_alone(&self, job: &Job) -> bool {
        self.isolation == Isolation::Beside && job.runs_alone()
    }

    /// The share of the process that a job needs to run, if it is free.
    pub(crate) fn free_share(&self, job: &Job) -> Option<Share> {
        let process = Arc::clone(&self.process);
        match self.runs_alone(job) {
            true => process.try_write_owned().ok().map(Share::All),
            false => process.try_read_owned().ok().map(Share::Some),
        }
    }

    /// Waits until it is.
    pub(crate) async fn share(&self, job: &Job) -> Share {
        let process = Arc::clone(&self.process);
        match self.runs_alone(job) {
            true => Share::All(process.write_owned().await),
            false => Share::Some(process.read_owned().await),
        }
    }
}
