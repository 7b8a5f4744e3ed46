//! Settles executions, renews leases, and stores progress.

use std::{collections::HashSet, time::Duration};

use punctual_core::{
    AttemptId, AttemptStatus, ProgressReport, Settled, Settlement, Status, StoreResult, Timestamp, WorkerId,
    measure::Measure,
};

use super::{
    queue_limits,
    ready::ReadyEntry,
    rows,
    running::Running,
    slots, statements as sql,
    tx::{EventLine, Held, Tx},
};
use crate::db::{Db, params};

/// A lease counts as lost only if the settlement waited less than this for the writer.
const LOST_MAX_WAIT: Duration = Duration::from_secs(2);

/// Closes the attempt of a job that is taken from its worker: stores its row and counters, and ends the lease. The
/// execution keeps its slot in a limit until its handler ends.
pub(crate) fn close(tx: &mut Tx<'_>, held: &Running, id: [u8; 16], status: AttemptStatus) -> StoreResult<()> {
    tx.write(sql::DELETE_RUNNING, params![id, held.run, held.worker.to_bytes(), held.flow])?;
    slots::occupy(tx, held, id)?;
    insert_attempt(tx, held, status, None)
}

/// Stores the row of an attempt that has ended.
fn insert_attempt(tx: &mut Tx<'_>, held: &Running, status: AttemptStatus, error: Option<&str>) -> StoreResult<()> {
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
    tx.rollup(&held.queue, &held.name, Measure::Ended(status), held.started_at);
    if let Some(limit_key) = &held.limit_key {
        queue_limits::freed(tx, &held.queue, limit_key);
    }
    Ok(())
}

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
    let mut starts = next_starts(tx, &ends)?.into_iter();
    ends.iter().try_for_each(|(settlement, held)| end(tx, settlement, held, starts.next().flatten()))?;
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
            let start = next_starts(tx, &ends)?.pop().flatten();
            end(tx, settlement, &ends[0].1, start)?;
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

/// Ends the execution of a job whose row was removed from the running table; `start` is its next start time, if any.
fn end(tx: &mut Tx<'_>, settlement: &Settlement, held: &Running, start: Option<i64>) -> StoreResult<()> {
    let error = settlement.fault.as_ref().map(rows::text).transpose()?;
    let error = error.as_deref();
    insert_attempt(tx, held, settlement.attempt_status, error)?;
    save_job(tx, &EndedExecution { settlement, held, start, error })
}

/// An execution whose row was removed from the running table.
struct EndedExecution<'a> {
    settlement: &'a Settlement,
    held: &'a Running,
    /// The next start time of the job, if any.
    start: Option<i64>,
    /// The settlement's error as it is stored.
    error: Option<&'a str>,
}

/// The next start times of the jobs that will start again.
fn next_starts(tx: &Tx<'_>, ends: &[(&Settlement, Running)]) -> StoreResult<Vec<Option<i64>>> {
    // Only jobs that go back to their position in the queue have to be looked up.
    let goes_back = |settlement: &Settlement| settlement.ending.status() == Status::Queued;
    let back = ends.iter().filter(|(settlement, _)| goes_back(settlement));
    let run_ats = tx.db.only_each(
        sql::RUN_AT,
        &mut |row| back.clone().try_for_each(|(_, held)| row(params![held.seq])),
        |row| rows::instant(row, 0),
    )?;
    let mut run_ats = run_ats.into_iter();
    let start = |(settlement, _): &(&Settlement, Running)| {
        let run_at = if goes_back(settlement) { run_ats.next() } else { Some(tx.now) }?;
        let ending = settlement.ending;
        ending.status().is_active().then(|| ending.run_at(run_at, tx.now).as_micros())
    };
    Ok(ends.iter().map(start).collect())
}

