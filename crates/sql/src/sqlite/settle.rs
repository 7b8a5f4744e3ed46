//! Executions end, or are kept alive.

use std::time::Duration;

use punctual_core::{
    AttemptId, AttemptStatus, Ending, Note, Settled, Settlement, Status, StoreError, WorkerId, measure::Measure,
};
use rusqlite::{CachedStatement, Connection, params};

use super::{
    error::store_error,
    gates,
    places::Standing,
    rows,
    running::Running,
    statements as sql,
    tx::{EventLine, Tx},
};

/// Closes the attempt, if it is still under way: its row, its counters, and the end of the lease. Says whether it was.
pub(crate) fn close(
    tx: &mut Tx<'_>,
    held: &Running,
    id: [u8; 16],
    status: AttemptStatus,
    error: Option<&str>,
) -> rusqlite::Result<bool> {
    let (mut delete, mut insert) = (tx.prepare(sql::DELETE_RUNNING)?, tx.prepare(sql::INSERT_ATTEMPT)?);
    close_with(tx, held, (&mut delete, &mut insert), id, status, error)
}

fn close_with(
    tx: &mut Tx<'_>,
    held: &Running,
    (delete, insert): (&mut CachedStatement<'_>, &mut CachedStatement<'_>),
    id: [u8; 16],
    status: AttemptStatus,
    error: Option<&str>,
) -> rusqlite::Result<bool> {
    if delete.execute(params![id, held.run, held.worker.to_bytes(), held.flow])? == 0 {
        return Ok(false);
    }
    insert.execute(params![
        held.seq,
        held.run,
        held.attempt,
        status.as_str(),
        held.worker.to_bytes(),
        held.started_at.as_micros(),
        tx.now.as_micros(),
        error,
    ])?;
    tx.tally(&held.queue, &held.name, Measure::Ended(status), held.started_at, tx.now);
    if let Some(gate) = &held.gate {
        gates::freed(tx, &held.queue, gate);
    }
    Ok(true)
}

/// The statements that every settled job needs, looked up once for a batch.
struct Steps<'c> {
    running: CachedStatement<'c>,
    delete_running: CachedStatement<'c>,
    insert_attempt: CachedStatement<'c>,
    settle_job: CachedStatement<'c>,
    insert_event: CachedStatement<'c>,
}

impl<'c> Steps<'c> {
    fn prepare(tx: &Tx<'c>) -> rusqlite::Result<Self> {
        let (running, delete_running) = (tx.prepare(sql::RUNNING)?, tx.prepare(sql::DELETE_RUNNING)?);
        let (insert_attempt, settle_job) = (tx.prepare(sql::INSERT_ATTEMPT)?, tx.prepare(sql::SETTLE_JOB)?);
        Ok(Self { running, delete_running, insert_attempt, settle_job, insert_event: tx.prepare(sql::INSERT_EVENT)? })
    }
}

/// Ends executions whose fence holds.
pub(crate) fn settle(tx: &mut Tx<'_>, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
    let mut steps = Steps::prepare(tx).map_err(store_error)?;
    settlements.iter().map(|settlement| settle_one(tx, &mut steps, settlement)).collect()
}

fn settle_one<'c>(tx: &mut Tx<'c>, steps: &mut Steps<'c>, settlement: &Settlement) -> Result<Settled, StoreError> {
    let error = settlement.fault.as_ref().map(rows::text).transpose()?;
    settle_held(tx, steps, settlement, error.as_deref()).map_err(store_error)
}

/// Ends the execution that the settlement means, if it may: as this process remembers it, or as the table has it.
fn settle_held<'c>(
    tx: &mut Tx<'c>,
    steps: &mut Steps<'c>,
    settlement: &Settlement,
    error: Option<&str>,
) -> rusqlite::Result<Settled> {
    let id = settlement.attempt.job.to_bytes();
    // How long a lease lasts, only the table knows.
    let remembered = tx.held.remove(&id).filter(|held| held.is_of(settlement) && !settlement.only_if_expired);
    if let Some(held) = remembered
        && end(tx, steps, settlement, &held, error)?
    {
        return Ok(Settled::Done);
    }
    // Not remembered; or somebody has ended it, or has begun to wait for its end.
    let held = Running::find_with(&mut steps.running, id)?.filter(|held| held.is_of(settlement));
    match held.filter(|held| !settlement.only_if_expired || held.lease_until <= tx.now) {
        Some(held) if end(tx, steps, settlement, &held, error)? => Ok(Settled::Done),
        _ => Ok(Settled::Stale),
    }
}

/// Closes the attempt and lets the job come to rest; says whether the attempt was under way.
fn end<'c>(
    tx: &mut Tx<'c>,
    steps: &mut Steps<'c>,
    settlement: &Settlement,
    held: &Running,
    error: Option<&str>,
) -> rusqlite::Result<bool> {
    let closing = (&mut steps.delete_running, &mut steps.insert_attempt);
    let id = settlement.attempt.job.to_bytes();
    let closed = close_with(tx, held, closing, id, settlement.attempt_status, error)?;
    if closed {
        rest(tx, steps, settlement, held, error)?;
    }
    Ok(closed)
}

