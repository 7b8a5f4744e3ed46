//! Reading jobs.

use serde::{Deserialize, Serialize};

use crate::{
    Attempt, Changes, Event, Filter, Job, JobId, JobPage, LogLine, Page, Status, Timestamp, measure::Rollup,
    store::StoreResult,
};

port! {
    /// Reading jobs.
    pub trait JobReader {
        /// The job with this id.
        async fn get(&self, id: JobId) -> StoreResult<Option<Job>>;

        /// A page of the jobs that `filter` selects, in its [`order`](Filter::order).
        async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage>;

        /// The histories of jobs, in the same order; that of an unknown job is empty. For one job see
        /// [`history`](super::Store::history).
        async fn histories(&self, jobs: Vec<JobId>) -> StoreResult<Vec<History>>;

        /// The events of jobs since an earlier read, given its cursor; none without a cursor. Ordered by time, at most
        /// `limit`; further events are skipped, as are all events since a cursor that is too old, which
        /// [`Changes::missed`] reports.
        ///
        /// In a sequence of reads that continue from each other, each event is returned by exactly one read, however
        /// late it was committed. Only events of jobs that ended before the first read may be omitted: the first queued
        /// event, the start of an execution, an end that was undone.
        async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes>;

        /// The log lines of a job, oldest first, at most `limit`.
        async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>>;

        /// The number of jobs by queue, name and status. Cheap at any size of the store.
        async fn counts(&self) -> StoreResult<Vec<Count>>;

        /// The number of unfinished jobs by user and name, most first, at most `limit` rows.
        async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>>;

        /// The number of jobs that died from `since` up to `until` and are still dead, by name, most first.
        async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>>;

        /// The counters of the hours from that of `since` up to `until`.
        async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>>;
    }
}

/// What has happened to a job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// Its events, oldest first.
    pub events: Vec<Event>,
    /// Its executions, oldest first, including the current one.
    pub attempts: Vec<Attempt>,
}

/// The number of jobs with the same queue, name and status.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// Their queue.
    pub queue: String,
    /// Their name.
    pub name: String,
    /// Their status.
    pub status: Status,
    /// The number.
    pub count: u64,
}

/// Unfinished jobs of a user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// User; null for jobs without a user.
    pub user_id: Option<String>,
    /// Name of the jobs.
    pub name: String,
    /// Number of jobs.
    pub count: u64,
}
