//! Daily partitions.
//!
//! Jobs and labels are stored in the partition of the day they are scheduled for, logs and events in that of the day
//! they were written. Rows of a day without a partition are stored in the default partition `…_rest`. A statement that
//! changes jobs names the day's partition itself: through the parent, it would open all partitions.

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
    /// The partition key.
    pub(crate) column: &'static str,
    /// The fill factor of its pages, in percent.
    pub(crate) fill: u8,
}

/// More than half of each page is reserved for the rows' second versions, which settle writes and which are slightly
/// longer.
pub(crate) const JOBS: Table = Table { name: "punctual_jobs", column: "scheduled_at", fill: 45 };
pub(crate) const LABELS: Table = Table { name: "punctual_labels", column: "scheduled_at", fill: 100 };
pub(crate) const LOGS: Table = Table { name: "punctual_logs", column: "at", fill: 100 };
pub(crate) const EVENTS: Table = Table { name: "punctual_events", column: "at", fill: 100 };

/// In the order in which a day's partitions are created: the day counts as created when its partition of jobs exists.
pub(crate) const TABLES: [Table; 4] = [EVENTS, LOGS, LABELS, JOBS];

/// Prefix of the names of the constraints that keep rows of a day out of a default partition while the day's partition
/// is created or replaced.
pub(crate) const CONSTRAINT_PREFIX: &str = "punctual_not_of_";

impl Table {
    /// The name of a day's partition.
    pub(crate) fn partition(self, day: Day) -> String {
        format!("{}_{}", self.name, day.suffix())
    }

    /// Whether the partition of a day exists. `to_regclass` would answer from the session's cache, which may be older
    /// than the statement.
    pub(crate) async fn has(self, connection: &mut PgConnection, day: Day) -> sqlx::Result<bool> {
        let there =
            "select exists (select from pg_class where relname = $1 and relnamespace = current_schema()::regnamespace)";
        sqlx::query_scalar(there).bind(self.partition(day)).fetch_one(connection).await
    }

    /// The day of the partition with that name.
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

    /// The day this number of days later.
    pub(crate) const fn plus(self, days: i64) -> Self {
        Self(self.0 + days)
    }

    /// The first instant of the day.
    pub(crate) fn start(self) -> Timestamp {
        Timestamp::from_micros(self.0 * DAY_MICROS)
    }

    /// The day whose partitions' names have this suffix.
    pub(crate) fn of_suffix(suffix: &str) -> Option<Self> {
        let (year, rest) = suffix.split_at_checked(4)?;
        let (month, day) = rest.split_at_checked(2)?;
        format!("{year}-{month}-{day}T00:00:00Z").parse().ok().map(Self::of)
    }

    /// The suffix of the day's partition names, such as `20260301`.
    pub(crate) fn suffix(self) -> String {
        self.start().to_string().chars().take(10).filter(|c| *c != '-').collect()
    }
}

/// How long it is cached that a default partition is large.
const LARGE_DEFAULT_TTL: Duration = Duration::from_secs(60);

/// The existing partitions, as cached by this process.
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

    /// The table in which to look up a job: its day's partition, or the partitioned table.
    pub(crate) fn table_of(&self, id: JobId) -> String {
        self.table_of_day(Day::of(id.timestamp()))
    }

    fn table_of_day(&self, day: Day) -> String {
        if self.has(day) { JOBS.partition(day) } else { JOBS.name.to_owned() }
    }

    /// Groups jobs by the table in which to look them up.
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

    /// Reads the existing partitions again.
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

    /// Caches that a default partition is large.
    pub(crate) fn cache_large_default(&self) {
        *self.large_default_seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a default partition was recently found to be large.
    pub(crate) fn had_large_default(&self) -> bool {
        let seen = *self.large_default_seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.is_some_and(|at| at.elapsed() < LARGE_DEFAULT_TTL)
    }
}
