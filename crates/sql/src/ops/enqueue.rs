//! Stores new jobs.

use std::collections::HashMap;

use punctual_core::{
    Enqueued, JobId, NewJob, Status, StoreResult, Timestamp, WorkflowId,
    effects::{Effects, Phase},
    flow::Next,
};

use super::{
    effects::{self, IndexedJob},
    flow::{Family, Relatives},
    independent_batches::independent_batches,
    read,
    rows::{self, JobRow},
    statements as sql,
    tx::{EventLine, NewEvent, Tx},
};
use crate::db::{Value, params};

/// Stores jobs with their events, and inserts each into the index that claims read.
pub(crate) fn enqueue(tx: &mut Tx<'_>, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    if !jobs.iter().all(|job| is_independent(job) && job.spec.options.concurrency_key.is_none()) {
        tx.job_db.be_alone()?;
    }
    let mut enqueued = Vec::with_capacity(jobs.len());
    for batch in independent_batches(jobs, SharedProperty::are_new) {
        enqueue_batch(tx, batch, &mut enqueued)?;
    }
    Ok(enqueued)
}

/// Whether a job has no unique key, no parents and no workflow node.
fn is_independent(job: &NewJob) -> bool {
    job.spec.unique_key().is_none() && job.parents.is_empty() && job.spec.workflow_node().is_none()
}

/// A property that two jobs may share. What happens to the second then depends on the result of the first.
#[derive(PartialEq, Eq, Hash)]
enum SharedProperty<'j> {
    Id(JobId),
    Key(String, &'j str),
    WorkflowNode(WorkflowId, &'j str),
}

impl<'j> SharedProperty<'j> {
    fn are_new(job: &'j NewJob, is_new: &mut dyn FnMut(Self) -> bool) -> bool {
        is_new(Self::Id(job.id))
            && job.spec.unique_key().is_none_or(|(scope, key)| is_new(Self::Key(scope, key)))
            && job.spec.workflow_node().is_none_or(|(workflow, node)| is_new(Self::WorkflowNode(workflow, node)))
    }
}

/// Stores jobs that share no [property](SharedProperty) with each other.
fn enqueue_batch(tx: &mut Tx<'_>, jobs: &[NewJob], enqueued: &mut Vec<Enqueued>) -> StoreResult<()> {
    tx.count_ends()?;
    let mut relatives = Relatives::of(tx, jobs)?;
    let mut holders = holders(tx, jobs)?;
    let unchanged = holders.values().filter(|holder| holder.known.is_none()).count();
    tx.expect_events(jobs.len() - unchanged)?;
    let mut arrivals = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.iter().enumerate() {
        if let Some(holder) = holders.remove(&index) {
            let updated = update(tx, &holder, job)?;
            enqueued.push(Enqueued { updated, ..Enqueued::existing(holder.id) });
        } else {
            arrivals.push((enqueued.len(), Arrival::of(tx, &mut relatives, job)?));
            enqueued.push(Enqueued::new(job.id));
        }
    }
    let seqs = tx.job_db.insert_each(sql::INSERT_JOB, &mut |row| {
        arrivals.iter().try_for_each(|(_, arrival)| arrival.insert(tx.now, row))
    })?;
    for ((_, arrival), seq) in arrivals.iter().zip(&seqs) {
        relatives.is_stored(arrival.job.id, *seq);
    }
    for ((index, arrival), seq) in arrivals.iter().zip(seqs) {
        match seq {
            Some(seq) => arrival.insert_related(tx, &relatives, seq)?,
            None => enqueued[*index] = Enqueued::existing(arrival.job.id),
        }
    }
    Ok(())
}

/// The job that holds the unique key of a new one and conflicts with it, or the new job itself, if it is already
/// stored.
struct ConflictingJob {
    seq: i64,
    id: JobId,
    /// The whole job, where the new one may update it.
    known: Option<JobRow>,
}

/// The conflicting job for each new job, by the new job's index.
fn holders(tx: &Tx<'_>, jobs: &[NewJob]) -> StoreResult<HashMap<usize, ConflictingJob>> {
    let keyed: Vec<_> =
        jobs.iter().enumerate().filter_map(|(index, job)| Some((index, job, job.spec.unique_key()?))).collect();
    let found = tx.db.all_each(
        sql::FIND_KEY,
        &mut |row| keyed.iter().try_for_each(|(_, _, (scope, key))| row(params![scope, key])),
        |row| {
            let holder = ConflictingJob { seq: row.get(0)?, id: JobId::from_bytes(row.get(1)?), known: None };
            Ok((holder, rows::optional_instant(row, 2)?, rows::word::<Status>(row, 3)?))
        },
    )?;
    let mut holders = HashMap::new();
    for (found, (mut holder, expires_at, status)) in found {
        let (index, job, _) = keyed[found];
        let conflicts = job.spec.unique().conflicts(status, expires_at, tx.now);
        // A repeated enqueue returns its own job, whichever job holds the key now.
        if conflicts && holder.id != job.id && read::seq_of(tx.db, job.id)?.is_some() {
            holder.id = job.id;
        }
        if conflicts || holder.id == job.id {
            holders.insert(index, holder);
        }
    }
    let mut changed: Vec<&mut ConflictingJob> = holders
        .iter_mut()
        .filter(|(index, holder)| jobs[**index].spec.unique().updates() && holder.id != jobs[**index].id)
        .map(|(_, holder)| holder)
        .collect();
    let seqs: Vec<i64> = changed.iter().map(|holder| holder.seq).collect();
    for (holder, known) in changed.iter_mut().zip(read::known(tx.db, &seqs)?) {
        holder.known = Some(known);
    }
    Ok(holders)
}

/// Updates the conflicting job, if the new one requests it; returns whether it did.
fn update(tx: &mut Tx<'_>, holder: &ConflictingJob, new: &NewJob) -> StoreResult<bool> {
    let Some(JobRow { seq, job, last_event }) = &holder.known else { return Ok(false) };
    let update = new.spec.unique().update(job.status, job.run_at, new.start(tx.now).1);
    let Some(update) = update else { return Ok(false) };
    let before = Phase::of(job);
    let after = Phase { run_at: update.run_at.unwrap_or(job.run_at), updated_at: tx.now, ..before };
    let effects = Effects::changed(before, after);
    let line = EventLine { status: job.status, run: None, actor: None, detail: Some(update.detail()) };
    let event = effects::write_events(tx, (*seq, *last_event), &effects, line)?;
    let payload = update.payload.then_some(new.spec.payload.as_str());
    let run_at = after.run_at.as_micros();
    tx.write(sql::UPDATE_JOB, params![seq, payload, run_at, tx.now.as_micros(), event])?;
    effects::apply(tx, &IndexedJob::of(job, *seq), &effects)?;
    tx.jobs_changed = true;
    Ok(true)
}

/// A job that is being enqueued.
struct Arrival<'j> {
    job: &'j NewJob,
    options: Option<String>,
    family: Family,
    phase: Phase,
    first_event: i64,
}

