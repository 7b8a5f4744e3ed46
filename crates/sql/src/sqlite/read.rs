//! Single jobs with their history, and the counters.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Count, Event, EventId, Job, JobId, LogLevel, LogLine, Pending, Timestamp,
    WorkerId,
    measure::{self, Tally},
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{rows, running::Running, statements as sql};
use crate::pending;

pub(crate) fn get(connection: &Connection, id: JobId) -> rusqlite::Result<Option<Job>> {
    let found = connection.prepare_cached(sql::GET)?.query_row([id.to_bytes()], rows::job).optional()?;
    Ok(found.map(|(_, job)| job))
}

pub(crate) fn seq_of(connection: &Connection, id: JobId) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached(sql::SEQ_OF)?.query_row([id.to_bytes()], |row| row.get(0)).optional()
}

pub(crate) fn attempts(connection: &Connection, job: JobId) -> rusqlite::Result<Vec<Attempt>> {
    let Some(seq) = seq_of(connection, job)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(sql::ATTEMPTS)?;
    let ended = statement.query_map([seq], |row| {
        Ok(Attempt {
            id: AttemptId { job, run: row.get(0)? },
            attempt: row.get(1)?,
            status: rows::word(row, 2)?,
            worker_id: WorkerId::from_bytes(row.get(3)?),
            started_at: rows::instant(row, 4)?,
            finished_at: rows::optional_instant(row, 5)?,
            error: rows::document(row, 6)?,
        })
    })?;
    let mut attempts = ended.collect::<rusqlite::Result<Vec<_>>>()?;
    attempts.extend(Running::find(connection, job.to_bytes())?.map(|running| Attempt {
        id: AttemptId { job, run: running.run },
        attempt: running.attempt,
        status: AttemptStatus::Running,
        worker_id: running.worker,
        started_at: running.started_at,
        finished_at: None,
        error: None,
    }));
    Ok(attempts)
}

pub(crate) fn events(connection: &Connection, job: JobId) -> rusqlite::Result<Vec<Event>> {
    let Some(seq) = seq_of(connection, job)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(sql::EVENTS)?;
    let rows = statement.query_map([seq], |row| {
        let at = rows::instant(row, 1)?;
        Ok(Event {
            id: EventId::new(at, row.get(0)?),
            at,
            status: rows::word(row, 2)?,
            run: row.get(3)?,
            actor: row.get(4)?,
            detail: row.get(5)?,
        })
    })?;
    let mut events = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    events.reverse();
    Ok(events)
}

pub(crate) fn logs(connection: &Connection, job: JobId, limit: usize) -> rusqlite::Result<Vec<LogLine>> {
    let Some(seq) = seq_of(connection, job)? else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(sql::LOGS)?;
    let rows = statement.query_map(params![seq, limit as i64], |row| {
        Ok(LogLine {
            run: row.get(0)?,
            at: rows::instant(row, 1)?,
            level: LogLevel::named(row.get_ref(2)?.as_str()?),
            message: row.get(3)?,
        })
    })?;
    rows.collect()
}

pub(crate) fn counts(connection: &Connection) -> rusqlite::Result<Vec<Count>> {
    let mut statement = connection.prepare_cached(sql::COUNTS)?;
    let rows = statement.query_map([], |row| {
        Ok(Count { queue: row.get(0)?, name: row.get(1)?, status: rows::word(row, 2)?, count: row.get(3)? })
    })?;
    let mut counts = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    counts.sort();
    Ok(counts)
}

pub(crate) fn pending_by_user(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Pending>> {
    let mut statement = connection.prepare_cached(sql::PENDING_BY_USER)?;
    let rows =
        statement.query_map([], |row| Ok(Pending { user_id: row.get(0)?, name: row.get(1)?, count: row.get(2)? }))?;
    let users = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(pending::with_nobodys(users, counts(connection)?, limit))
}

pub(crate) fn dead_by_name(
    connection: &Connection,
    since: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = connection.prepare_cached(sql::DEAD_BY_NAME)?;
    let mut rows = statement.query([since.as_micros(), until.as_micros()])?;
    let mut counts = BTreeMap::<String, u64>::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str()?;
        match counts.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(counts.insert(name.to_owned(), 1)),
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    // Most first; the sort keeps the order of names among equals.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(counts)
}

pub(crate) fn tallies(connection: &Connection, since: Timestamp, until: Timestamp) -> rusqlite::Result<Vec<Tally>> {
    let mut statement = connection.prepare_cached(sql::TALLIES)?;
    let hours = params![measure::hour(since).as_micros(), until.as_micros()];
    let rows = statement.query_map(hours, |row| {
        Ok(Tally {
            name: row.get(0)?,
            queue: row.get(1)?,
            measure: rows::word(row, 2)?,
            bucket: row.get(3)?,
            count: row.get(4)?,
        })
    })?;
    rows.collect()
}

/// The lanes, each a queue and a name, that may hold anything ready. Empty wishes stand for all there are.
///
/// Steps from one to the next in the index, so its cost is that of the lanes, not of the jobs in them.
pub(crate) fn lanes(
    connection: &Connection,
    queues: &[String],
    names: &[String],
) -> rusqlite::Result<Vec<(String, String)>> {
    lanes_by(connection, (sql::LANE_QUEUES, sql::LANE_NAMES), queues, names)
}

/// The same of another table, which is stepped through by these two statements.
pub(crate) fn lanes_by(
    connection: &Connection,
    (next_queue, next_name): (&str, &str),
    queues: &[String],
    names: &[String],
) -> rusqlite::Result<Vec<(String, String)>> {
    let queues = queues_by(connection, next_queue, queues)?;
    let mut lanes = BTreeSet::new();
    for queue in queues {
        let names = if names.is_empty() { stepwise(connection, next_name, Some(&queue))? } else { names.to_vec() };
        lanes.extend(names.into_iter().map(|name| (queue.clone(), name)));
    }
    // A wish that is named twice is one lane all the same.
    Ok(lanes.into_iter().collect())
}

/// The queues that are wanted, or all that are stepped through by a statement.
pub(crate) fn queues_by(connection: &Connection, next_queue: &str, queues: &[String]) -> rusqlite::Result<Vec<String>> {
    if queues.is_empty() { stepwise(connection, next_queue, None) } else { Ok(queues.to_vec()) }
}

fn stepwise(connection: &Connection, statement: &str, within: Option<&str>) -> rusqlite::Result<Vec<String>> {
    let mut next = connection.prepare_cached(statement)?;
    let mut found: Vec<String> = Vec::new();
    loop {
        let last = found.last().map_or("", String::as_str);
        let step = match within {
            Some(queue) => next.query_row([queue, last], |row| row.get(0)),
            None => next.query_row([last], |row| row.get(0)),
        };
        match step.optional()? {
            Some(word) => found.push(word),
            None => return Ok(found),
        }
    }
}