/// When the job may start next, if it does.
fn next_start(tx: &Tx<'_>, ending: Ending, seq: i64) -> rusqlite::Result<Option<i64>> {
    if !ending.status().is_active() {
        return Ok(None);
    }
    let run_at = tx.prepare(sql::RUN_AT)?.query_row([seq], |row| rows::instant(row, 0))?;
    Ok(Some(ending.run_at(run_at, tx.now).as_micros()))
}

/// The job comes to rest where the decision says.
fn rest<'c>(
    tx: &mut Tx<'c>,
    steps: &mut Steps<'c>,
    settlement: &Settlement,
    held: &Running,
    error: Option<&str>,
) -> rusqlite::Result<()> {
    let ending = settlement.ending;
    let (status, run_at) = (ending.status(), next_start(tx, ending, held.seq)?);
    let mut last_event = held.last_event;
    for step in ending.path() {
        let line = EventLine::plain(*step, Some(held.run));
        last_event = Some(tx.event(&mut steps.insert_event, held.seq, last_event, line)?);
    }
    steps.settle_job.execute(params![
        held.seq,
        status.as_str(),
        run_at,
        held.attempt - u32::from(ending.gives_back_attempt()),
        held.run,
        u32::from(settlement.attempt_status == AttemptStatus::Lost),
        tx.now.as_micros(),
        held.started_at.as_micros(),
        status.is_finished().then_some(tx.now.as_micros()),
        settlement.result.as_ref().map(|result| result.as_str()),
        error,
        last_event,
    ])?;
    if status == Status::Queued {
        let Running { queue, name, priority, seq, .. } = held;
        let key = held.gate.as_deref().filter(|key| !key.is_empty());
        let run_at = run_at.unwrap_or(0);
        gates::put(tx, Standing { queue, name, priority: *priority, run_at, seq: *seq, key })?;
    } else if status.is_timed() {
        tx.prepare(sql::INSERT_DUE)?.execute(params![run_at, held.seq])?;
    }
    if let (true, Some(keep)) = (status.is_finished(), held.keep_for) {
        tx.prepare(sql::INSERT_KEPT)?.execute(params![tx.now.after(keep).as_micros(), held.seq])?;
    }
    tx.count(&held.queue, &held.name, Some(Status::Processing), Some(status));
    tx.count_pending(held.user.as_deref(), &held.name, Some(Status::Processing), Some(status));
    if status == Status::Dead {
        tx.prepare(sql::INSERT_DEAD)?.execute(params![tx.now.as_micros(), held.seq, held.name])?;
        tx.tally(&held.queue, &held.name, Measure::Died, held.started_at, tx.now);
    }
    if held.flow && status.is_finished() {
        tx.ended(settlement.attempt.job, held.seq, Status::Processing, status)?;
    }
    tx.woke_work |= status.is_active();
    tx.woke_jobs = true;
    Ok(())
}

/// Moves leases; says which were still held.
pub(crate) fn extend(
    tx: &Tx<'_>,
    worker: WorkerId,
    lease: Duration,
    attempts: &[AttemptId],
) -> rusqlite::Result<Vec<bool>> {
    let mut extend = tx.prepare(sql::EXTEND)?;
    let until = tx.now.after(lease).as_micros();
    let fence = |attempt: &AttemptId| (attempt.job.to_bytes(), attempt.run, worker.to_bytes());
    attempts
        .iter()
        .map(|attempt| {
            let (id, run, worker) = fence(attempt);
            Ok(extend.execute(params![id, run, worker, tx.now.as_micros(), until])? == 1)
        })
        .collect()
}

/// Which attempts are under way in this worker's hands.
pub(crate) fn held(connection: &Connection, worker: WorkerId, attempts: &[AttemptId]) -> rusqlite::Result<Vec<bool>> {
    attempts
        .iter()
        .map(|attempt| {
            let running = Running::find(connection, attempt.job.to_bytes())?;
            Ok(running.is_some_and(|running| running.run == attempt.run && running.worker == worker))
        })
        .collect()
}

/// Keeps progress and logs of running handlers.
pub(crate) fn note(tx: &mut Tx<'_>, notes: &[Note]) -> Result<(), StoreError> {
    for note in notes {
        let progress = note.progress.as_ref().map(rows::text).transpose()?;
        write_note(tx, note, progress.as_deref()).map_err(store_error)?;
    }
    Ok(())
}

fn write_note(tx: &mut Tx<'_>, note: &Note, progress: Option<&str>) -> rusqlite::Result<()> {
    let (id, run) = (note.attempt.job.to_bytes(), note.attempt.run);
    if let Some(progress) = progress {
        tx.prepare(sql::SET_PROGRESS)?.execute(params![id, run, note.worker.to_bytes(), progress])?;
        tx.woke_jobs = true;
    }
    let mut insert = tx.prepare(sql::INSERT_LOG)?;
    for (number, line) in &note.lines {
        insert.execute(params![id, run, number, line.at.as_micros(), line.level.as_str(), line.message])?;
    }
    Ok(())
}
