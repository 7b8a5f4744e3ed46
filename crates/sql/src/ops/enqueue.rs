//! Jobs come in.

use punctual_core::{Enqueued, JobId, NewJob, Spec, Status, StoreResult, Timestamp, flow::Next};

use super::{
    flow::{self, Family},
    gates,
    places::Standing,
    rows, statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::{Value, params};
use crate::labels::labels;

/// Stores jobs with their events, and puts each where claims will find it.
pub(crate) fn enqueue(tx: &mut Tx<'_>, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    if !jobs.iter().all(|job| stands_alone(job) && job.spec.extras.concurrency_key.is_none()) {
        tx.db.be_alone()?;
    }
    tx.expect_events(jobs.len())?;
    let mut enqueued = Vec::with_capacity(jobs.len());
    // What becomes of others, those may depend on that came just before.
    for some in jobs.chunk_by(|one, next| stands_alone(one) && stands_alone(next)) {
        enqueue_some(tx, some, &mut enqueued)?;
    }
    Ok(enqueued)
}

/// Whether a job has nothing to do with others.
fn stands_alone(job: &NewJob) -> bool {
    job.spec.unique_key().is_none() && job.parents.is_empty() && job.spec.place().is_none()
}

fn enqueue_some(tx: &mut Tx<'_>, jobs: &[NewJob], enqueued: &mut Vec<Enqueued>) -> StoreResult<()> {
    let mut arrivals = Vec::with_capacity(jobs.len());
    for job in jobs {
        if let Some(holder) = in_the_way(tx, job)? {
            let updated = update(tx, holder, job)?;
            enqueued.push(Enqueued { updated, ..Enqueued::existing(holder.1) });
        } else {
            arrivals.push(Arrival::of(tx, job)?);
        }
    }
    let seqs = tx
        .db
        .insert_each(sql::INSERT_JOB, &mut |row| arrivals.iter().try_for_each(|arrival| arrival.insert(tx.now, row)))?;
    for (arrival, seq) in arrivals.iter().zip(seqs) {
        enqueued.push(match seq {
            Some(seq) => {
                arrival.settle_in(tx, seq)?;
                Enqueued::new(arrival.job.id)
            }
            None => Enqueued::existing(arrival.job.id),
        });
    }
    Ok(())
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
    tx.write(sql::UPDATE_JOB, params![seq, payload, run_at, tx.now.as_micros(), event])?;
    if update.run_at.is_some() {
        tx.write(sql::DELETE_DUE, params![job.run_at.as_micros(), seq])?;
        tx.write(sql::INSERT_DUE, params![run_at, seq])?;
    }
    tx.woke_jobs = true;
    Ok(true)
}

/// A job that comes in.
struct Arrival<'j> {
    job: &'j NewJob,
    extras: Option<String>,
    family: Family,
    status: Status,
    run_at: i64,
    first_event: i64,
}

impl<'j> Arrival<'j> {
    fn of(tx: &mut Tx<'_>, job: &'j NewJob) -> StoreResult<Self> {
        let family = Family::of(tx, job)?;
        let (start, run_at) = job.start(tx.now);
        Ok(Self {
            extras: rows::extras_text(&job.spec.extras)?,
            status: if family.next == Next::Start { start } else { Status::Waiting },
            family,
            job,
            run_at: run_at.as_micros(),
            first_event: tx.number_event()?,
        })
    }

    /// Its row.
    fn insert(&self, now: Timestamp, row: &mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>) -> StoreResult<()> {
        let NewJob { id, spec, .. } = self.job;
        row(params![
            id.to_bytes(),
            spec.name,
            spec.queue,
            self.status.as_str(),
            spec.priority,
            id.timestamp().as_micros(),
            self.run_at,
            spec.max_attempts,
            spec.timeout.as_millis() as i64,
            spec.user_id,
            spec.correlation_id,
            spec.unique_key,
            spec.workflow_id.map(|id| id.to_bytes()),
            spec.keep_for.map(|keep| keep.as_millis() as i64),
            spec.ephemeral,
            now.as_micros(),
            self.extras,
            spec.payload.as_str(),
            self.first_event,
            self.family.waiting().on,
            spec.workflow_id.is_some(),
        ])
    }

    /// Stored, it takes its place.
    fn settle_in(&self, tx: &mut Tx<'_>, seq: i64) -> StoreResult<()> {
        let Self { job: NewJob { id, spec, .. }, family, status, run_at, .. } = self;
        let Spec { queue, name, priority, .. } = spec;
        match status {
            Status::Queued => {
                let key = spec.extras.concurrency_key.as_deref();
                gates::put(tx, Standing { queue, name, priority: *priority, run_at: *run_at, seq, key })?;
            }
            Status::Waiting => tx.write(sql::INSERT_WAITING, params![run_at, seq, family.waiting().any_failed])?,
            _ => tx.write(sql::INSERT_DUE, params![run_at, seq])?,
        }
        if let Some((scope, key)) = spec.unique_key() {
            let expires_at = spec.unique().expires_at(tx.now).map(|at| at.as_micros());
            tx.write(sql::INSERT_KEY, params![scope, key, seq, expires_at])?;
        }
        if spec.ephemeral {
            tx.write(sql::INSERT_EPHEMERAL, params![seq])?;
        }
        for (kind, value) in labels(spec) {
            tx.write(sql::INSERT_LABEL, params![kind, value, id.to_bytes(), seq])?;
        }
        tx.write_event(self.first_event, tx.now, seq, None, EventLine::plain(*status, None))?;
        tx.count(queue, name, None, Some(*status));
        tx.count_pending(spec.user_id.as_deref(), name, None, Some(*status));
        flow::join(tx, seq, self.job, family)?;
        // A scheduled job may be due before any that idle workers are waiting for, so it wakes them too.
        tx.woke_work = true;
        Ok(())
    }
}
