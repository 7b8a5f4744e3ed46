//! Lists of jobs, each read from an index in its order, with a maximum number of rows scanned per page.

use punctual_core::{Filter, Job, JobId, JobPage, Order, Page, Status, StoreResult, Timestamp, filter::Attributes};

use super::{read, rows, statements as sql};
use crate::db::{Db, GoOn, Row, Statement, params};
use crate::labels::label_of;
use crate::level::Level;
use crate::list::{self, Key, SourceScan, merge};

/// The matches of one source, as row numbers of jobs.
type Found<K> = list::Found<K, i64>;

pub(crate) fn list(db: &dyn Db, filter: &Filter, page: &Page) -> StoreResult<JobPage> {
    match filter.order() {
        Order::Newest => newest(db, filter, page),
        Order::Finished => timed(db, filter, page, finished_sources),
        Order::Due => timed(db, filter, page, due_sources),
    }
}

/// Scans a source, from after a key, until the page is full, the maximum is reached, or the source ends. Requests few
/// rows at first: most pages need no more, and some engines fetch all requested rows.
fn scan<K: Copy>(
    mut from: K,
    limit: usize,
    fetch: impl Fn(K, usize, &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>) -> StoreResult<()>,
    mut check: impl FnMut(&dyn Row) -> StoreResult<(K, i64, bool)>,
) -> StoreResult<Found<K>> {
    let (mut scan, mut count) = (SourceScan::new(limit), limit.max(1));
    loop {
        let (mut rows, mut goes_on) = (0, true);
        fetch(from, count, &mut |row| {
            let (key, seq, fits) = check(row)?;
            (from, rows) = (key, rows + 1);
            goes_on = scan.add(key, fits.then_some(seq));
            Ok(goes_on)
        })?;
        if !goes_on || rows < count {
            return Ok(scan.found);
        }
        count = (8 * count).min(scan.rows_left());
    }
}

/// A job that a source has found, with the attributes that the filter checks besides status and time.
struct ListedJob<'r> {
    queue: &'r str,
    name: &'r str,
    row: &'r dyn Row,
    /// The column of the user id; the columns of the correlation id and of the options follow it.
    user_column: usize,
}

impl<'r> ListedJob<'r> {
    /// From a row with the columns queue, name, user id, correlation id and options, beginning at `first`.
    fn of(row: &'r dyn Row, first: usize) -> StoreResult<Self> {
        Ok(Self { queue: row.get(first)?, name: row.get(first + 1)?, row, user_column: first + 2 })
    }

    /// Checks the job against the filter, except for status and time.
    fn fits(&self, filter: &Filter) -> StoreResult<bool> {
        let Self { queue, name, row, user_column } = *self;
        let (user_id, correlation_id) = (row.get(user_column)?, row.get(user_column + 1)?);
        if !filter.selects_attributes(Attributes { queue, name, user_id, correlation_id }) {
            return Ok(false);
        }
        if !filter.depends_on_options() {
            return Ok(true);
        }
        Ok(filter.selects_options(&rows::document(row, user_column + 2)?.unwrap_or_default()))
    }
}

// Newest first: one source, keyed by id.

fn newest(db: &dyn Db, filter: &Filter, page: &Page) -> StoreResult<JobPage> {
    let before = list::begin_id(page)?.unwrap_or(JobId::from_bits(u128::MAX));
    let found = scan_newest(db, filter, before, page.limit)?;
    let jobs = load(db, found.fitting.iter().map(|(_, seq)| *seq))?;
    Ok(JobPage { jobs, next: found.stopped.map(|id: JobId| id.to_string()) })
}

fn scan_newest(db: &dyn Db, filter: &Filter, before: JobId, limit: usize) -> StoreResult<Found<JobId>> {
    let check = |row: &dyn Row| {
        let id = JobId::from_bytes(row.get(1)?);
        let status: Status = rows::word(row, 2)?;
        let in_time = filter.since.is_none_or(|since| id.timestamp() >= since)
            && filter.until.is_none_or(|until| id.timestamp() < until);
        let candidate = ListedJob::of(row, 3)?;
        Ok((id, row.get(0)?, filter.selects_status(status) && in_time && candidate.fits(filter)?))
    };
    let label = label_of(filter);
    let fetch = |before: JobId, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
        let before = before.to_bytes();
        match (label, &filter.name) {
            (Some((kind, value)), _) => db.read(sql::LIST_NEWEST_OF_LABEL, params![before, kind, value, count], each),
            (None, Some(name)) => db.read(sql::LIST_NEWEST_OF_NAME, params![before, name, count], each),
            (None, None) => db.read(sql::LIST_NEWEST, params![before, count], each),
        }
    };
    scan(before, limit, fetch, check)
}

// By time: several sources, keyed by (time, seq), merged.

/// The sources of a list, each scanned from a key.
type Sources = fn(&dyn Db, &Filter, Key, usize) -> StoreResult<Vec<Found<Key>>>;

