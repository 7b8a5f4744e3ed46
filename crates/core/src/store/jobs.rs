//! Jobs are stored, and changed by operators.

use serde::Serialize;

use crate::{Change, Changed, JobId, NewJob, store::StoreResult};

port! {
    /// Jobs are stored, and changed by operators.
    pub trait JobStore {
        /// Stores jobs, one event each. The answer has one entry for each job, in order.
        ///
        /// A job whose id is known, or whose unique key another job holds, is not stored: its entry names the job that
        /// is there. Whether a job is in the way, and what a conflict changes of it, [`Unique`](crate::Unique) says.
        ///
        /// A job with parents waits for those that have not ended; what those that have ended mean to it,
        /// [`flow::begin`](crate::flow::begin) says. If a parent is not there, or deleted, none of the jobs is stored.
        async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>;

        /// Applies operators' wishes. One answer each, in order.
        ///
        /// A job that is cancelled while it runs ends at once, but its execution
        /// [occupies](crate::limiter::OccupiedSlot) the slot that it has in a limit until
        /// [`release_slots`](crate::store::LeaseStore::release_slots) or [`settle`](crate::store::ClaimStore::settle)
        /// says that its handler is gone, or its lease ends, which nobody extends.
        async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>>;
    }
}

/// What became of a job that was to be enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enqueued {
    /// The job that is there now.
    pub id: JobId,
    /// Whether it was there before.
    pub existing: bool,
    /// Whether this enqueue has changed it, as its unique key says.
    pub updated: bool,
}

impl Enqueued {
    /// A job that was stored.
    pub const fn new(id: JobId) -> Self {
        Self { id, existing: false, updated: false }
    }

    /// A job that was there before, and is as it was.
    pub const fn existing(id: JobId) -> Self {
        Self { id, existing: true, updated: false }
    }
}