impl<'j> Arrival<'j> {
    fn of(tx: &mut Tx<'_>, relatives: &mut Relatives<'_>, job: &'j NewJob) -> StoreResult<Self> {
        let family = Family::of(relatives, job)?;
        let phase = Phase::new(job, &family.next, tx.now);
        let is_cancelled = matches!(family.next, Next::Cancel(_));
        relatives.begins(job.id, if is_cancelled { Status::Cancelled } else { phase.status });
        Ok(Self {
            options: rows::options_text(&job.spec.options)?,
            phase,
            family,
            job,
            first_event: tx.number_event()?,
        })
    }

    /// Passes on the values of its row.
    fn insert(&self, now: Timestamp, row: &mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>) -> StoreResult<()> {
        let NewJob { id, spec, .. } = self.job;
        row(params![
            id.to_bytes(),
            spec.name,
            spec.queue,
            self.phase.status.as_str(),
            spec.priority,
            id.timestamp().as_micros(),
            self.phase.run_at.as_micros(),
            spec.max_attempts,
            spec.timeout.as_millis() as i64,
            spec.user_id,
            spec.correlation_id,
            spec.unique_key,
            spec.workflow_id.map(|id| id.to_bytes()),
            spec.keep_for.map(|keep| keep.as_millis() as i64),
            spec.ephemeral,
            now.as_micros(),
            self.options,
            spec.payload.as_str(),
            self.first_event,
            self.family.waiting().on,
            spec.workflow_id.is_some(),
        ])
    }

    /// Inserts the stored job into its indexes, and writes its event and counters.
    fn insert_related(&self, tx: &mut Tx<'_>, relatives: &Relatives<'_>, seq: i64) -> StoreResult<()> {
        let Self { job: NewJob { id, spec, .. }, family, phase, .. } = self;
        let effects = Effects::stored(*phase);
        let job = IndexedJob { any_failed: family.waiting().any_failed, ..IndexedJob::new(*id, spec, seq) };
        effects::store(tx, &job, &effects, (sql::INSERT_KEY, tx.now))?;
        let line = EventLine::plain(phase.status, None);
        tx.write_event(self.first_event, NewEvent { job: seq, previous: None, at: tx.now, line })?;
        family.join(tx, seq, self.job, relatives)?;
        // A scheduled job may be due before any job that idle workers wait for, so it wakes them too.
        tx.new_work = true;
        Ok(())
    }
}
