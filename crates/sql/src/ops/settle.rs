//! Settles executions.

use std::time::Duration;

use punctual_core::{AttemptStatus, Settled, Settlement, Status, StoreResult, Timestamp, effects::Effects};

use super::{
    effects::{self, IndexedJob},
    rows,
    running::Running,
    slots, statements as sql,
    tx::{EventLine, Held, Tx},
};
use crate::db::params;

/// A lease counts as lost only if the settlement waited less than this for the writer.
const LOST_MAX_WAIT: Duration = Duration::from_secs(2);

/// Ends executions whose fence matches, and releases the slots of those whose fence does not: their handlers have
/// ended, or are not waited for any longer.
pub(crate) fn settle_ended(tx: &mut Tx<'_>, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
    let settled = settle(tx, settlements)?;
    slots::release_stale(tx, settlements, &settled)?;
    Ok(settled)
}

/// Ends executions whose fence matches. Their handlers may still be running.
pub(crate) fn settle(tx: &mut Tx<'_>, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
    let mut found = find(tx, settlements)?;
    tx.expect_events(settlements.iter().map(|settlement| settlement.ending.path().len()).sum())?;
    let (mut settled, mut ends) = (vec![Settled::Stale; settlements.len()], Vec::new());
    for (index, settlement) in settlements.iter().enumerate() {
        let id = settlement.attempt.job.to_bytes();
        if end_remembered(tx, settlement, &mut found)? {
            settled[index] = Settled::Done;
        } else if found.get(&id).is_some_and(|held| may_end(tx, held, settlement))
            && let Some(held) = found.remove(&id)
        {
            settled[index] = Settled::Done;
            ends.push((settlement, held));
        }
    }
    tx.db.take_each(sql::DELETE_RUNNING, ends.len(), &mut |row| {
        ends.iter().try_for_each(|(settlement, held)| {
            row(params![settlement.attempt.job.to_bytes(), held.run, held.worker.to_bytes(), held.flow])
        })
    })?;
    let run_ats = run_ats(tx, &ends)?;
    ends.iter().zip(run_ats).try_for_each(|((settlement, held), run_at)| end(tx, settlement, held, run_at))?;
    Ok(settled)
}

/// Looks up the executions that this process does not remember, all at once and in one lock order.
fn find(tx: &Tx<'_>, settlements: &[Settlement]) -> StoreResult<Held> {
    let mut ids: Vec<_> = settlements.iter().map(|settlement| settlement.attempt.job.to_bytes()).collect();
    ids.retain(|id| !tx.held.contains_key(id));
    ids.sort_unstable();
    ids.dedup();
    let found = Running::hold_each(tx.db, &ids)?;
    // Must precede the reservation of event numbers, which would be lost if the transaction restarts.
    if found.values().any(|held| held.flow || held.limit_key.is_some()) {
        tx.job_db.be_alone()?;
    }
    Ok(found)
}

/// Ends an execution that this process remembers; returns whether it did. If not, adds the table's row to `found`.
fn end_remembered(tx: &mut Tx<'_>, settlement: &Settlement, found: &mut Held) -> StoreResult<bool> {
    let id = settlement.attempt.job.to_bytes();
    let Some(held) = tx.held.remove(&id) else { return Ok(false) };
    // Only the table has the current expiry of a lease.
    if held.is_of(settlement) && !settlement.only_if_expired {
        let gone = tx.execute(sql::DELETE_RUNNING, params![id, held.run, held.worker.to_bytes(), held.flow])?;
        if gone > 0 {
            let ends = [(settlement, held)];
            let run_ats = run_ats(tx, &ends)?;
            run_ats.into_iter().try_for_each(|run_at| end(tx, settlement, &ends[0].1, run_at))?;
            return Ok(true);
        }
    }
    // Another process has ended the execution, or another job has become dependent on it since.
    found.extend(Running::hold_each(tx.db, &[id])?);
    Ok(false)
}

fn may_end(tx: &Tx<'_>, held: &Running, settlement: &Settlement) -> bool {
    held.is_of(settlement) && (!settlement.only_if_expired || is_lost(tx, held))
}

/// Whether a lease has expired permanently. If this settlement waited long for the lock, the worker's renewal may have
/// waited for the same lock and may be next.
fn is_lost(tx: &Tx<'_>, held: &Running) -> bool {
    held.lease_until <= tx.now && tx.waited < LOST_MAX_WAIT
}

/// The start times of jobs before their executions end, as far as they matter.
fn run_ats(tx: &Tx<'_>, ends: &[(&Settlement, Running)]) -> StoreResult<Vec<Timestamp>> {
    // Only jobs that go back to their position in the queue have to be looked up.
    let goes_back = |settlement: &Settlement| settlement.ending.status() == Status::Queued;
    let back = ends.iter().filter(|(settlement, _)| goes_back(settlement));
    let run_ats = tx.db.only_each(
        sql::RUN_AT,
        &mut |row| back.clone().try_for_each(|(_, held)| row(params![held.seq])),
        |row| rows::instant(row, 0),
    )?;
    let mut run_ats = run_ats.into_iter();
    let run_at = |(settlement, _): &(&Settlement, Running)| {
        let known = if goes_back(settlement) { run_ats.next() } else { None };
        known.unwrap_or(tx.now)
    };
    Ok(ends.iter().map(run_at).collect())
}

/// Ends the execution of a job whose row was removed from the running table: stores the job's new status as decided by
/// the settlement.
fn end(tx: &mut Tx<'_>, settlement: &Settlement, held: &Running, run_at: Timestamp) -> StoreResult<()> {
    let error = settlement.fault.as_ref().map(rows::text).transpose()?;
    let error = error.as_deref();
    effects::close_attempt(tx, held, settlement.attempt_status, error)?;
    let before = held.phase(run_at);
    let after = before.settled(settlement.ending, tx.now);
    let effects = Effects::settled(before, settlement, tx.now);
    let line = EventLine::plain(after.status, Some(held.run));
    let last_event = effects::write_events(tx, (held.seq, held.last_event), &effects, line)?;
    tx.write(
        sql::SETTLE_JOB,
        params![
            held.seq,
            after.status.as_str(),
            after.status.is_active().then_some(after.run_at.as_micros()),
            held.attempt - u32::from(settlement.gives_back_attempt()),
            held.run,
            u32::from(settlement.attempt_status == AttemptStatus::Lost),
            after.updated_at.as_micros(),
            held.started_at.as_micros(),
            after.finished_at.map(|at| at.as_micros()),
            settlement.result.as_ref().map(|result| result.as_str()),
            error,
            last_event,
        ],
    )?;
    let mut job = IndexedJob::held(held, settlement.attempt.job);
    if settlement.attempt_status == AttemptStatus::Lost {
        job.level = job.level.suspected();
    }
    effects::apply(tx, &job, &effects)?;
    tx.new_work |= after.status.is_active();
    tx.jobs_changed = true;
    Ok(())
}
