//! Jobs come in.

use punctual_core::{Enqueued, JobId, NewJob, Spec, Status, StoreError, flow::Next};
use rusqlite::{CachedStatement, OptionalExtension, params};

use super::{
    error::store_error,
    flow::{self, Family},
    gates,
    places::Standing,
    rows::{self, labels},
    statements as sql,
    tx::{EventLine, Tx},
};

/// Stores jobs with their events, and puts each where claims will find it.
pub(crate) fn enqueue(tx: &mut Tx<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, StoreError> {
    let mut inserts = Inserts::prepare(tx).map_err(store_error)?;
    jobs.iter().map(|job| enqueue_one(tx, &mut inserts, job)).collect()
}

/// The statements that every job needs, looked up once for a batch.
struct Inserts<'c> {
    job: CachedStatement<'c>,
    ready: CachedStatement<'c>,
    event: CachedStatement<'c>,
}

impl<'c> Inserts<'c> {
    fn prepare(tx: &Tx<'c>) -> rusqlite::Result<Self> {
        let (job, ready) = (tx.prepare(sql::INSERT_JOB)?, tx.prepare(sql::INSERT_READY)?);
        Ok(Self { job, ready, event: tx.prepare(sql::INSERT_EVENT)? })
    }
}

fn enqueue_one<'c>(tx: &mut Tx<'c>, inserts: &mut Inserts<'c>, job: &NewJob) -> Result<Enqueued, StoreError> {
    if let Some(holder) = in_the_way(tx, job).map_err(store_error)? {
        let updated = update(tx, inserts, holder, job).map_err(store_error)?;
        return Ok(Enqueued { updated, ..Enqueued::existing(holder.1) });
    }
    let extras = rows::extras_text(&job.spec.extras)?;
    let family = Family::of(tx, job)?;
    let stored = insert(tx, inserts, job, extras.as_deref(), &family).map_err(store_error)?;
    Ok(if stored { Enqueued::new(job.id) } else { Enqueued::existing(job.id) })
}

/// The place and the id of the job that holds the key which this one wants, if it is in its way.
fn in_the_way(tx: &Tx<'_>, job: &NewJob) -> rusqlite::Result<Option<(i64, JobId)>> {
    let Some((scope, key)) = job.spec.unique_key() else { return Ok(None) };
    let mut find = tx.prepare(sql::FIND_KEY)?;
    let holder = find.query_row(params![scope, key], |row| {
        let place = (row.get(0)?, JobId::from_bytes(row.get(1)?));
        let status: Status = rows::word(row, 3)?;
        let conflicts = job.spec.unique().conflicts(status, rows::optional_instant(row, 2)?, tx.now);
        Ok(conflicts.then_some(place))
    });
    Ok(holder.optional()?.flatten())
}

/// Changes the job that is in the way, if the new one says so; says whether it did.
fn update<'c>(
    tx: &mut Tx<'c>,
    inserts: &mut Inserts<'c>,
    (seq, _): (i64, JobId),
    new: &NewJob,
) -> rusqlite::Result<bool> {
    let unique = new.spec.unique();
    if !unique.updates() {
        return Ok(false);
    }
    let (_, job) = tx.prepare(sql::GET_BY_SEQ)?.query_row([seq], rows::job)?;
    let Some(update) = unique.update(job.status, job.run_at, new.start(tx.now).1) else { return Ok(false) };
    let last_event = tx.prepare(sql::LAST_EVENT)?.query_row([seq], |row| row.get(0))?;
    let line = EventLine { status: job.status, run: None, actor: None, detail: Some(update.detail()) };
    let event = tx.event(&mut inserts.event, seq, last_event, line)?;
    let payload = update.payload.then_some(new.spec.payload.as_str());
    let run_at = update.run_at.unwrap_or(job.run_at).as_micros();
    tx.prepare(sql::UPDATE_JOB)?.execute(params![seq, payload, run_at, tx.now.as_micros(), event])?;
    if update.run_at.is_some() {
        tx.prepare(sql::DELETE_DUE)?.execute(params![job.run_at.as_micros(), seq])?;
        tx.prepare(sql::INSERT_DUE)?.execute(params![run_at, seq])?;
    }
    tx.woke_jobs = true;
    Ok(true)
}

fn insert<'c>(
    tx: &mut Tx<'c>,
    inserts: &mut Inserts<'c>,
    job: &NewJob,
    extras: Option<&str>,
    family: &Family,
) -> rusqlite::Result<bool> {
    let NewJob { id, spec, .. } = job;
    let (start, run_at) = job.start(tx.now);
    let status = if family.next == Next::Start { start } else { Status::Waiting };
    let first_event = tx.next_event()?;
    let inserted = inserts.job.execute(params![
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
    ])?;
    if inserted == 0 {
        return Ok(false);
    }
    let seq = tx.connection.last_insert_rowid();
    match status {
        Status::Queued => match spec.extras.concurrency_key.as_deref() {
            None => {
                inserts.ready.execute(params![spec.queue, spec.name, spec.priority, run_at.as_micros(), seq])?;
            }
            key => {
                let Spec { queue, name, priority, .. } = spec;
                let run_at = run_at.as_micros();
                gates::put(tx, Standing { queue, name, priority: *priority, run_at, seq, key })?;
            }
        },
        Status::Waiting => {
            let row = params![run_at.as_micros(), seq, family.waiting().any_failed];
            tx.prepare(sql::INSERT_WAITING)?.execute(row)?;
        }
        _ => drop(tx.prepare(sql::INSERT_DUE)?.execute(params![run_at.as_micros(), seq])?),
    }
    if let Some((scope, key)) = spec.unique_key() {
        let expires_at = spec.unique().expires_at(tx.now).map(|at| at.as_micros());
        tx.prepare(sql::INSERT_KEY)?.execute(params![scope, key, seq, expires_at])?;
    }
    if spec.ephemeral {
        tx.prepare(sql::INSERT_EPHEMERAL)?.execute([seq])?;
    }
    for (kind, value) in labels(spec) {
        tx.prepare(sql::INSERT_LABEL)?.execute(params![kind, value, id.to_bytes(), seq])?;
    }
    tx.event(&mut inserts.event, seq, None, EventLine::plain(status, None))?;
    tx.count(&spec.queue, &spec.name, None, Some(status));
    tx.count_pending(spec.user_id.as_deref(), &spec.name, None, Some(status));
    flow::join(tx, seq, job, family)?;
    // A scheduled job may be due before any that idle workers are waiting for, so it wakes them too.
    tx.woke_work = true;
    Ok(true)
}
