//! Writes what [`punctual_core::effects`] decides: the entries of jobs in indexes, their events, and the counters. No
//! other file writes these, except that a claim and a settlement end and begin leases by statements for many jobs.

use std::collections::HashMap;

use punctual_core::{
    AttemptStatus, Job, JobId, Spec, Status, StoreResult, Timestamp,
    effects::{Effects, Entries, Index},
    workflow::EndsChange,
};

use super::{
    queue_limits,
    ready::{Lane, ReadyEntry, ReadyJob},
    running::Running,
    slots, statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::{Statement, params};
use crate::labels::labels;
use crate::level::Level;

/// The attributes of a job that its entries consist of, besides its times.
#[derive(Clone, Copy)]
pub(crate) struct IndexedJob<'a> {
    pub(crate) seq: i64,
    pub(crate) queue: &'a str,
    pub(crate) name: &'a str,
    pub(crate) level: Level,
    /// The concurrency key.
    pub(crate) key: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    /// The id of a job whose end may have consequences: other jobs depend on it, or it belongs to a workflow.
    pub(crate) flow: Option<JobId>,
    /// Whether a parent has failed that the job no longer waits for.
    pub(crate) any_failed: bool,
    /// Its id and specification; absent in transitions that neither take nor release the unique key.
    pub(crate) spec: Option<(JobId, &'a Spec)>,
}

impl<'a> IndexedJob<'a> {
    pub(crate) fn of(job: &'a Job, seq: i64) -> Self {
        Self { level: Level::of(job.spec.priority, job.is_suspect()), ..Self::new(job.id, &job.spec, seq) }
    }

    /// A job that has just been stored.
    pub(crate) fn new(id: JobId, spec: &'a Spec, seq: i64) -> Self {
        Self {
            seq,
            queue: &spec.queue,
            name: &spec.name,
            level: Level::of(spec.priority, false),
            key: spec.options.concurrency_key.as_deref(),
            user: spec.user_id.as_deref(),
            flow: Some(id),
            any_failed: false,
            spec: Some((id, spec)),
        }
    }

    /// A job that a worker holds.
    pub(crate) fn held(held: &'a Running, id: JobId) -> Self {
        Self {
            seq: held.seq,
            queue: &held.queue,
            name: &held.name,
            level: held.level,
            key: held.limit_key.as_deref().filter(|key| !key.is_empty()),
            user: held.user.as_deref(),
            flow: held.flow.then_some(id),
            any_failed: false,
            spec: None,
        }
    }

    fn ready(&self, run_at: Timestamp) -> ReadyEntry<'a> {
        let Self { queue, name, level, seq, key, .. } = *self;
        ReadyEntry { queue, name, level, run_at: run_at.as_micros(), seq, key }
    }
}

/// Writes the effects of a transition, except its events.
pub(crate) fn apply(tx: &mut Tx<'_>, job: &IndexedJob<'_>, effects: &Effects) -> StoreResult<()> {
    delete(tx, job, &effects.deleted)?;
    insert(tx, job, &effects.inserted)?;
    count(tx, job, effects);
    Ok(())
}

/// Deletes entries of a job. Its lease was deleted by the statement that checked the fence.
pub(crate) fn delete(tx: &mut Tx<'_>, job: &IndexedJob<'_>, entries: &Entries) -> StoreResult<()> {
    let seq = job.seq;
    match entries.index {
        Some(Index::Ready { run_at }) => queue_limits::leave(tx, job.ready(run_at))?,
        Some(Index::Due { run_at }) => tx.write(sql::DELETE_DUE, params![run_at.as_micros(), seq])?,
        Some(Index::Waiting { run_at }) => tx.write(sql::DELETE_WAITING, params![run_at.as_micros(), seq])?,
        Some(Index::Running) | None => {}
    }
    if entries.key
        && let Some((scope, key)) = job.spec.and_then(|(_, spec)| spec.unique_key())
    {
        tx.write(sql::DELETE_KEY, params![scope, key, seq])?;
    }
    if let Some(expires_at) = entries.expiry {
        tx.write(sql::DELETE_EXPIRY, params![expires_at.as_micros(), seq])?;
    }
    // An index of the jobs' table lists the other ends.
    if let Some((Status::Dead, died_at)) = entries.end {
        tx.write(sql::DELETE_DEAD, params![died_at.as_micros(), seq])?;
    }
    if let Some(deleted_at) = entries.deleted {
        tx.write(sql::DELETE_DELETED, params![deleted_at.as_micros(), seq])?;
    }
    Ok(())
}

/// Inserts entries of a job, except its lease, which has more columns, and its unique key.
fn insert(tx: &mut Tx<'_>, job: &IndexedJob<'_>, entries: &Entries) -> StoreResult<()> {
    let seq = job.seq;
    match entries.index {
        Some(Index::Ready { run_at }) => queue_limits::put(tx, job.ready(run_at))?,
        Some(Index::Due { run_at }) => tx.write(sql::INSERT_DUE, params![run_at.as_micros(), seq])?,
        Some(Index::Waiting { run_at }) => {
            tx.write(sql::INSERT_WAITING, params![run_at.as_micros(), seq, job.any_failed])?;
        }
        Some(Index::Running) | None => {}
    }
    if let Some(expires_at) = entries.expiry {
        tx.write(sql::INSERT_EXPIRY, params![expires_at.as_micros(), seq])?;
    }
    if let Some((Status::Dead, died_at)) = entries.end {
        tx.write(sql::INSERT_DEAD, params![died_at.as_micros(), seq, job.name])?;
    }
    if let Some(deleted_at) = entries.deleted {
        tx.write(sql::INSERT_DELETED, params![deleted_at.as_micros(), seq])?;
    }
    Ok(())
}

