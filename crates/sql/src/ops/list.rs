//! Lists of jobs, each read from an index in its order, with a maximum number of rows scanned per page.

use punctual_core::{
    Filter, Job, JobId, JobPage, Order, Page, Status, StoreResult, Timestamp, limits::LIST_MAX_SCANNED_ROWS,
};

use super::{read, rows, statements as sql};
use crate::db::{Db, GoOn, Row, Statement, params};
use crate::level::Level;
use crate::list::{self, Key, bad_cursor, merge};

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
    ask: impl Fn(K, usize, &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>) -> StoreResult<()>,
    mut fit: impl FnMut(&dyn Row) -> StoreResult<(K, i64, bool)>,
) -> StoreResult<Found<K>> {
    let mut found = Found { fitting: Vec::new(), stopped: None };
    let (mut looked_at, mut wanted) = (0, limit.max(1));
    loop {
        let before = looked_at;
        ask(from, wanted, &mut |row| {
            let (key, seq, fits) = fit(row)?;
            looked_at += 1;
            if fits {
                found.fitting.push((key, seq));
            }
            let full = found.fitting.len() == limit || looked_at == LIST_MAX_SCANNED_ROWS;
            if full {
                found.stopped = Some(key);
            }
            from = key;
            Ok(!full)
        })?;
        if found.stopped.is_some() || looked_at - before < wanted {
            return Ok(found);
        }
        wanted = (8 * wanted).min(LIST_MAX_SCANNED_ROWS - looked_at);
    }
}

/// Checks a candidate against the filter, except for status and time.
fn fits(filter: &Filter, row: &dyn Row, queue: &str, name: &str, from: usize) -> StoreResult<bool> {
    let same =
        |wanted: &Option<String>, found: Option<&str>| wanted.as_deref().is_none_or(|wanted| found == Some(wanted));
    if !same(&filter.queue, Some(queue)) || !same(&filter.name, Some(name)) {
        return Ok(false);
    }
    if !same(&filter.user_id, row.get(from)?) || !same(&filter.correlation_id, row.get(from + 1)?) {
        return Ok(false);
    }
    if filter.tag.is_none() && filter.schedule.is_none() {
        return Ok(true);
    }
    Ok(filter.selects_options(&rows::document(row, from + 2)?.unwrap_or_default()))
}

// Newest first: one source, keyed by id.

fn newest(db: &dyn Db, filter: &Filter, page: &Page) -> StoreResult<JobPage> {
    let after = page.after.as_deref().map(str::parse::<JobId>).transpose().map_err(|_| bad_cursor(page))?;
    let before = after.unwrap_or(JobId::from_bits(u128::MAX));
    let found = scan_newest(db, filter, before, page.limit)?;
    let jobs = load(db, found.fitting.iter().map(|(_, seq)| *seq))?;
    Ok(JobPage { jobs, next: found.stopped.map(|id: JobId| id.to_string()) })
}

/// The labels that a filter requires, the most selective kind first.
fn labels(filter: &Filter) -> impl Iterator<Item = (&'static str, &str)> {
    let wanted = [
        ("correlation", &filter.correlation_id),
        ("schedule", &filter.schedule),
        ("user", &filter.user_id),
        ("tag", &filter.tag),
    ];
    wanted.into_iter().filter_map(|(kind, wanted)| Some((kind, wanted.as_deref()?)))
}

