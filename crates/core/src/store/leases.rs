//! Leases of running executions, their progress and logs.

use std::time::Duration;

use crate::{AttemptId, Claim, LogLine, Progress, WorkerId, store::StoreResult};

port! {
    /// Leases of running executions, their progress and logs.
    pub trait LeaseStore {
        /// Extends the leases of `attempts` to `lease` from now, unless they last longer already. Returns for each, in
        /// order, whether the worker still holds it; a lease that had expired when the extension was requested is lost,
        /// even if the job was not taken yet.
        async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

        /// Returns for each of `attempts`, in order, whether it is still in progress and held by this worker.
        async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

        /// Releases the [slots](crate::limiter::OccupiedSlot) of executions whose jobs were cancelled: their handlers
        /// have ended, or are no longer waited for. Applies only to executions of this worker; an execution that
        /// occupies no slot is ignored.
        async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()>;

        /// Stores the progress and log lines of running handlers. Progress is stored only while the fence holds; log
        /// lines always. A line that is sent again, with the same number and time, is stored once.
        async fn report_progress(&self, notes: Vec<ProgressReport>) -> StoreResult<()>;

        /// Claims whose leases have expired, longest overdue first, at most `limit`. The caller settles them as lost.
        async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>>;

        /// Promotes due scheduled and retrying jobs to queued, at most `limit`; returns how many.
        async fn promote(&self, limit: usize) -> StoreResult<usize>;
    }
}

/// Progress and log lines of a running handler.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// The execution.
    pub attempt: AttemptId,
    /// The worker.
    pub worker: WorkerId,
    /// The progress.
    pub progress: Option<Progress>,
    /// The log lines, with the number of each, from 1.
    pub lines: Vec<(u32, LogLine)>,
}
