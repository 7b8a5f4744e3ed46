//! The engine's own maintenance, most of which runs in one process of the fleet.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    change,
    core::Core,
    partition_creation::{self, Effort},
    partitions::Day,
};
use crate::ops::registry;

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
/// The interval for a table in which VACUUM could remove nothing: a transaction is open, and each attempt reads the
/// whole table.
const VACUUM_IN_VAIN_EVERY: Duration = Duration::from_secs(60);
/// Fewer dead rows are not worth a VACUUM.
const FEW_ROWS: i64 = 2_000;
/// How often each process refreshes its clock and its partitions, and partitions are created ahead.
const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// The lock of the process that runs maintenance, and its time to live.
const LOCK: (&str, Duration) = ("punctual.upkeep", Duration::from_secs(10));

/// The name under which this process takes the lock, and when each task was last executed.
#[derive(Debug)]
pub(crate) struct Maintenance {
    owner: String,
    done: Mutex<LastRuns>,
}

#[derive(Debug)]
struct LastRuns {
    vacuum: Option<Instant>,
    refresh: Option<Instant>,
    /// By table: when it was last vacuumed, and how many dead rows remained, once the server's statistics show it.
    cleared: HashMap<&'static str, (Instant, Option<i64>)>,
    /// Events before this time no longer contain data of executions.
    trimmed_until: Timestamp,
}

impl Maintenance {
    pub(crate) fn new() -> Self {
        Self {
            owner: format!("{:032x}", fastrand::u128(..)),
            done: Mutex::new(LastRuns {
                vacuum: None,
                refresh: None,
                cleared: HashMap::new(),
                trimmed_until: Timestamp::MIN,
            }),
        }
    }

    pub(crate) fn trimmed_until(&self) -> Timestamp {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).trimmed_until
    }

    /// Records that the data of executions was removed from events up to this time.
    pub(crate) fn trimmed(&self, until: Timestamp) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).trimmed_until = until;
    }

    /// Whether a table with this number of dead rows is worth vacuuming.
    fn is_worth_clearing(&self, table: &'static str, gone: i64) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let last = done.cleared.get(table).copied();
        let (since, stayed) = last.map_or((Duration::MAX, None), |(at, stayed)| (at.elapsed(), stayed));
        gone > FEW_ROWS && (gone >= 2 * stayed.unwrap_or_default() || since >= VACUUM_IN_VAIN_EVERY)
    }

    /// The tables that were vacuumed since the number of remaining rows was last read.
    fn cleared_lately(&self) -> Vec<&'static str> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.cleared.iter().filter(|(_, (_, stayed))| stayed.is_none()).map(|(table, _)| *table).collect()
    }

    fn cleared(&self, table: &'static str) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.cleared.insert(table, (Instant::now(), None));
    }

    fn stayed(&self, table: &'static str, rows: i64) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.cleared.entry(table).and_modify(|(_, stayed)| *stayed = Some(rows));
    }

    fn is_due(&self, when: impl Fn(&mut LastRuns) -> &mut Option<Instant>, every: Duration) -> bool {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let last = when(&mut done);
        let due = last.is_none_or(|last| last.elapsed() >= every);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

pub(crate) async fn maintain(core: &Core) -> sqlx::Result<()> {
    // State that each process caches for itself.
    let refresh = core.upkeep.is_due(|done| &mut done.refresh, REFRESH_EVERY);
    if refresh || core.server_clock.is_in_doubt() {
        let mut unit = core.sessions.single().await?;
        core.server_clock.measure(&mut unit).await?;
        core.days.refresh(&mut unit).await?;
        unit.done().await?;
    }
    let lock = core.edit_one(|edit| registry::lock(edit, LOCK.0, &core.upkeep.owner, LOCK.1)).await?;
    if lock.is_none() {
        return Ok(());
    }
    change::roll_up(core).await?;
    let mut unit = core.sessions.single().await?;
    for table in core.upkeep.cleared_lately() {
        core.upkeep.stayed(table, gone(&mut unit, table).await?);
    }
    unit.done().await?;
    if core.upkeep.is_due(|done| &mut done.vacuum, VACUUM_EVERY) && !core.options.transaction_pooler {
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
        if !core.upkeep.is_worth_clearing(table, gone(&mut unit, table).await?) {
            continue;
        }
        let vacuum = format!("vacuum (skip_locked, index_cleanup on, truncate off) {table}");
        sqlx::raw_sql(AssertSqlSafe(vacuum)).execute(&mut *unit).await?;
        core.upkeep.cleared(table);
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
