//! Jobs come in.

use punctual_core::{Enqueued, JobId, NewJob, Spec, Status, StoreResult, flow::Next};

use super::{
    flow::{self, Family},
    gates,
    places::Standing,
    rows, statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::params;
use crate::labels::labels;

/// Stores jobs with their events, and puts each where claims will find it.
pub(crate) fn enqueue(tx: &mut Tx<'_>, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    jobs.iter().map(|job| enqueue_one(tx, job)).collect()
}

fn enqueue_one(tx: &mut Tx<'_>, job: &NewJob) -> StoreResult<Enqueued> {
    if let Some(holder) = in_the_way(tx, job)? {
        let updated = update(tx, holder, job)?;
        return Ok(Enqueued { updated, ..Enqueued::existing(holder.1) });
    }
    let extras = rows::extras_text(&job.spec.extras)?;
    let family = Family::of(tx, job)?;
    let stored = insert(tx, job, extras.as_deref(), &family)?;
    Ok(if stored { Enqueued::new(job.id) } else { Enqueued::existing(job.id) })
}

/// The place and the id of the job that holds the key which this one wants, if it is in its way.
fn in_the_way(tx: &Tx<'_>, job: &NewJob) -> StoreResult<Option<(i64, JobId)>> {
    let Some((scope, key)) = job.spec.unique_key() else { return Ok(None) };
    let holder = tx.db.one(sql::FIND_KEY, params![scope, key], |row| {
        let place = (row.get(0)?, JobId::from_bytes(row.get(1)?));
        let status: Status = rows::word(row, 3)?;
        let conflicts = job.spec.unique().conflicts(status, rows::optional_instant(row, 2)?, tx.now);
        Ok(conflicts.then_some(place))
    })?;
    Ok(holder.flatten())
}

/// Changes the job that is in the way, if the new one says so; says whether it did.
fn update(tx: &mut Tx<'_>, (seq, _): (i64, JobId), new: &NewJob) -> StoreResult<bool> {
    let unique = new.spec.unique();
    if !unique.updates() {
        return Ok(false);
    }
    let (_, job) = tx.db.only(sql::GET_BY_SEQ, params![seq], rows::job)?;
    let Some(update) = unique.update(job.status, job.run_at, new.start(tx.now).1) else { return Ok(false) };
    let last_event = tx.db.only(sql::LAST_EVENT, params![seq], |row| row.get(0))?;
    let line = EventLine { status: job.status, run: None, actor: None, detail: Some(update.detail()) };
    let event = tx.event(seq, last_event, line)?;
    let payload = update.payload.then_some(new.spec.payload.as_str());
    let run_at = update.run_at.unwrap_or(job.run_at).as_micros();
    tx.execute(sql::UPDATE_JOB, params![seq, payload, run_at, tx.now.as_micros(), event])?;
    if update.run_at.is_some() {
        tx.execute(sql::DELETE_DUE, params![job.run_at.as_micros(), seq])?;
        tx.execute(sql::INSERT_DUE, params![run_at, seq])?;
    }
    tx.woke_jobs = true;
    Ok(true)
}

fn insert(tx: &mut Tx<'_>, job: &NewJob, extras: Option<&str>, family: &Family) -> StoreResult<bool> {
    let NewJob { id, spec, .. } = job;
    let (start, run_at) = job.start(tx.now);
    let status = if family.next == Next::Start { start } else { Status::Waiting };
    let first_event = tx.next_event()?;
    let inserted = tx.db.insert(
        sql::INSERT_JOB,
        params![
            id.to_bytes(),
            spec.name,
            spec.queue,
            status.as_str(),
            spec.priority,
            id.timestamp().as_micros(),
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
            first_event,
            family.waiting().on,
            spec.workflow_id.is_some(),
        ],
    )?;
    let Some(seq) = inserted else { return Ok(false) };
    match status {
        Status::Queued => match spec.extras.concurrency_key.as_deref() {
            None => {
                tx.execute(sql::INSERT_READY, params![spec.queue, spec.name, spec.priority, run_at.as_micros(), seq])?;
            }
            key => {
                let Spec { queue, name, priority, .. } = spec;
                let run_at = run_at.as_micros();
                gates::put(tx, Standing { queue, name, priority: *priority, run_at, seq, key })?;
            }
        },
        Status::Waiting => {
            tx.execute(sql::INSERT_WAITING, params![run_at.as_micros(), seq, family.waiting().any_failed])?;
        }
        _ => drop(tx.execute(sql::INSERT_DUE, params![run_at.as_micros(), seq])?),
    }
    if let Some((scope, key)) = spec.unique_key() {
        let expires_at = spec.unique().expires_at(tx.now).map(|at| at.as_micros());
        tx.execute(sql::INSERT_KEY, params![scope, key, seq, expires_at])?;
    }
    if spec.ephemeral {
        tx.execute(sql::INSERT_EPHEMERAL, params![seq])?;
    }
    for (kind, value) in labels(spec) {
        tx.execute(sql::INSERT_LABEL, params![kind, value, id.to_bytes(), seq])?;
    }
    tx.event(seq, None, EventLine::plain(status, None))?;
    tx.count(&spec.queue, &spec.name, None, Some(status));
    tx.count_pending(spec.user_id.as_deref(), &spec.name, None, Some(status));
    flow::join(tx, seq, job, family)?;
    // A scheduled job may be due before any that idle workers are waiting for, so it wakes them too.
    tx.woke_work = true;
    Ok(true)
}
