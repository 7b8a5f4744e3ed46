//! Retention: finished jobs are deleted after their time, deleted ones are purged.

use std::time::Duration;

use punctual_core::{Error, RetentionPolicy};
use serde::Serialize;

use super::Admin;

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Finished jobs, until they are deleted.
    pub keep: RetentionPolicy,
    /// Deleted jobs, until they are purged.
    pub deleted: Duration,
    /// Attempts and logs.
    pub history: Duration,
    /// What users were told.
    pub notifications: Duration,
}

impl Default for Retention {
    /// A week for what succeeded or was cancelled and for what users were told, ninety days for what died and for
    /// attempts and logs, a day more for what was deleted.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self { keep: RetentionPolicy::default(), deleted: DAY, history: 90 * DAY, notifications: 7 * DAY }
    }
}

/// What retention did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CleanupDone {
    /// Finished jobs that are now deleted.
    pub deleted: usize,
    /// Deleted jobs that are gone.
    pub purged: usize,
    /// Attempts, log lines, notifications and the like that are gone.
    pub trimmed: usize,
}

/// What one transaction of retention touches, so that claims wait only briefly.
const BATCH_MAX_JOBS: usize = 500;

impl Admin {
    /// Does all that retention has to do, in small steps. `on_step` is told how far it is.
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
            // Between two steps whoever waits for the store gets a turn.
            tokio::task::yield_now().await;
        }
    }
}
