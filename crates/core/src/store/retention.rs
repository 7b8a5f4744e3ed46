//! Retention: removal of old data. Each call does a bounded amount of work and returns how much.

use std::time::Duration;

use crate::{Status, Timestamp, store::StoreResult};

port! {
    /// Retention: removal of old data. Each call does a bounded amount of work and returns how much.
    pub trait RetentionStore {
        /// Deletes finished jobs once they are older than `keep`, or than their own retention.
        async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize>;

        /// Removes deleted jobs, with all their data, once they have been deleted for `after`.
        async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize>;

        /// Removes attempts and logs that ended longer than `after` ago, reading `limit` of the oldest; and workers,
        /// counters, expired sessions and tokens, and idempotent requests that are older than their
        /// [limits](crate::limits). The token that was created last is kept, expired or not: it marks the store as
        /// closed.
        async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize>;

        /// Removes ephemeral jobs that were enqueued before this instant and are not running.
        async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize>;

        /// Removes whole days of jobs at once, in engines that partition jobs by day, when the retention of most jobs
        /// of a day has passed: finished for as long as `keep` defines, then deleted for `deleted`. Such an engine
        /// excludes jobs of large days from [`expire`](Self::expire), unless some retention is shorter than a day.
        async fn drop_partitions(&self, keep: RetentionPolicy, deleted: Duration) -> StoreResult<usize>;
    }
}

/// Retention of finished jobs before they are deleted, unless a job has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Jobs that succeeded.
    pub succeeded: Duration,
    /// Jobs that died.
    pub dead: Duration,
    /// Jobs that were cancelled.
    pub cancelled: Duration,
}

impl RetentionPolicy {
    /// The retention of jobs with this status.
    pub const fn of(&self, status: Status) -> Duration {
        match status {
            Status::Succeeded => self.succeeded,
            Status::Dead => self.dead,
            _ => self.cancelled,
        }
    }
}

impl Default for RetentionPolicy {
    /// 7 days for succeeded and cancelled jobs, 90 days for dead jobs.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self { succeeded: 7 * DAY, dead: 90 * DAY, cancelled: 7 * DAY }
    }
}
