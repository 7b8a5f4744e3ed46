//! Operators' actions.

use std::collections::HashMap;

use punctual_core::{
    Change, Changed, Job, JobId, Refused, Status, StoreResult, Timestamp, Verb,
    change::{self, KeyChange, KeyHolder},
    effects::{Effects, Phase},
};

use super::{
    effects::{self, IndexedJob},
    independent_batches::independent_batches,
    rows::{self, JobRow},
    running::Running,
    statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::params;

/// Applies operators' changes.
pub(crate) fn change(tx: &mut Tx<'_>, changes: &[Change]) -> StoreResult<Vec<Changed>> {
    let mut changed = Vec::with_capacity(changes.len());
    // A change may depend on the result of an earlier change to the same job.
    for some in independent_batches(changes, |change, is_new| is_new(change.job)) {
        let found = tx.db.all_each(
            sql::JOB,
            &mut |row| some.iter().try_for_each(|change| row(params![change.job.to_bytes()])),
            JobRow::of,
        )?;
        let mut found: HashMap<usize, JobRow> = found.into_iter().collect();
        let decide = |(index, change): (usize, &Change)| decide(found.remove(&index), change, tx.now);
        let decided: Vec<_> = some.iter().enumerate().map(decide).collect();
        tx.expect_events(decided.iter().filter(|decided| decided.is_ok()).count())?;
        for (change, decided) in some.iter().zip(decided) {
            changed.push(match decided {
                Ok((known, job)) => {
                    if let Err(refused) = retake_key(tx, change.verb, &known)? {
                        changed.push(Changed::Refused(refused));
                        continue;
                    }
                    replace(tx, &known, &job, (Some(change.actor.as_str()), change.reason.as_deref()))?;
                    Changed::Done
                }
                Err(changed) => changed,
            });
        }
    }
    Ok(changed)
}

/// The job after the change, or the reason why nothing changes.
fn decide(known: Option<JobRow>, change: &Change, now: Timestamp) -> Result<(JobRow, Job), Changed> {
    let known = known.ok_or(Changed::NotFound)?;
    let mut job = known.job.clone();
    match change::apply(change.verb, &mut job, now) {
        Ok(false) => Ok((known, job)),
        Ok(true) => Err(Changed::Already),
        Err(refused) => Err(Changed::Refused(refused)),
    }
}

/// Takes the unique key for a job that is to run again, unless another job holds it.
fn retake_key(tx: &Tx<'_>, verb: Verb, known: &JobRow) -> StoreResult<Result<(), Refused>> {
    let Some((scope, key)) = change::needed_key(verb, &known.job) else { return Ok(Ok(())) };
    let found = tx.db.all_each(sql::FIND_KEY, &mut |row| row(params![scope, key]), |row| {
        let (job, status) = (JobId::from_bytes(row.get(1)?), rows::word(row, 3)?);
        Ok(KeyHolder { job, status, expires_at: rows::optional_instant(row, 2)? })
    })?;
    let holder = found.into_iter().next().map(|(_, holder)| holder);
    match change::retake_key(verb, &known.job, holder, tx.now) {
        Ok(KeyChange::Take(expires_at)) => {
            let expires_at = expires_at.map(|at| at.as_micros());
            tx.write(sql::INSERT_KEY, params![scope, key, known.seq, expires_at]).map(Ok)
        }
        Ok(KeyChange::Leave) => Ok(Ok(())),
        Err(refused) => Ok(Err(refused)),
    }
}

/// Moves a job from its current index to that of `after`, with one event.
pub(crate) fn replace(
    tx: &mut Tx<'_>,
    known: &JobRow,
    after: &Job,
    (actor, detail): (Option<&str>, Option<&str>),
) -> StoreResult<()> {
    let JobRow { seq, job: before, last_event } = known;
    let effects = Effects::changed(Phase::of(before), Phase::of(after));
    if effects.keeps_slot
        && let Some(held) = Running::find(tx.db, before.id.to_bytes())?
    {
        effects::take_from_worker(tx, &held, before.id)?;
    }
    effects::apply(tx, &IndexedJob::of(after, *seq), &effects)?;
    let run = (before.status == Status::Processing).then_some(before.run);
    let line = EventLine { status: after.status, run, actor, detail };
    let event = effects::write_events(tx, (*seq, *last_event), &effects, line)?;
    tx.write(
        sql::SAVE_JOB,
        params![
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
        ],
    )?;
    tx.jobs_changed = true;
    Ok(())
}