fn timed(db: &dyn Db, filter: &Filter, page: &Page, sources: Sources) -> StoreResult<JobPage> {
    let after = list::begin(page)?.unwrap_or((i64::MIN, i128::MIN));
    let found = sources(db, filter, after, page.limit)?;
    let (seqs, next) = merge(found, page.limit);
    let jobs = load(db, seqs.into_iter())?;
    Ok(JobPage { jobs, next: next.map(list::cursor) })
}

fn finished_sources(db: &dyn Db, filter: &Filter, (time, seq): Key, limit: usize) -> StoreResult<Vec<Found<Key>>> {
    // The key is negated to scan backwards; the first page begins at the maximum time.
    let until = filter.until.map_or(i64::MAX, Timestamp::as_micros);
    let after = if time == i64::MIN { (-until, -i128::from(i64::MIN)) } else { (time, seq) };
    let since = filter.since.map_or(i64::MIN, Timestamp::as_micros);
    let mut found = Vec::new();
    for status in &filter.statuses {
        let fetch = |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
            db.read(sql::LIST_FINISHED, params![status.as_str(), -time, -seq as i64, since, count], each)
        };
        found.push(scan(after, limit, fetch, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(((-time, -i128::from(seq)), seq, ListedJob::of(row, 2)?.fits(filter)?))
        })?);
    }
    Ok(found)
}

fn due_sources(db: &dyn Db, filter: &Filter, after: Key, limit: usize) -> StoreResult<Vec<Found<Key>>> {
    let from = filter.since.map_or(after, |since| after.max((since.as_micros() - 1, i128::from(i64::MAX))));
    let from = (from.0, from.1.clamp(i128::from(i64::MIN), i128::from(i64::MAX)));
    let until = filter.until.map_or(i64::MAX, Timestamp::as_micros);
    let scan = DueScan { db, filter, from, until, limit };
    let mut found = Vec::new();
    if scan.has_status(Status::Scheduled) || scan.has_status(Status::Retrying) {
        found.push(scan.due()?);
    }
    let sources = [
        (Status::Processing, sql::LIST_RUNNING),
        (Status::Waiting, sql::LIST_WAITING),
        (Status::Queued, sql::LIST_KEYED),
    ];
    for (_, source) in sources.into_iter().filter(|(status, _)| scan.has_status(*status)) {
        found.push(scan.source(source)?);
    }
    if scan.has_status(Status::Queued) {
        let one = |selected: &Option<String>| selected.iter().cloned().collect::<Vec<_>>();
        for lane in read::lanes(db, &one(&filter.queue), &one(&filter.name))? {
            for priority in 0..=punctual_core::limits::PRIORITY_MAX {
                for suspect in [false, true] {
                    found.push(scan.lane(&lane, Level::of(priority, suspect))?);
                }
            }
        }
    }
    Ok(found)
}

/// A scan of jobs in the order of their times, from after a key until a time.
struct DueScan<'a> {
    db: &'a dyn Db,
    filter: &'a Filter,
    from: Key,
    until: i64,
    limit: usize,
}

impl DueScan<'_> {
    fn has_status(&self, status: Status) -> bool {
        self.filter.statuses.contains(&status)
    }

    /// Scans the scheduled and the retrying jobs.
    fn due(&self) -> StoreResult<Found<Key>> {
        let fetch = |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
            self.db.read(sql::LIST_DUE, params![time, seq as i64, self.until, count], each)
        };
        scan(self.from, self.limit, fetch, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let has_status = self.has_status(rows::word(row, 2)?);
            Ok(((time, i128::from(seq)), seq, has_status && ListedJob::of(row, 3)?.fits(self.filter)?))
        })
    }

    /// Scans a statement that reads the jobs of one status.
    fn source(&self, source: Statement) -> StoreResult<Found<Key>> {
        let fetch = |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
            self.db.read(source, params![time, seq as i64, self.until, count], each)
        };
        scan(self.from, self.limit, fetch, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(((time, i128::from(seq)), seq, ListedJob::of(row, 2)?.fits(self.filter)?))
        })
    }

    /// Scans the queued jobs without a concurrency key of a queue, a name and a level.
    fn lane(&self, (queue, name): &(String, String), level: Level) -> StoreResult<Found<Key>> {
        let fetch = |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
            self.db.read(sql::LIST_LANE, params![queue, name, level, time, seq as i64, self.until, count], each)
        };
        scan(self.from, self.limit, fetch, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let candidate = ListedJob { queue, name, row, user_column: 2 };
            Ok(((time, i128::from(seq)), seq, candidate.fits(self.filter)?))
        })
    }
}

fn load(db: &dyn Db, seqs: impl Iterator<Item = i64>) -> StoreResult<Vec<Job>> {
    // Jobs that were removed meanwhile are left out.
    read::present(db, &seqs.collect::<Vec<_>>())
}
