//! Removing what has been kept long enough. Each call does a bounded amount of work and says how much.

use std::time::Duration;

use crate::{Status, Timestamp, store::StoreResult};

port! {
    /// Removing what has been kept long enough. Each call does a bounded amount of work and says how much.
    pub trait RetentionStore {
        /// Makes finished jobs deleted once they are older than `keep` says, or than they say themselves.
        async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize>;

        /// Removes deleted jobs, with all that belongs to them, once they have been deleted for `after`.
        async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize>;

        /// Removes attempts and logs that ended longer than `after` ago, looking at `limit` of the oldest; and workers,
        /// counters, sessions and tokens out of time and requests past their [limits](crate::limits). The last token
        /// that was made stays, expired or not: it shows that the store is closed.
        async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize>;

        /// Removes ephemeral jobs that were enqueued before that instant and that nobody is running.
        async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize>;

        /// Removes whole days of jobs at once, where an engine keeps jobs by day and most of a day's have been kept
        /// long enough: finished for as long as `keep` says, then `deleted` more. Such an engine leaves jobs of large
        /// days out of [`expire`](Self::expire), unless something is kept for less than a day.
        async fn drop_partitions(&self, keep: RetentionPolicy, deleted: Duration) -> StoreResult<usize>;
    }
}

/// How long finished jobs are kept before they are deleted, unless they say otherwise themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Those that succeeded.
    pub succeeded: Duration,
    /// Those that died.
    pub dead: Duration,
    /// Those that were cancelled.
    pub cancelled: Duration,
}

impl RetentionPolicy {
    /// The time for jobs of that status.
    pub const fn of(&self, status: Status) -> Duration {
        match status {
            Status::Succeeded => self.succeeded,
            Status::Dead => self.dead,
            _ => self.cancelled,
        }
    }
}

impl Default for RetentionPolicy {
    /// A week for what succeeded or was cancelled, ninety days for what died.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self { succeeded: 7 * DAY, dead: 90 * DAY, cancelled: 7 * DAY }
    }
}
