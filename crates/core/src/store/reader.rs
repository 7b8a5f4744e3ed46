//! What is read of jobs.

use serde::Serialize;

use crate::{
    Attempt, Changes, Event, Filter, Job, JobId, JobPage, LogLine, Page, Status, Timestamp, measure::Rollup,
    store::StoreResult,
};

port! {
    /// What is read of jobs.
    pub trait JobReader {
        /// The job with that id.
        async fn get(&self, id: JobId) -> StoreResult<Option<Job>>;

        /// A page of the jobs that `filter` selects, in its [`order`](Filter::order).
        async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage>;

        /// The executions of a job, oldest first, the one under way included.
        async fn attempts(&self, job: JobId) -> StoreResult<Vec<Attempt>>;

        /// The events of a job, oldest first.
        async fn events(&self, job: JobId) -> StoreResult<Vec<Event>>;

        /// What happened to jobs since a former look, whose cursor is given; nothing, if there was none. In the order
        /// of time, at most `limit`; what is more than that is passed over, as is everything since a look that was too
        /// long ago, and [`Changes::missed`] says so.
        ///
        /// Whatever happened to a job is told by exactly one of the looks that go on from each other, however late it
        /// was committed. Only of what was over before anybody looked, something may be left out: that it was queued at
        /// first, that an execution began, an end that was taken back.
        async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes>;

        /// The log lines of a job, oldest first, at most `limit`.
        async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>>;

        /// How many jobs there are, by queue, name and status. Cheap at any size of the store.
        async fn counts(&self) -> StoreResult<Vec<Count>>;

        /// How many unfinished jobs there are by user and name, most first, at most `limit` rows.
        async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>>;

        /// How many jobs died from `since` up to `until` and are still dead, by name, most first.
        async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>>;

        /// What was counted in the hours from that of `since` up to `until`.
        async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>>;
    }
}

/// How many jobs of one kind there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// Their queue.
    pub queue: String,
    /// Their name.
    pub name: String,
    /// Their status.
    pub status: Status,
    /// How many.
    pub count: u64,
}

/// How many unfinished jobs a user has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The user; nothing for the jobs of nobody in particular.
    pub user_id: Option<String>,
    /// The jobs' name.
    pub name: String,
    /// How many.
    pub count: u64,
}
