//! Slots in limits that executions of cancelled jobs occupy until their handlers have ended; see [`OccupiedSlot`].
//!
//! They are separate rows, so that other queries for running jobs are not affected. A slot is freed when its lease
//! expires; a wakeup makes the next claim re-evaluate the key then.

use punctual_core::{AttemptId, JobId, Settled, Settlement, StoreResult, Timestamp, WorkerId, limiter::OccupiedSlot};

use super::{queue_limits, rows, running::Running, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

/// An occupied slot and its limit key.
struct Slot {
    job: [u8; 16],
    run: u32,
    queue: String,
    limit_key: String,
    until: Timestamp,
}

impl Slot {
    fn of(row: &dyn Row) -> StoreResult<Self> {
        let (job, run, until) = (row.get(0)?, row.get(1)?, rows::instant(row, 4)?);
        Ok(Self { job, run, queue: row.get(2)?, limit_key: row.get(3)?, until })
    }
}

/// Keeps the slot of a limited job that is taken from its worker, because the handler may still be running.
pub(crate) fn occupy(tx: &Tx<'_>, held: &Running, id: [u8; 16]) -> StoreResult<()> {
    let Some(limit_key) = held.limit_key.as_deref().filter(|_| held.lease_until > tx.now) else { return Ok(()) };
    let until = held.lease_until.as_micros();
    tx.write(sql::INSERT_SLOT, params![id, held.run, held.worker.to_bytes(), held.queue, limit_key, until])?;
    queue_limits::wake_at(tx, held.lease_until, &held.queue, limit_key)
}

/// Releases the slots of handlers that have ended, or are not waited for any longer.
pub(crate) fn release(tx: &mut Tx<'_>, worker: WorkerId, attempts: &[AttemptId]) -> StoreResult<()> {
    release_each(tx, &attempts.iter().map(|attempt| (*attempt, worker)).collect::<Vec<_>>())
}

/// Releases the slots of stale settlements: a settlement means that the handler has ended, even if it arrived too late.
pub(crate) fn release_stale(tx: &mut Tx<'_>, settlements: &[Settlement], settled: &[Settled]) -> StoreResult<()> {
    let stale = settlements.iter().zip(settled).filter(|(settlement, settled)| {
        // A settlement of an expired lease does not come from the handler.
        **settled == Settled::Stale && !settlement.only_if_expired
    });
    release_each(tx, &stale.map(|(settlement, _)| (settlement.attempt, settlement.worker)).collect::<Vec<_>>())
}

fn release_each(tx: &mut Tx<'_>, ended: &[(AttemptId, WorkerId)]) -> StoreResult<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let found = tx.db.all_each(
        sql::FIND_SLOT,
        &mut |row| {
            ended
                .iter()
                .try_for_each(|(attempt, worker)| row(params![attempt.job.to_bytes(), attempt.run, worker.to_bytes()]))
        },
        Slot::of,
    )?;
    free(tx, found.into_iter().map(|(_, slot)| slot).collect())
}

/// Releases all slots of a worker that is known to be dead, and its handlers with it.
pub(crate) fn release_all_of(tx: &mut Tx<'_>, worker: WorkerId) -> StoreResult<()> {
    let found = tx.db.all(sql::SLOTS_OF_WORKER, params![worker.to_bytes()], Slot::of)?;
    free(tx, found)
}

fn free(tx: &mut Tx<'_>, slots: Vec<Slot>) -> StoreResult<()> {
    slots.iter().try_for_each(|slot| tx.write(sql::DELETE_SLOT, params![slot.job, slot.run]))?;
    for Slot { queue, limit_key, until, .. } in &slots {
        // Claims then need not re-evaluate the key, unless another lease expires at the same time.
        tx.write(sql::DELETE_SLOT_WAKEUP, params![queue, until.as_micros(), limit_key])?;
        queue_limits::freed(tx, queue, limit_key);
    }
    Ok(())
}

/// The occupied slots of a queue and its keys.
pub(crate) fn occupied(db: &dyn Db, now: Timestamp, queue: &str) -> StoreResult<Vec<OccupiedSlot>> {
    db.all(sql::OCCUPIED_SLOTS, params![queue, now.as_micros()], |row| {
        let attempt = AttemptId { job: JobId::from_bytes(row.get(0)?), run: row.get(1)? };
        let (worker, limit_key) = (WorkerId::from_bytes(row.get(2)?), row.get::<String>(3)?);
        Ok(OccupiedSlot {
            attempt,
            worker,
            key: Some(limit_key).filter(|key| !key.is_empty()),
            until: rows::instant(row, 4)?,
        })
    })
}
