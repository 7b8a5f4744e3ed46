//! Which days are old enough to be replaced by retention, and the lock that keeps them unchanged meanwhile.

use std::time::Duration;

use punctual_core::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection};

use super::partitions::Day;

/// Number of days after its end before a day is replaced. Adding jobs to such a day takes [a lock](share).
const SETTLED_DAYS: i64 = 3;
/// How often a transaction tries to take the lock exclusively.
const LOCK_TRIES_MAX: usize = 20;

/// The advisory lock that keeps old days unchanged. Transactions that add jobs to old days, or reactivate their jobs,
/// share it.
const OLD_DAYS: &str = "hashtext('punctual old days'), hashtext(current_schema())";

/// Keeps old days from being replaced until the transaction ends, and records that they change.
pub(crate) async fn share(connection: &mut PgConnection) -> sqlx::Result<()> {
    // The number is drawn under the lock, so that a transaction that holds the lock exclusively and reads the number
    // knows all changes up to then.
    let share = format!(
        "select pg_advisory_xact_lock_shared({OLD_DAYS}); select nextval('punctual_dropped_partitions_changes')"
    );
    sqlx::raw_sql(AssertSqlSafe(share)).execute(connection).await.map(drop)
}

/// The number of the last change to old days.
pub(crate) async fn last_change(connection: &mut PgConnection) -> sqlx::Result<i64> {
    let last = "select case when is_called then last_value else 0 end from punctual_dropped_partitions_changes";
    sqlx::query_scalar(last).fetch_one(connection).await
}

/// Waits for changes of old days to commit, and blocks new ones until this transaction ends. False if it timed out.
pub(crate) async fn keep_unchanged(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let lock = format!("select pg_try_advisory_xact_lock({OLD_DAYS})");
    for _ in 0..LOCK_TRIES_MAX {
        if sqlx::query_scalar(AssertSqlSafe(lock.clone())).fetch_one(&mut *connection).await? {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(10..100))).await;
    }
    tracing::warn!("old jobs are changed all the time: what has gone of old days will be removed later");
    Ok(false)
}

/// Whether a day may be replaced, now or soon.
pub(crate) fn is_old(day: Day, now: Timestamp) -> bool {
    day.plus(SETTLED_DAYS - 1) < Day::of(now)
}

/// Whether `change` is still the last change to old days. Blocks further changes until the transaction ends.
pub(crate) async fn is_undisturbed(connection: &mut PgConnection, change: i64) -> sqlx::Result<bool> {
    Ok(keep_unchanged(connection).await? && last_change(connection).await? == change)
}
