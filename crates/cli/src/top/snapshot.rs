//! A snapshot of the store, as the screen shows it.

use std::collections::BTreeMap;

use punctual::{
    Status, Timestamp,
    admin::{JobView, QueueView},
};
use serde::Serialize;

use super::rates::Totals;

/// A snapshot of the store.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Snapshot {
    /// Time of the snapshot, by the store's clock.
    pub(crate) at: Timestamp,
    /// Number of jobs by status.
    pub(crate) jobs: BTreeMap<Status, u64>,
    pub(crate) workers: Workers,
    /// The job that has been due for longest and has not started.
    pub(crate) oldest: Option<Oldest>,
    pub(crate) queues: Vec<QueueRow>,
    pub(crate) running: JobRows,
    pub(crate) dead: JobRows,
    #[serde(skip)]
    pub(crate) totals: Totals,
}

/// The live workers.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Workers {
    pub(crate) live: u64,
    /// Sum of the workers' concurrency.
    pub(crate) slots: u64,
}

/// The job that has been due for longest.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Oldest {
    pub(crate) queue: String,
    pub(crate) due_ms: u64,
}

/// A queue, and how long its oldest queued job has been due.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct QueueRow {
    #[serde(flatten)]
    pub(crate) queue: QueueView,
    /// `None` if no job is queued, or if the queue was not queried because there are too many queues.
    pub(crate) oldest_due_ms: Option<u64>,
}

/// The first jobs of a list.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct JobRows {
    pub(crate) jobs: Vec<JobView>,
    /// Whether there are more jobs.
    pub(crate) more: bool,
}
