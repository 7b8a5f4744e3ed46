//! Partitions, a day each.
//!
//! Jobs and labels lie in the day they are scheduled for, logs and events in the day they were written. What has no day
//! of its own lies in the partition `…_rest`. A statement that changes jobs names the day's partition itself: through
//! the parent, it would open all of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError, RwLock},
    time::Duration,
};

use punctual_core::{JobId, Timestamp};
use sqlx::PgConnection;
use tokio::time::Instant;

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

/// More than half of a page is kept for the rows' second versions, which the settle writes and which are a little
/// longer.
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

    /// Whether there is a partition for that day. `to_regclass` would answer from the session's cache, which may be
    /// older than the statement.
    pub(crate) async fn has(self, connection: &mut PgConnection, day: Day) -> sqlx::Result<bool> {
        let there =
            "select exists (select from pg_class where relname = $1 and relnamespace = current_schema()::regnamespace)";
        sqlx::query_scalar(there).bind(self.partition(day)).fetch_one(connection).await
    }

    /// The day of the partition of that name.
    pub(crate) fn day_of(self, partition: &str) -> Option<Day> {
        Day::of_suffix(partition.strip_prefix(self.name)?.strip_prefix('_')?)
    }
}

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

    /// The day whose partitions' names end so.
    pub(crate) fn of_suffix(suffix: &str) -> Option<Self> {
        let (year, rest) = suffix.split_at_checked(4)?;
        let (month, day) = rest.split_at_checked(2)?;
        format!("{year}-{month}-{day}T00:00:00Z").parse().ok().map(Self::of)
    }

    /// The end of its partitions' names, such as `20260301`.
    pub(crate) fn suffix(self) -> String {
        self.start().to_string().chars().take(10).filter(|c| *c != '-').collect()
    }
}

/// How long a large default partition is cached.
const LARGE_DEFAULT_TTL: Duration = Duration::from_secs(60);

/// The partitions that there are, as this process knows them.
#[derive(Debug, Default)]
pub(crate) struct Days {
    known: RwLock<BTreeSet<(Table, Day)>>,
    /// When a default partition was last found to be large.
    large_default_seen: Mutex<Option<Instant>>,
}

impl Days {
    pub(crate) fn has(&self, day: Day) -> bool {
        self.has_partition(JOBS, day)
    }

    pub(crate) fn has_partition(&self, table: Table, day: Day) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&(table, day))
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
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = names.iter().filter_map(day).collect();
        Ok(())
    }

    /// Adds the partitions of a day.
    pub(crate) fn add(&self, day: Day) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).extend(TABLES.map(|table| (table, day)));
    }

    /// Remembers that a default partition is large.
    pub(crate) fn cache_large_default(&self) {
        *self.large_default_seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a default partition was large when it was last looked at, lately.
    pub(crate) fn had_large_default(&self) -> bool {
        let seen = *self.large_default_seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.is_some_and(|at| at.elapsed() < LARGE_DEFAULT_TTL)
    }
}
