//! Single jobs with their history, and the counters.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Count, Event, History, Job, JobId, LogLevel, LogLine, Pending, StoreResult,
    Timestamp, WorkerId,
    measure::{self, Rollup},
};

use super::{
    rows::{self, JobRow},
    running::Running,
    statements as sql,
};
use crate::db::{Db, Statement, params};
use crate::pending;

pub(crate) fn get(db: &dyn Db, id: JobId) -> StoreResult<Option<Job>> {
    let found = db.one(sql::JOB, params![id.to_bytes()], rows::job)?;
    Ok(found.map(|(_, job)| job))
}

/// Jobs by their row numbers, in the same order.
pub(crate) fn known(db: &dyn Db, seqs: &[i64]) -> StoreResult<Vec<JobRow>> {
    db.only_each(sql::JOB_BY_SEQ, &mut |row| seqs.iter().try_for_each(|seq| row(params![seq])), JobRow::of)
}

/// The jobs that still exist.
pub(crate) fn present(db: &dyn Db, seqs: &[i64]) -> StoreResult<Vec<Job>> {
    let found =
        db.all_each(sql::JOB_BY_SEQ, &mut |row| seqs.iter().try_for_each(|seq| row(params![seq])), rows::job)?;
    Ok(found.into_iter().map(|(_, (_, job))| job).collect())
}

pub(crate) fn seq_of(db: &dyn Db, id: JobId) -> StoreResult<Option<i64>> {
    db.one(sql::SEQ_OF, params![id.to_bytes()], |row| row.get(0))
}

/// The history of a job; empty if it does not exist.
pub(crate) fn history(db: &dyn Db, job: JobId) -> StoreResult<History> {
    let Some(seq) = seq_of(db, job)? else { return Ok(History::default()) };
    Ok(History { events: events(db, seq)?, attempts: attempts(db, job, seq)? })
}

fn attempts(db: &dyn Db, job: JobId, seq: i64) -> StoreResult<Vec<Attempt>> {
    let mut attempts = db.all(sql::ATTEMPTS, params![seq], |row| {
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
    attempts.extend(Running::find(db, job.to_bytes())?.map(|running| Attempt {
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

fn events(db: &dyn Db, seq: i64) -> StoreResult<Vec<Event>> {
    let mut events = db.all(sql::EVENTS, params![seq], rows::event)?;
    events.reverse();
    Ok(events)
}

pub(crate) fn logs(db: &dyn Db, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
    let Some(seq) = seq_of(db, job)? else { return Ok(Vec::new()) };
    db.all(sql::LOGS, params![seq, limit], |row| {
        Ok(LogLine {
            run: row.get(0)?,
            at: rows::instant(row, 1)?,
            level: LogLevel::named(row.get(2)?),
            message: row.get(3)?,
        })
    })
}

pub(crate) fn counts(db: &dyn Db) -> StoreResult<Vec<Count>> {
    let mut counts = db.all(sql::COUNTS, &[], |row| {
        Ok(Count { queue: row.get(0)?, name: row.get(1)?, status: rows::word(row, 2)?, count: row.get(3)? })
    })?;
    counts.sort();
    Ok(counts)
}

pub(crate) fn pending_by_user(db: &dyn Db, limit: usize) -> StoreResult<Vec<Pending>> {
    let users = db.all(sql::PENDING_BY_USER, &[], |row| {
        Ok(Pending { user_id: row.get(0)?, name: row.get(1)?, count: row.get(2)? })
    })?;
    Ok(pending::with_userless(users, counts(db)?, limit))
}

pub(crate) fn dead_by_name(db: &dyn Db, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
    let mut counts = BTreeMap::<String, u64>::new();
    db.read(sql::DEAD_BY_NAME, params![since.as_micros(), until.as_micros()], &mut |row| {
        let name: &str = row.get(0)?;
        match counts.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(counts.insert(name.to_owned(), 1)),
        }
        Ok(true)
    })?;
    let mut counts: Vec<_> = counts.into_iter().collect();
    // Descending by count; the stable sort keeps equal counts in the order of names.
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(counts)
}

pub(crate) fn rollups(db: &dyn Db, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>> {
    db.all(sql::ROLLUPS, params![measure::hour(since).as_micros(), until.as_micros()], |row| {
        Ok(Rollup {
            name: row.get(0)?,
            queue: row.get(1)?,
            measure: rows::word(row, 2)?,
            bucket: row.get(3)?,
            count: row.get(4)?,
        })
    })
}

/// The lanes, each a queue and a name, that may have ready jobs. Empty filters select all.
///
/// Skips from one lane to the next in the index, so the cost depends on the number of lanes, not of jobs.
pub(crate) fn lanes(db: &dyn Db, queues: &[String], names: &[String]) -> StoreResult<Vec<(String, String)>> {
    lanes_by(db, (sql::LANE_QUEUES, sql::LANE_NAMES), queues, names)
}

/// Like `lanes`, for another table, whose queues and names these two statements step through.
pub(crate) fn lanes_by(
    db: &dyn Db,
    (next_queue, next_name): (Statement, Statement),
    queues: &[String],
    names: &[String],
) -> StoreResult<Vec<(String, String)>> {
    let queues = queues_by(db, next_queue, queues)?;
    let mut lanes = BTreeSet::new();
    for queue in queues {
        let names = if names.is_empty() { stepwise(db, next_name, Some(&queue))? } else { names.to_vec() };
        lanes.extend(names.into_iter().map(|name| (queue.clone(), name)));
    }
    // The set removes duplicates in the filters.
    Ok(lanes.into_iter().collect())
}

/// The given queues, or all queues that the statement steps through.
pub(crate) fn queues_by(db: &dyn Db, next_queue: Statement, queues: &[String]) -> StoreResult<Vec<String>> {
    if queues.is_empty() { stepwise(db, next_queue, None) } else { Ok(queues.to_vec()) }
}

fn stepwise(db: &dyn Db, next: Statement, within: Option<&str>) -> StoreResult<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    loop {
        let last = found.last().map_or("", String::as_str);
        let step = match within {
            Some(queue) => db.one(next, params![queue, last], |row| row.get(0)),
            None => db.one(next, params![last], |row| row.get(0)),
        };
        match step? {
            Some(word) => found.push(word),
            None => return Ok(found),
        }
    }
}
