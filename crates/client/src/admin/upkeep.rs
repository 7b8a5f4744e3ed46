//! Retention: finished jobs are deleted after their retention period, deleted jobs are purged later.

use std::time::Duration;

use punctual_core::{Error, RetentionPolicy};
use serde::{Deserialize, Serialize};

use super::Admin;

/// Retention periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Finished jobs, until they are marked as deleted.
    pub keep: RetentionPolicy,
    /// Deleted jobs, until they are purged.
    pub deleted: Duration,
    /// Attempts and logs.
    pub history: Duration,
    /// Notifications.
    pub notifications: Duration,
}

impl Default for Retention {
    /// Seven days for succeeded and cancelled jobs and for notifications, ninety days for dead jobs and for attempts
    /// and logs; deleted jobs are purged after one more day.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self { keep: RetentionPolicy::default(), deleted: DAY, history: 90 * DAY, notifications: 7 * DAY }
    }
}

/// The result of a retention run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CleanupDone {
    /// Finished jobs that were marked as deleted.
    pub deleted: usize,
    /// Deleted jobs that were purged.
    pub purged: usize,
    /// Attempts, log lines, notifications and similar rows that were removed.
    pub trimmed: usize,
}

/// Maximum number of jobs per transaction, so that claims wait only briefly.
const BATCH_MAX_JOBS: usize = 500;

impl Admin {
    /// Runs retention to its end, in small transactions. `on_step` receives the totals after each step.
    pub async fn cleanup(
        &self,
        retention: Retention,
        mut on_step: impl FnMut(CleanupDone),
    ) -> Result<CleanupDone, Error> {
        let store = self.punctual.store();
        let purged = store.drop_partitions(retention.keep, retention.deleted).await?;
        let mut done = CleanupDone { purged, ..CleanupDone::default() };
        loop {
            let deleted = store.expire(retention.keep, BATCH_MAX_JOBS).await?;
            let purged = store.purge(retention.deleted, BATCH_MAX_JOBS).await?;
            let trimmed = store.prune(retention.history, 10 * BATCH_MAX_JOBS).await?
                + store.drop_notifications(retention.notifications, BATCH_MAX_JOBS).await?;
            done.deleted += deleted;
            done.purged += purged;
            done.trimmed += trimmed;
            on_step(done);
            if deleted + purged + trimmed == 0 {
                return Ok(done);
            }
            // Other users of the store get a turn between two steps.
            tokio::task::yield_now().await;
        }
    }
}