fn scan_newest(db: &dyn Db, filter: &Filter, before: JobId, limit: usize) -> StoreResult<Found<JobId>> {
    let fit = |row: &dyn Row| {
        let id = JobId::from_bytes(row.get(1)?);
        let status: Status = rows::word(row, 2)?;
        let wanted =
            if filter.statuses.is_empty() { status != Status::Deleted } else { filter.statuses.contains(&status) };
        let in_time = filter.since.is_none_or(|since| id.timestamp() >= since)
            && filter.until.is_none_or(|until| id.timestamp() < until);
        let (queue, name) = (row.get(3)?, row.get(4)?);
        Ok((id, row.get(0)?, wanted && in_time && fits(filter, row, queue, name, 5)?))
    };
    let wished = labels(filter).next();
    let ask = |before: JobId, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
        let before = before.to_bytes();
        match (wished, &filter.name) {
            (Some((kind, value)), _) => db.read(sql::LIST_NEWEST_OF_LABEL, params![before, kind, value, count], each),
            (None, Some(name)) => db.read(sql::LIST_NEWEST_OF_NAME, params![before, name, count], each),
            (None, None) => db.read(sql::LIST_NEWEST, params![before, count], each),
        }
    };
    scan(before, limit, ask, fit)
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
        let ask = |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
            db.read(sql::LIST_FINISHED, params![status.as_str(), -time, -seq as i64, since, count], each)
        };
        found.push(scan(after, limit, ask, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (queue, name) = (row.get(2)?, row.get(3)?);
            Ok(((-time, -i128::from(seq)), seq, fits(filter, row, queue, name, 4)?))
        })?);
    }
    Ok(found)
}

fn due_sources(db: &dyn Db, filter: &Filter, after: Key, limit: usize) -> StoreResult<Vec<Found<Key>>> {
    let from = filter.since.map_or(after, |since| after.max((since.as_micros() - 1, i128::from(i64::MAX))));
    let from = (from.0, from.1.clamp(i128::from(i64::MIN), i128::from(i64::MAX)));
    let until = filter.until.map_or(i64::MAX, Timestamp::as_micros);
    let wants = |status: Status| filter.statuses.contains(&status);
    let ask = |source: Statement| {
        move |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
            db.read(source, params![time, seq as i64, until, count], each)
        }
    };
    let mut found = Vec::new();
    if wants(Status::Scheduled) || wants(Status::Retrying) {
        found.push(scan(from, limit, ask(sql::LIST_DUE), |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (queue, name) = (row.get(3)?, row.get(4)?);
            let wanted = wants(rows::word(row, 2)?);
            Ok(((time, i128::from(seq)), seq, wanted && fits(filter, row, queue, name, 5)?))
        })?);
    }
    let sources = [
        (Status::Processing, sql::LIST_RUNNING),
        (Status::Waiting, sql::LIST_WAITING),
        (Status::Queued, sql::LIST_KEYED),
    ];
    for (_, source) in sources.into_iter().filter(|(status, _)| wants(*status)) {
        found.push(scan(from, limit, ask(source), |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (queue, name) = (row.get(2)?, row.get(3)?);
            Ok(((time, i128::from(seq)), seq, fits(filter, row, queue, name, 4)?))
        })?);
    }
    if wants(Status::Queued) {
        let one = |wanted: &Option<String>| wanted.iter().cloned().collect::<Vec<_>>();
        for lane in read::lanes(db, &one(&filter.queue), &one(&filter.name))? {
            for priority in 0..=punctual_core::limits::PRIORITY_MAX {
                for suspect in [false, true] {
                    let level = Level::of(priority, suspect);
                    found.push(scan_lane(db, filter, (&lane, level), (from, until), limit)?);
                }
            }
        }
    }
    Ok(found)
}

fn scan_lane(
    db: &dyn Db,
    filter: &Filter,
    ((queue, name), level): (&(String, String), Level),
    (from, until): (Key, i64),
    limit: usize,
) -> StoreResult<Found<Key>> {
    let ask = |(time, seq): Key, count: usize, each: &mut dyn FnMut(&dyn Row) -> StoreResult<GoOn>| {
        db.read(sql::LIST_LANE, params![queue, name, level, time, seq as i64, until, count], each)
    };
    scan(from, limit, ask, |row| {
        let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok(((time, i128::from(seq)), seq, fits(filter, row, queue, name, 2)?))
    })
}

fn load(db: &dyn Db, seqs: impl Iterator<Item = i64>) -> StoreResult<Vec<Job>> {
    // Jobs that were removed meanwhile are left out.
    read::present(db, &seqs.collect::<Vec<_>>())
}
