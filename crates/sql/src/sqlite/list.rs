//! Lists, each read from an index in its order, with a bound on the rows that one page looks at.

use punctual_core::{
    Filter, Job, JobId, JobPage, Order, Page, Status, StoreError, Timestamp, limits::LIST_MAX_SCANNED_ROWS,
};
use rusqlite::{Connection, Row, Rows, params};

use super::{error::store_error, read, rows, statements as sql};
use crate::list::{self, Key, bad_cursor, merge};

/// What one source found: the places of jobs in their table.
type Found<K> = list::Found<K, i64>;

pub(crate) fn list(connection: &Connection, filter: &Filter, page: &Page) -> Result<JobPage, StoreError> {
    match filter.order() {
        Order::Newest => newest(connection, filter, page),
        Order::Finished => timed(connection, filter, page, finished_sources),
        Order::Due => timed(connection, filter, page, due_sources),
    }
}

/// Steps through a source until the page is full, the bound is reached, or it ends.
fn scan<K: Copy>(
    mut rows: Rows<'_>,
    limit: usize,
    mut fit: impl FnMut(&Row<'_>) -> rusqlite::Result<(K, i64, bool)>,
) -> rusqlite::Result<Found<K>> {
    let mut found = Found { fitting: Vec::new(), stopped: None };
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        let (key, seq, fits) = fit(row)?;
        looked_at += 1;
        if fits {
            found.fitting.push((key, seq));
        }
        if found.fitting.len() == limit || looked_at == LIST_MAX_SCANNED_ROWS {
            found.stopped = Some(key);
            break;
        }
    }
    Ok(found)
}

/// What a filter needs to know of a candidate, besides status and time.
fn fits(filter: &Filter, row: &Row<'_>, queue: &str, name: &str, from: usize) -> rusqlite::Result<bool> {
    let same = |wish: &Option<String>, found: Option<&str>| wish.as_deref().is_none_or(|wish| found == Some(wish));
    if !same(&filter.queue, Some(queue)) || !same(&filter.name, Some(name)) {
        return Ok(false);
    }
    if !same(&filter.user_id, row.get_ref(from)?.as_str_or_null()?)
        || !same(&filter.correlation_id, row.get_ref(from + 1)?.as_str_or_null()?)
    {
        return Ok(false);
    }
    if filter.tag.is_none() && filter.schedule.is_none() {
        return Ok(true);
    }
    Ok(filter.selects_extras(&rows::document(row, from + 2)?.unwrap_or_default()))
}

// Newest first: one source, keyed by id.

fn newest(connection: &Connection, filter: &Filter, page: &Page) -> Result<JobPage, StoreError> {
    let after = page.after.as_deref().map(str::parse::<JobId>).transpose().map_err(|_| bad_cursor(page))?;
    let before = after.unwrap_or(JobId::from_bits(u128::MAX));
    let found = scan_newest(connection, filter, before, page.limit).map_err(store_error)?;
    let jobs = load(connection, found.fitting.iter().map(|(_, seq)| *seq)).map_err(store_error)?;
    Ok(JobPage { jobs, next: found.stopped.map(|id: JobId| id.to_string()) })
}

/// The labels that a filter asks for, the most selective kind first.
fn labels(filter: &Filter) -> impl Iterator<Item = (&'static str, &str)> {
    let wishes = [
        ("correlation", &filter.correlation_id),
        ("schedule", &filter.schedule),
        ("user", &filter.user_id),
        ("tag", &filter.tag),
    ];
    wishes.into_iter().filter_map(|(kind, wish)| Some((kind, wish.as_deref()?)))
}

