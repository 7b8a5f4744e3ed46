//! Operators' actions.

use punctual_core::{AttemptStatus, Change, Changed, Job, Keep, Status, StoreError, Verb, change};
use rusqlite::{OptionalExtension, params};

use super::{
    error::store_error,
    gates,
    places::standing,
    rows,
    running::Running,
    settle::close,
    statements as sql,
    tx::{EventLine, Tx},
};

/// Applies operators' wishes.
pub(crate) fn change(tx: &mut Tx<'_>, changes: &[Change]) -> Result<Vec<Changed>, StoreError> {
    changes.iter().map(|change| change_one(tx, change).map_err(store_error)).collect()
}

fn change_one(tx: &mut Tx<'_>, wish: &Change) -> rusqlite::Result<Changed> {
    let found = tx.prepare(sql::GET)?.query_row([wish.job.to_bytes()], rows::job).optional()?;
    let Some((seq, mut job)) = found else { return Ok(Changed::NotFound) };
    let before = job.clone();
    match change::apply(wish.verb, &mut job, tx.now) {
        Ok(true) => Ok(Changed::Already),
        Err(refused) => Ok(Changed::Refused(refused)),
        Ok(false) => {
            let by = (Some(wish.actor.as_str()), wish.reason.as_deref());
            replace(tx, seq, &before, &job, by)?;
            Ok(Changed::Done)
        }
    }
}

/// Moves a job from where `before` stands to where `after` stands, with one event.
pub(crate) fn replace(
    tx: &mut Tx<'_>,
    seq: i64,
    before: &Job,
    after: &Job,
    (actor, detail): (Option<&str>, Option<&str>),
) -> rusqlite::Result<()> {
    let (queue, name) = (&after.spec.queue, &after.spec.name);
    // Before the running row goes, which knows it while the job is held.
    let last_event = tx.prepare(sql::LAST_EVENT)?.query_row([seq], |row| row.get(0))?;
    match before.status {
        Status::Queued => gates::leave(tx, standing(before, seq))?,
        Status::Scheduled | Status::Retrying => {
            tx.prepare(sql::DELETE_DUE)?.execute(params![before.run_at.as_micros(), seq])?;
        }
        Status::Waiting => {
            tx.prepare(sql::DELETE_WAITING)?.execute(params![before.run_at.as_micros(), seq])?;
        }
        Status::Processing => {
            let id = before.id.to_bytes();
            if let Some(held) = Running::find(tx.connection, id)? {
                close(tx, &held, id, AttemptStatus::Cancelled, None)?;
            }
        }
        _ => {}
    }
    if after.status == Status::Queued {
        gates::put(tx, standing(after, seq))?;
    }
    if matches!(after.status, Status::Cancelled | Status::Deleted)
        && let Some((scope, key)) = after.spec.unique_key()
    {
        tx.prepare(sql::DELETE_KEY)?.execute(params![scope, key, seq])?;
    }
    if let Some(expires_at) = kept_until(before) {
        tx.prepare(sql::DELETE_KEPT)?.execute(params![expires_at, seq])?;
    }
    if let Some(expires_at) = kept_until(after) {
        tx.prepare(sql::INSERT_KEPT)?.execute(params![expires_at, seq])?;
    }
    forget_death(tx, seq, before)?;
    if after.status == Status::Deleted {
        tx.prepare(sql::INSERT_DELETED)?.execute(params![after.updated_at.as_micros(), seq])?;
    }
    let run = (before.status == Status::Processing).then_some(before.run);
    let line = EventLine { status: after.status, run, actor, detail };
    let event = tx.event(&mut tx.prepare(sql::INSERT_EVENT)?, seq, last_event, line)?;
    tx.prepare(sql::SAVE_JOB)?.execute(params![
        seq,
        after.status.as_str(),
        after.run_at.as_micros(),
        after.attempt,
        after.run,
        after.spec.max_attempts,
        after.updated_at.as_micros(),
        after.started_at.map(|at| at.as_micros()),
        after.finished_at.map(|at| at.as_micros()),
        event,
        after.waiting_on,
    ])?;
    tx.count(queue, name, Some(before.status), Some(after.status));
    tx.count_pending(after.spec.user_id.as_deref(), name, Some(before.status), Some(after.status));
    if after.status.is_finished() {
        tx.ended(after.id, seq, before.status, after.status)?;
    } else if before.status.is_finished() {
        tx.count_end(seq, before.status, after.status)?;
    }
    tx.woke_jobs = true;
    Ok(())
}

/// Takes a job off the list of the dead, if it is on it.
pub(crate) fn forget_death(tx: &Tx<'_>, seq: i64, job: &Job) -> rusqlite::Result<()> {
    if let (Status::Dead, Some(died_at)) = (job.status, job.finished_at) {
        tx.prepare(sql::DELETE_DEAD)?.execute(params![died_at.as_micros(), seq])?;
    }
    Ok(())
}

/// Until when a finished job is kept by its own wish. A deleted one has no wishes left.
pub(crate) fn kept_until(job: &Job) -> Option<i64> {
    let finished_at = job.finished_at.filter(|_| job.status != Status::Deleted)?;
    job.spec.keep_for.map(|keep| finished_at.after(keep).as_micros())
}

/// Makes finished jobs deleted that have been kept long enough.
pub(crate) fn retire(tx: &mut Tx<'_>, keep: Keep, limit: usize) -> Result<usize, StoreError> {
    retire_some(tx, keep, limit).map_err(store_error)
}

fn retire_some(tx: &mut Tx<'_>, keep: Keep, limit: usize) -> rusqlite::Result<usize> {
    let mut seqs: Vec<i64> = Vec::new();
    for status in [Status::Succeeded, Status::Dead, Status::Cancelled] {
        let cutoff = tx.now.before(keep.of(status)).as_micros();
        let room = (limit - seqs.len()) as i64;
        let mut retirable = tx.prepare(sql::RETIRABLE)?;
        let rows = retirable.query_map(params![status.as_str(), cutoff, room], |row| row.get(0))?;
        seqs.extend(rows.collect::<Result<Vec<i64>, _>>()?);
    }
    let room = (limit - seqs.len()) as i64;
    let mut kept = tx.prepare(sql::RETIRABLE_KEPT)?;
    let rows = kept.query_map(params![tx.now.as_micros(), room], |row| row.get(0))?;
    seqs.extend(rows.collect::<Result<Vec<i64>, _>>()?);
    for seq in &seqs {
        let (seq, mut job) = tx.prepare(sql::GET_BY_SEQ)?.query_row([seq], rows::job)?;
        let before = job.clone();
        if change::apply(Verb::Delete, &mut job, tx.now).is_ok() {
            replace(tx, seq, &before, &job, (Some("retention"), None))?;
        }
    }
    Ok(seqs.len())
}
