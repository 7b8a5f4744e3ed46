//! What keeps an execution under way, and what is known of it meanwhile.

use std::time::Duration;

use crate::{AttemptId, Claim, LogLine, Progress, WorkerId, store::StoreResult};

port! {
    /// What keeps an execution under way, and what is known of it meanwhile.
    pub trait LeaseStore {
        /// Moves the leases of `attempts` to `lease` from now, unless they last longer already. Answers for each, in
        /// order, whether the worker still holds it; a lease that had run out when this was asked for is lost, even if
        /// nobody has taken the job yet.
        async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

        /// Answers for each of `attempts`, in order, whether it is still under way in this worker's hands.
        async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

        /// Releases the [slots](crate::limiter::OccupiedSlot) of executions whose jobs were cancelled: their handlers
        /// have ended, or are not waited for any longer. Only those of this worker; an execution that occupies no slot
        /// changes nothing.
        async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()>;

        /// Keeps what running handlers say of themselves. Progress counts only while the fence holds; logs always. A
        /// line that is sent again, with its number and its time, is kept once.
        async fn report_progress(&self, notes: Vec<ProgressReport>) -> StoreResult<()>;

        /// Claims whose lease has run out, longest overdue first, at most `limit`. The caller settles them as lost.
        async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>>;

        /// Makes due scheduled and retrying jobs queued, at most `limit`; says how many.
        async fn promote(&self, limit: usize) -> StoreResult<usize>;
    }
}

/// What a running handler says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// The execution.
    pub attempt: AttemptId,
    /// Who executes it.
    pub worker: WorkerId,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// What it logged, with the number of each line, from 1.
    pub lines: Vec<(u32, LogLine)>,
}
