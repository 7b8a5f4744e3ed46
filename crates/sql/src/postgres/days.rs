//! Partitions, a day each.
//!
//! Jobs and labels lie in the day they are scheduled for, logs and events in the day they were written. What
//! has no day of its own lies in the partition `…_rest`. A statement that changes jobs names the day's partition itself:
//! through the parent, it would open all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{PoisonError, RwLock},
    time::Duration,
};

use punctual_core::{JobId, Timestamp};
use sqlx::{AssertSqlSafe, PgConnection};

use super::session::Sessions;

const DAY_MICROS: i64 = 86_400_000_000;

/// A partitioned table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// What it is partitioned by.
    pub(crate) column: &'static str,
    /// How full its pages are made, in percent.
    pub(crate) fill: u8,
}

/// More than half of a page is kept for the rows' second versions, which the settle writes and which are a little longer.
pub(crate) const JOBS: Table = Table { name: "punctual_jobs", column: "scheduled_at", fill: 45 };
pub(crate) const LABELS: Table = Table { name: "punctual_labels", column: "scheduled_at", fill: 100 };
pub(crate) const LOGS: Table = Table { name: "punctual_logs", column: "at", fill: 100 };
pub(crate) const EVENTS: Table = Table { name: "punctual_events", column: "at", fill: 100 };

/// In the order in which a day's partitions are made: the day is there when its jobs' is.
pub(crate) const TABLES: [Table; 4] = [EVENTS, LOGS, LABELS, JOBS];

impl Table {
    /// The name of a day's partition.
    pub(crate) fn partition(self, day: Day) -> String {
        format!("{}_{}", self.name, day.suffix())
    }

    /// Whether there is a partition for that day.
    pub(crate) async fn has(self, connection: &mut PgConnection, day: Day) -> sqlx::Result<bool> {
        let there = sqlx::query_scalar("select to_regclass($1) is not null").bind(self.partition(day));
        there.fetch_one(connection).await
    }

    /// The day of the partition of that name.
    pub(crate) fn day_of(self, partition: &str) -> Option<Day> {
        let digits = partition.strip_prefix(self.name)?.strip_prefix('_')?;
        let (year, rest) = digits.split_at_checked(4)?;
        let (month, day) = rest.split_at_checked(2)?;
        format!("{year}-{month}-{day}T00:00:00Z").parse().ok().map(Day::of)
    }
}

/// How long the making of a partition waits for the others to let go, and how often it tries.
const LOCK_MAX_WAIT_MS: u64 = 100;
const CREATE_TRIES_MAX: usize = 50;

/// A day, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(i64);

impl Day {
    /// The day that an instant belongs to.
    pub(crate) const fn of(at: Timestamp) -> Self {
        Self(at.as_micros().div_euclid(DAY_MICROS))
    }

    /// So many days later.
    pub(crate) const fn plus(self, days: i64) -> Self {
        Self(self.0 + days)
    }

    /// Its first instant.
    pub(crate) fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0 * DAY_MICROS)
    }

    /// The end of its partitions' names, such as `20260301`.
    fn suffix(self) -> String {
        self.start().to_string().chars().take(10).filter(|c| *c != '-').collect()
    }
}

/// The partitions that there are, as this process knows them.
#[derive(Debug, Default)]
pub(crate) struct Days(RwLock<BTreeSet<(Table, Day)>>);

impl Days {
    pub(crate) fn has(&self, day: Day) -> bool {
        self.has_partition(JOBS, day)
    }

    pub(crate) fn has_partition(&self, table: Table, day: Day) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&(table, day))
    }

    /// The table to look for a job in: its day's partition, or the parent of all.
    pub(crate) fn table_of(&self, id: JobId) -> String {
        self.table_of_day(Day::of(id.timestamp()))
    }

    fn table_of_day(&self, day: Day) -> String {
        if self.has(day) { JOBS.partition(day) } else { JOBS.name.to_owned() }
    }

    /// Jobs by the table to look for them in.
    pub(crate) fn by_table<T>(
        &self,
        items: impl IntoIterator<Item = T>,
        id: impl Fn(&T) -> JobId,
    ) -> BTreeMap<String, Vec<T>> {
        let mut days: BTreeMap<Day, Vec<T>> = BTreeMap::new();
        for item in items {
            days.entry(Day::of(id(&item).timestamp())).or_default().push(item);
        }
        let mut tables: BTreeMap<String, Vec<T>> = BTreeMap::new();
        for (day, items) in days {
            tables.entry(self.table_of_day(day)).or_default().extend(items);
        }
        tables
    }

    /// Looks again which days there are.
    pub(crate) async fn refresh(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let names: Vec<String> = sqlx::query_scalar(
            "select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid
             where i.inhparent = any (select to_regclass(name) from unnest($1::text[]) name)",
        )
        .bind(TABLES.map(|table| table.name))
        .fetch_all(connection)
        .await?;
        let day = |name: &String| TABLES.iter().find_map(|table| Some((*table, table.day_of(name)?)));
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names.iter().filter_map(day).collect();
        Ok(())
    }

    /// Makes the partitions of a day, and moves what lies in `…_rest` for it. Nobody sees a moment without it.
    ///
    /// Each table has a transaction of its own, so that this never holds one while it waits for another. The table of jobs
    /// comes last: a day is there when that is. Where there is no moment for it, the day's jobs stay in `…_rest` for now.
    pub(crate) async fn create(&self, sessions: &Sessions, day: Day) -> sqlx::Result<()> {
        for table in TABLES {
            let mut tries = 0;
            while !try_create(sessions, table, day).await? {
                tries += 1;
                if tries == CREATE_TRIES_MAX {
                    tracing::warn!(partition = table.partition(day), "busy all the time: it will be made later");
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(fastrand::u64(10..100))).await;
            }
        }
        self.0.write().unwrap_or_else(PoisonError::into_inner).extend(TABLES.map(|table| (table, day)));
        Ok(())
    }
}

/// Makes a day's partition of one table; says whether it is there now.
async fn try_create(sessions: &Sessions, table: Table, day: Day) -> sqlx::Result<bool> {
    let mut unit = sessions.several().await?;
    sqlx::query("select pg_advisory_xact_lock(hashtext('punctual days'), hashtext(current_schema()))")
        .execute(&mut *unit)
        .await?;
    if !table.has(&mut unit, day).await? {
        sqlx::raw_sql(AssertSqlSafe(create_statements(table, day))).execute(&mut *unit).await?;
    }
    let there = table.has(&mut unit, day).await?;
    unit.done().await?;
    Ok(there)
}

/// The lock keeps rows of that day out of `…_rest` while its partition comes to be. Everybody waits behind whoever waits for such a
/// lock, so that those who hold something meanwhile could come to wait for each other: it gives up long before.
fn create_statements(table: Table, day: Day) -> String {
    let Table { name: table, column, fill } = table;
    let (suffix, from, to) = (day.suffix(), day.start(), day.plus(1).start());
    format!(
        "do $$
         begin
             set local lock_timeout = '{LOCK_MAX_WAIT_MS}ms';
             lock table {table}_rest in access exclusive mode;
             -- Only with the lock it is certain what the others have made.
             if to_regclass('{table}_{suffix}') is null then
                 create table {table}_{suffix} (like {table} including all) with (fillfactor = {fill});
                 with moved as (delete from {table}_rest where {column} >= '{from}' and {column} < '{to}' returning *)
                 insert into {table}_{suffix} select * from moved;
                 alter table {table} attach partition {table}_{suffix} for values from ('{from}') to ('{to}');
             end if;
         exception when lock_not_available then null;
         end $$"
    )
}
