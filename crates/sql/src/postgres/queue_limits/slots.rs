//! Slots in limits that executions of cancelled jobs occupy until their handlers have ended; see [`OccupiedSlot`].
//!
//! Slots are rows of their own, so that other queries of running jobs need not consider them. A slot no longer counts
//! once its lease has ended; a wake-up makes the next claim check its key then.

use punctual_core::{AttemptId, Settlement, WorkerId, limiter::OccupiedSlot};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::super::{
    core::Core,
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// Releases the slots of executions whose handlers have ended or are no longer waited for.
pub(crate) async fn release(store: &Core, worker: WorkerId, attempts: &[AttemptId]) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    let ended = attempts.iter().map(|attempt| (*attempt, worker)).collect();
    let freed = release_each(&mut unit, store.sessions.clock(), ended).await?;
    unit.done().await?;
    announce(store, freed);
    Ok(())
}

/// Releases the slots of executions that were settled too late; returns whether any slot was released.
pub(crate) async fn release_stale(
    connection: &mut PgConnection,
    now: Option<At>,
    stale: impl Iterator<Item = &Settlement>,
) -> sqlx::Result<bool> {
    // A settlement of an expired lease does not show that the handler has ended.
    let ended = stale.filter(|settlement| !settlement.only_if_expired);
    release_each(connection, now, ended.map(|settlement| (settlement.attempt, settlement.worker)).collect()).await
}

async fn release_each(
    connection: &mut PgConnection,
    now: Option<At>,
    mut ended: Vec<(AttemptId, WorkerId)>,
) -> sqlx::Result<bool> {
    if ended.is_empty() {
        return Ok(false);
    }
    // Sorted the same way everywhere, so that two of these statements never deadlock.
    ended.sort_unstable();
    let freed: i64 = sqlx::query_scalar(*sql::SLOTS_RELEASE)
        .bind(now)
        .bind(ended.iter().map(|(attempt, _)| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(ended.iter().map(|(attempt, _)| attempt.run as i32).collect::<Vec<_>>())
        .bind(ended.iter().map(|(_, worker)| Uuid::from_u128(worker.to_bits())).collect::<Vec<_>>())
        .fetch_one(connection)
        .await?;
    Ok(freed > 0)
}

/// Releases all slots of a worker that is known to be dead.
pub(crate) async fn release_all_of(
    connection: &mut PgConnection,
    now: Option<At>,
    worker: WorkerId,
) -> sqlx::Result<bool> {
    let query = sqlx::query_scalar(*sql::SLOTS_RELEASE_OF).bind(now).bind(Uuid::from_u128(worker.to_bits()));
    let freed: i64 = query.fetch_one(connection).await?;
    Ok(freed > 0)
}

/// Notifies waiting claims if slots were released.
pub(crate) fn announce(store: &Core, freed: bool) {
    if freed {
        store.hints.notify_work();
    }
}

/// The occupied slots of a queue and its keys.
pub(crate) async fn occupied(store: &Core, queue: &str) -> sqlx::Result<Vec<OccupiedSlot>> {
    let mut unit = store.sessions.single().await?;
    let query = sqlx::query(*sql::SLOTS_OCCUPIED).bind(queue).bind(At(store.clock_now()));
    let found = query.fetch_all(&mut *unit).await?;
    unit.done().await?;
    found.iter().map(slot).collect()
}

fn slot(row: &PgRow) -> sqlx::Result<OccupiedSlot> {
    Ok(OccupiedSlot {
        attempt: AttemptId { job: job_id(row.try_get(0)?), run: rows::number(row, 1)? },
        worker: WorkerId::from_bits(row.try_get::<Uuid, _>(2)?.as_u128()),
        key: row.try_get(3)?,
        until: rows::instant(row, 4)?,
    })
}