fn scan_newest(
    connection: &Connection,
    filter: &Filter,
    before: JobId,
    limit: usize,
) -> rusqlite::Result<Found<JobId>> {
    let before = before.to_bytes();
    let label = labels(filter).next();
    let mut statement = connection.prepare_cached(match (label, &filter.name) {
        (Some(_), _) => sql::LIST_NEWEST_OF_LABEL,
        (None, Some(_)) => sql::LIST_NEWEST_OF_NAME,
        (None, None) => sql::LIST_NEWEST,
    })?;
    let rows = match (label, &filter.name) {
        (Some((kind, value)), _) => statement.query(params![before, kind, value])?,
        (None, Some(name)) => statement.query(params![before, name])?,
        (None, None) => statement.query(params![before])?,
    };
    scan(rows, limit, |row| {
        let id = JobId::from_bytes(row.get(1)?);
        let status: Status = rows::word(row, 2)?;
        let wanted =
            if filter.statuses.is_empty() { status != Status::Deleted } else { filter.statuses.contains(&status) };
        let in_time = filter.since.is_none_or(|since| id.timestamp() >= since)
            && filter.until.is_none_or(|until| id.timestamp() < until);
        let (queue, name) = (row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
        Ok((id, row.get(0)?, wanted && in_time && fits(filter, row, queue, name, 5)?))
    })
}

// By time: several sources, keyed by (time, seq), merged.

/// A list's sources, each scanned from a key on.
type Sources = fn(&Connection, &Filter, Key, usize) -> rusqlite::Result<Vec<Found<Key>>>;

fn timed(connection: &Connection, filter: &Filter, page: &Page, sources: Sources) -> Result<JobPage, StoreError> {
    let after = list::begin(page)?.unwrap_or((i64::MIN, i128::MIN));
    let found = sources(connection, filter, after, page.limit).map_err(store_error)?;
    let (seqs, next) = merge(found, page.limit);
    let jobs = load(connection, seqs.into_iter()).map_err(store_error)?;
    Ok(JobPage { jobs, next: next.map(list::cursor) })
}

fn finished_sources(
    connection: &Connection,
    filter: &Filter,
    (time, seq): Key,
    limit: usize,
) -> rusqlite::Result<Vec<Found<Key>>> {
    // The key is negated to run backwards; the first page begins at the end of time.
    let until = filter.until.map_or(i64::MAX, Timestamp::as_micros);
    let before = if time == i64::MIN { (until, i64::MIN) } else { (-time, -seq as i64) };
    let since = filter.since.map_or(i64::MIN, Timestamp::as_micros);
    let mut found = Vec::new();
    for status in &filter.statuses {
        let mut statement = connection.prepare_cached(sql::LIST_FINISHED)?;
        let rows = statement.query(params![status.as_str(), before.0, before.1, since])?;
        found.push(scan(rows, limit, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (queue, name) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
            Ok(((-time, -i128::from(seq)), seq, fits(filter, row, queue, name, 4)?))
        })?);
    }
    Ok(found)
}

fn due_sources(
    connection: &Connection,
    filter: &Filter,
    after: Key,
    limit: usize,
) -> rusqlite::Result<Vec<Found<Key>>> {
    let from = filter.since.map_or(after, |since| after.max((since.as_micros() - 1, i128::from(i64::MAX))));
    let from = (from.0, from.1.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64);
    let until = filter.until.map_or(i64::MAX, Timestamp::as_micros);
    let wants = |status: Status| filter.statuses.contains(&status);
    let mut found = Vec::new();
    if wants(Status::Scheduled) || wants(Status::Retrying) {
        let mut statement = connection.prepare_cached(sql::LIST_DUE)?;
        found.push(scan(statement.query(params![from.0, from.1, until])?, limit, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (queue, name) = (row.get_ref(3)?.as_str()?, row.get_ref(4)?.as_str()?);
            let wanted = wants(rows::word(row, 2)?);
            Ok(((time, i128::from(seq)), seq, wanted && fits(filter, row, queue, name, 5)?))
        })?);
    }
    let sources = [
        (Status::Processing, sql::LIST_RUNNING),
        (Status::Waiting, sql::LIST_WAITING),
        (Status::Queued, sql::LIST_KEYED),
    ];
    for (status, source) in sources {
        if !wants(status) {
            continue;
        }
        let mut statement = connection.prepare_cached(source)?;
        found.push(scan(statement.query(params![from.0, from.1, until])?, limit, |row| {
            let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (queue, name) = (row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
            Ok(((time, i128::from(seq)), seq, fits(filter, row, queue, name, 4)?))
        })?);
    }
    if wants(Status::Queued) {
        let one = |wish: &Option<String>| wish.iter().cloned().collect::<Vec<_>>();
        for (queue, name) in read::lanes(connection, &one(&filter.queue), &one(&filter.name))? {
            for priority in 0..=punctual_core::limits::PRIORITY_MAX {
                let mut statement = connection.prepare_cached(sql::LIST_LANE)?;
                let rows = statement.query(params![queue, name, priority, from.0, from.1, until])?;
                found.push(scan(rows, limit, |row| {
                    let (seq, time): (i64, i64) = (row.get(0)?, row.get(1)?);
                    Ok(((time, i128::from(seq)), seq, fits(filter, row, &queue, &name, 2)?))
                })?);
            }
        }
    }
    Ok(found)
}

fn load(connection: &Connection, seqs: impl Iterator<Item = i64>) -> rusqlite::Result<Vec<Job>> {
    let mut get = connection.prepare_cached(sql::GET_BY_SEQ)?;
    seqs.map(|seq| get.query_row([seq], rows::job).map(|(_, job)| job)).collect()
}