/// Changes the counters, and records the end of a job that may have consequences.
pub(crate) fn count(tx: &mut Tx<'_>, job: &IndexedJob<'_>, effects: &Effects) {
    let IndexedJob { seq, queue, name, user, flow, .. } = *job;
    tx.count(queue, name, effects.from, effects.to);
    tx.count_pending(user, name, effects.pending);
    for (measure, since) in effects.measures.into_iter().flatten() {
        tx.rollup(queue, name, measure, since);
    }
    if let (Some(id), Some(from), Some(to)) = (flow, effects.from, effects.to) {
        match effects.ended {
            Some(_) => tx.ended(id, seq, from, to),
            None if effects.ends != EndsChange::default() => tx.count_end(seq, from, to),
            None => {}
        }
    }
}

/// Writes the events of a transition; returns the number of the job's last event. All of them have the same run, actor
/// and detail.
pub(crate) fn write_events(
    tx: &mut Tx<'_>,
    (seq, mut last): (i64, Option<i64>),
    effects: &Effects,
    line: EventLine<'_>,
) -> StoreResult<Option<i64>> {
    for status in effects.events {
        last = Some(tx.event(seq, last, EventLine { status: *status, ..line })?);
    }
    Ok(last)
}

/// How a stored job takes its unique key: by which statement, and the time at which the period of the key begins.
pub(crate) type KeyTaking = (Statement, Timestamp);

/// Writes the rows and counters of a job that has just been stored, except its events.
pub(crate) fn store(
    tx: &mut Tx<'_>,
    job: &IndexedJob<'_>,
    effects: &Effects,
    (take_key, since): KeyTaking,
) -> StoreResult<()> {
    apply(tx, job, effects)?;
    let Some((id, spec)) = job.spec else { return Ok(()) };
    if effects.inserted.key
        && let Some((scope, key)) = spec.unique_key()
    {
        let expires_at = spec.unique().expires_at(since).map(|at| at.as_micros());
        tx.write(take_key, params![scope, key, job.seq, expires_at])?;
    }
    if spec.ephemeral {
        tx.write(sql::INSERT_EPHEMERAL, params![job.seq])?;
    }
    for (kind, value) in labels(spec) {
        tx.write(sql::INSERT_LABEL, params![kind, value, id.to_bytes(), job.seq])?;
    }
    Ok(())
}

/// Deletes what `store` and later transitions wrote, before the job's row is deleted.
pub(crate) fn remove(tx: &mut Tx<'_>, job: &IndexedJob<'_>, effects: &Effects) -> StoreResult<()> {
    apply(tx, job, effects)?;
    let Some((id, spec)) = job.spec else { return Ok(()) };
    for (kind, value) in labels(spec) {
        tx.write(sql::DELETE_LABEL, params![kind, value, id.to_bytes()])?;
    }
    tx.write(sql::DELETE_EPHEMERAL, params![job.seq])
}

/// Removes jobs that a claim takes, given in claim order, from their lanes. In each lane and level they are the first
/// ones, so one range delete removes them all.
pub(crate) fn delete_ready(tx: &Tx<'_>, jobs: &[ReadyJob<'_>]) -> StoreResult<()> {
    // Other writers may be claiming jobs between these, so that a range would delete too much.
    if !tx.db.is_only_writer() {
        return tx.db.take_each(sql::DELETE_READY, jobs.len(), &mut |row| {
            jobs.iter().try_for_each(|job| {
                let ReadyJob { lane: Lane { queue, name, .. }, level, run_at, seq, .. } = job;
                row(params![queue, name, level, run_at, seq])
            })
        });
    }
    let last_of_each: HashMap<_, _> = jobs.iter().map(|job| ((job.lane, job.level), (job.run_at, job.seq))).collect();
    for ((lane, level), (run_at, seq)) in last_of_each {
        tx.write(sql::DELETE_LANE_HEAD, params![lane.queue, lane.name, level, run_at, seq])?;
    }
    Ok(())
}

/// Takes a job from its worker. The execution keeps its slot in a limit until its handler ends.
pub(crate) fn take_from_worker(tx: &mut Tx<'_>, held: &Running, id: JobId) -> StoreResult<()> {
    let id = id.to_bytes();
    tx.write(sql::DELETE_RUNNING, params![id, held.run, held.worker.to_bytes(), held.flow])?;
    slots::occupy(tx, held, id)?;
    close_attempt(tx, held, AttemptStatus::Cancelled, None)
}

/// Stores the row of an attempt that has ended.
pub(crate) fn close_attempt(
    tx: &mut Tx<'_>,
    held: &Running,
    status: AttemptStatus,
    error: Option<&str>,
) -> StoreResult<()> {
    tx.write(
        sql::INSERT_ATTEMPT,
        params![
            held.seq,
            held.run,
            held.attempt,
            status.as_str(),
            held.worker.to_bytes(),
            held.started_at.as_micros(),
            tx.now.as_micros(),
            error,
        ],
    )?;
    if let Some(limit_key) = &held.limit_key {
        queue_limits::freed(tx, &held.queue, limit_key);
    }
    Ok(())
}
