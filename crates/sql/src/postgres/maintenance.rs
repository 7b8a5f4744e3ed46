//! The engine's own maintenance, most of which runs in one process of the fleet.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    core::Core,
    partition_creation::{self, Effort},
    partitions::Day,
    rollups,
};
use crate::ops::locks;

/// Tables whose rows are inserted and deleted at a high rate. They are vacuumed often, because scans step over dead
/// rows; autovacuum would run once per minute.
const NARROW_TABLES: [&str; 12] = [
    "punctual_ready",
    "punctual_running",
    "punctual_due",
    "punctual_keys",
    "punctual_limit_heads",
    "punctual_occupied_slots",
    "punctual_limit_wakeups",
    "punctual_limit_starts",
    "punctual_limit_fairness",
    "punctual_counts_new",
    "punctual_pending_new",
    "punctual_rollups_new",
];
const VACUUM_EVERY: Duration = Duration::from_secs(5);
/// How often each process refreshes its clock and its partitions, and partitions are created ahead.
const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// The lock of the process that runs maintenance, and its time to live.
const LOCK: (&str, Duration) = ("punctual.upkeep", Duration::from_secs(10));

pub(crate) async fn maintain(core: &Core) -> sqlx::Result<()> {
    // State that each process caches for itself.
    let refresh = core.maintenance.is_refresh_due(REFRESH_EVERY);
    if refresh || core.server_clock.is_in_doubt() {
        let mut unit = core.sessions.single().await?;
        core.server_clock.measure(&mut unit).await?;
        core.days.refresh(&mut unit).await?;
        unit.done().await?;
    }
    let lock = core.edit_one(|edit| locks::lock(edit, LOCK.0, core.maintenance.owner(), LOCK.1)).await?;
    if lock.is_none() {
        return Ok(());
    }
    rollups::roll_up(core).await?;
    let mut unit = core.sessions.single().await?;
    for table in core.maintenance.cleared_lately() {
        core.maintenance.stayed(table, gone(&mut unit, table).await?);
    }
    unit.done().await?;
    if core.maintenance.is_vacuum_due(VACUUM_EVERY) && !core.options.transaction_pooler {
        vacuum(core).await?;
    }
    if refresh {
        make_days(core, Effort::Any).await?;
    }
    Ok(())
}

/// Removes dead rows from the narrow tables.
async fn vacuum(core: &Core) -> sqlx::Result<()> {
    let mut unit = core.sessions.single().await?;
    for table in NARROW_TABLES {
        if !core.maintenance.is_worth_clearing(table, gone(&mut unit, table).await?) {
            continue;
        }
        let vacuum = format!("vacuum (skip_locked, index_cleanup on, truncate off) {table}");
        sqlx::raw_sql(AssertSqlSafe(vacuum)).execute(&mut *unit).await?;
        core.maintenance.cleared(table);
    }
    unit.done().await
}

/// The number of dead rows of a table, which the server's statistics show with a short delay.
async fn gone(connection: &mut PgConnection, table: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar("select pg_stat_get_dead_tuples(to_regclass($1))").bind(table).fetch_one(connection).await
}

/// Creates the partitions of today and of the days ahead.
pub(crate) async fn make_days(core: &Core, effort: Effort) -> sqlx::Result<()> {
    let today = Day::of(core.clock_now());
    for ahead in 0..=i64::from(core.options.days_ahead) {
        let day = today.plus(ahead);
        if !core.days.has(day) {
            partition_creation::create(core, day, effort).await?;
        }
    }
    Ok(())
}