/// Stores the job's new status as decided by the settlement.
fn save_job(tx: &mut Tx<'_>, ended: &EndedExecution<'_>) -> StoreResult<()> {
    let EndedExecution { settlement, held, start, error } = *ended;
    let status = settlement.ending.status();
    let mut last_event = held.last_event;
    for step in settlement.ending.path() {
        let line = EventLine::plain(*step, Some(held.run));
        last_event = Some(tx.event(held.seq, last_event, line)?);
    }
    tx.write(
        sql::SETTLE_JOB,
        params![
            held.seq,
            status.as_str(),
            start,
            held.attempt - u32::from(settlement.gives_back_attempt()),
            held.run,
            u32::from(settlement.attempt_status == AttemptStatus::Lost),
            tx.now.as_micros(),
            held.started_at.as_micros(),
            status.is_finished().then_some(tx.now.as_micros()),
            settlement.result.as_ref().map(|result| result.as_str()),
            error,
            last_event,
        ],
    )?;
    if status == Status::Queued {
        let Running { queue, name, level, seq, .. } = held;
        let level = if settlement.attempt_status == AttemptStatus::Lost { level.suspected() } else { *level };
        let key = held.limit_key.as_deref().filter(|key| !key.is_empty());
        let run_at = start.unwrap_or(0);
        queue_limits::put(tx, ReadyEntry { queue, name, level, run_at, seq: *seq, key })?;
    } else if status.is_timed() {
        tx.write(sql::INSERT_DUE, params![start, held.seq])?;
    }
    if let (true, Some(keep)) = (status.is_finished(), held.keep_for) {
        tx.write(sql::INSERT_EXPIRY, params![tx.now.after(keep).as_micros(), held.seq])?;
    }
    tx.count(&held.queue, &held.name, Some(Status::Processing), Some(status));
    tx.count_pending(held.user.as_deref(), &held.name, Some(Status::Processing), Some(status));
    if status == Status::Dead {
        tx.write(sql::INSERT_DEAD, params![tx.now.as_micros(), held.seq, held.name])?;
        tx.rollup(&held.queue, &held.name, Measure::Died, held.started_at);
    }
    if held.flow && status.is_finished() {
        tx.ended(settlement.attempt.job, held.seq, Status::Processing, status);
    }
    tx.new_work |= status.is_active();
    tx.jobs_changed = true;
    Ok(())
}

/// Extends leases that had not expired when the renewal was requested; returns which attempts were still held.
pub(crate) fn extend(tx: &Tx<'_>, worker: WorkerId, lease: Duration, attempts: &[AttemptId]) -> StoreResult<Vec<bool>> {
    // The new lease begins now, so that the worker's own estimate, which begins at its request, never outlasts it.
    let (requested_at, until, worker) =
        (tx.requested_at.as_micros(), tx.now.after(lease).as_micros(), worker.to_bytes());
    // Sorted, because other transactions lock the rows in the same order.
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut kept = HashSet::new();
    tx.db.read_each(
        sql::EXTEND_LEASE,
        &mut |row| {
            let fence = |attempt: &AttemptId| (attempt.job.to_bytes(), attempt.run);
            sorted.iter().map(fence).try_for_each(|(id, run)| row(params![id, run, worker, requested_at, until]))
        },
        &mut |index, _| {
            kept.insert(sorted[index]);
            Ok(())
        },
    )?;
    Ok(attempts.iter().map(|attempt| kept.contains(attempt)).collect())
}

/// Records that handlers are about to start; returns which attempts were still held.
pub(crate) fn confirm(tx: &Tx<'_>, worker: WorkerId, attempts: &[AttemptId]) -> StoreResult<Vec<bool>> {
    confirm_at(tx, tx.now, worker, attempts)
}

/// Like `confirm`, at a given time.
pub(crate) fn confirm_at(
    tx: &Tx<'_>,
    now: Timestamp,
    worker: WorkerId,
    attempts: &[AttemptId],
) -> StoreResult<Vec<bool>> {
    let (now, worker) = (now.as_micros(), worker.to_bytes());
    // Sorted, because other transactions lock the rows in the same order.
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut confirmed = HashSet::new();
    tx.db.read_each(
        sql::CONFIRM,
        &mut |row| sorted.iter().try_for_each(|one| row(params![one.job.to_bytes(), one.run, worker, now])),
        &mut |index, _| {
            confirmed.insert(sorted[index]);
            Ok(())
        },
    )?;
    Ok(attempts.iter().map(|attempt| confirmed.contains(attempt)).collect())
}

/// Which attempts this worker is running.
pub(crate) fn held(db: &dyn Db, worker: WorkerId, attempts: &[AttemptId]) -> StoreResult<Vec<bool>> {
    let ids: Vec<_> = attempts.iter().map(|attempt| attempt.job.to_bytes()).collect();
    let held = Running::find_each(db, &ids)?;
    let is_held = |(attempt, id): (&AttemptId, &[u8; 16])| {
        held.get(id).is_some_and(|running| running.run == attempt.run && running.worker == worker)
    };
    Ok(attempts.iter().zip(&ids).map(is_held).collect())
}

/// Stores progress and logs of running handlers.
pub(crate) fn report_progress(tx: &mut Tx<'_>, reports: &[ProgressReport]) -> StoreResult<()> {
    for report in reports {
        let progress = report.progress.as_ref().map(rows::text).transpose()?;
        write_report(tx, report, progress.as_deref())?;
    }
    Ok(())
}

fn write_report(tx: &mut Tx<'_>, report: &ProgressReport, progress: Option<&str>) -> StoreResult<()> {
    let (id, run) = (report.attempt.job.to_bytes(), report.attempt.run);
    if let Some(progress) = progress {
        tx.write(sql::SET_PROGRESS, params![id, run, report.worker.to_bytes(), progress])?;
        tx.jobs_changed = true;
    }
    for (number, line) in &report.lines {
        tx.write(sql::INSERT_LOG, params![id, run, number, line.at.as_micros(), line.level.as_str(), line.message])?;
    }
    Ok(())
}
