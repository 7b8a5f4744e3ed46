//! Jobs come in.

use punctual_core::{Enqueued, JobId, NewJob, Status, StoreError};
use rusqlite::{OptionalExtension, params};

use super::{
    error::store_error,
    rows, statements as sql,
    tx::{EventLine, Tx},
};

/// Stores jobs with their events, and puts each where claims will find it.
pub(crate) fn enqueue(tx: &mut Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
    jobs.iter().map(|job| enqueue_one(tx, job)).collect()
}

fn enqueue_one(tx: &mut Tx<'_>, job: &NewJob) -> Result<Enqueued, StoreError> {
    if let Some(id) = holder_of_key(tx, job).map_err(store_error)? {
        return Ok(Enqueued { id, existing: true });
    }
    let extras = rows::extras_text(&job.spec.extras)?;
    let stored = insert(tx, job, extras.as_deref()).map_err(store_error)?;
    Ok(Enqueued { id: job.id, existing: !stored })
}

fn holder_of_key(tx: &Tx<'_>, job: &NewJob) -> rusqlite::Result<Option<JobId>> {
    let Some(key) = &job.spec.unique_key else { return Ok(None) };
    let mut find = tx.prepare(sql::FIND_KEY)?;
    find.query_row(params![job.spec.name, key], |row| row.get(0).map(JobId::from_bytes)).optional()
}

fn insert(tx: &mut Tx<'_>, job: &NewJob, extras: Option<&str>) -> rusqlite::Result<bool> {
    let NewJob { id, timed, spec } = job;
    let scheduled_at = id.timestamp();
    // A client's clock may be ahead of ours: what need not wait must not wait for that either.
    let run_at = if *timed { scheduled_at } else { scheduled_at.min(tx.now) };
    let status = if run_at > tx.now { Status::Scheduled } else { Status::Queued };
    let inserted = tx.prepare(sql::INSERT_JOB)?.execute(params![
        id.to_bytes(),
        spec.name,
        spec.queue,
        status.as_str(),
        spec.priority,
        scheduled_at.as_micros(),
        run_at.as_micros(),
        spec.max_attempts,
        spec.timeout.as_millis() as i64,
        spec.user_id,
        spec.correlation_id,
        spec.unique_key,
        spec.workflow_id.map(|id| id.to_bytes()),
        spec.keep_for.map(|keep| keep.as_millis() as i64),
        spec.ephemeral,
        tx.now.as_micros(),
        extras,
        spec.payload.as_str(),
    ])?;
    if inserted == 0 {
        return Ok(false);
    }
    let seq = tx.connection.last_insert_rowid();
    if status == Status::Queued {
        tx.prepare(sql::INSERT_READY)?.execute(params![
            spec.queue,
            spec.name,
            spec.priority,
            run_at.as_micros(),
            seq
        ])?;
    } else {
        tx.prepare(sql::INSERT_DUE)?.execute(params![run_at.as_micros(), seq])?;
    }
    if let Some(key) = &spec.unique_key {
        tx.prepare(sql::INSERT_KEY)?.execute(params![spec.name, key, seq])?;
    }
    EventLine::plain(status, None).write(&mut tx.prepare(sql::INSERT_EVENT)?, seq, tx.now)?;
    tx.count(&spec.queue, &spec.name, None, Some(status));
    // A scheduled job may be due before any that idle workers are waiting for, so it wakes them too.
    tx.woke_work = true;
    Ok(true)
}
