//! Storing jobs, and changing them by operator actions.

use serde::{Deserialize, Serialize};

use crate::{Change, Changed, JobId, NewJob, store::StoreResult};

port! {
    /// Storing jobs, and changing them by operator actions.
    pub trait JobStore {
        /// Stores jobs, one event each. The result has one entry for each job, in order.
        ///
        /// A job whose id exists, or whose unique key another job holds, is not stored: its entry contains the existing
        /// job. [`Unique`](crate::Unique) decides whether there is a conflict, and what it changes of the existing job.
        ///
        /// A job with parents waits for those that have not ended; [`flow::begin`](crate::flow::begin) decides what
        /// ended parents mean to it. If a parent does not exist or is deleted, none of the jobs is stored.
        async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>;

        /// Applies operator actions. Returns one result each, in order.
        ///
        /// A job that is cancelled while it runs ends at once, but its execution
        /// [occupies](crate::limiter::OccupiedSlot) its slot in a limit until
        /// [`release_slots`](crate::store::LeaseStore::release_slots) or [`settle`](crate::store::ClaimStore::settle)
        /// reports that the handler has ended, or until its lease ends, which is no longer extended.
        async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>>;
    }
}

/// Result of enqueuing a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enqueued {
    /// ID of the new or existing job.
    pub id: JobId,
    /// Whether the job existed before.
    pub existing: bool,
    /// Whether this enqueue changed the existing job, as its unique key allows.
    pub updated: bool,
}

impl Enqueued {
    /// A new job.
    pub const fn new(id: JobId) -> Self {
        Self { id, existing: false, updated: false }
    }

    /// An existing job that was not changed.
    pub const fn existing(id: JobId) -> Self {
        Self { id, existing: true, updated: false }
    }
}
