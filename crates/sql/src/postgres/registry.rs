//! Workers and locks.

use std::time::Duration;

use punctual_core::{Heartbeat, Lock, TokenId, WorkerId, WorkerRecord};
use sqlx::{Row, postgres::PgRow};

use super::{core::Core, queue_limits::slots, rows, statements as sql, value::Uuid};

pub(crate) async fn heartbeat(store: &Core, heartbeat: &Heartbeat) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    sqlx::query(*sql::HEARTBEAT)
        .bind(store.sessions.clock())
        .bind(Uuid::from_u128(heartbeat.id.to_bits()))
        .bind(&heartbeat.host)
        .bind(i64::from(heartbeat.pid))
        .bind(&heartbeat.queues)
        .bind(&heartbeat.names)
        .bind(i64::from(heartbeat.concurrency))
        .bind(i64::from(heartbeat.running))
        .bind(heartbeat.registered_by.map(|token| Uuid::from_u128(token.to_bits())))
        .execute(&mut *unit)
        .await?;
    unit.done().await
}

pub(crate) async fn end_leases(store: &Core, worker: WorkerId) -> sqlx::Result<usize> {
    let mut unit = store.sessions.several().await?;
    let done = sqlx::query(*sql::END_LEASES)
        .bind(store.sessions.clock())
        .bind(Uuid::from_u128(worker.to_bits()))
        .execute(&mut *unit)
        .await?;
    let freed = slots::release_all_of(&mut unit, store.sessions.clock(), worker).await?;
    unit.done().await?;
    slots::announce(store, freed);
    Ok(done.rows_affected() as usize)
}

pub(crate) async fn leave(store: &Core, worker: WorkerId) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    sqlx::query(*sql::DEREGISTER).bind(Uuid::from_u128(worker.to_bits())).execute(&mut *unit).await?;
    unit.done().await
}

pub(crate) async fn workers(store: &Core) -> sqlx::Result<Vec<WorkerRecord>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::WORKERS).fetch_all(&mut *unit).await?;
    unit.done().await?;
    rows.iter().map(worker).collect()
}

fn worker(row: &PgRow) -> sqlx::Result<WorkerRecord> {
    let heartbeat = Heartbeat {
        id: WorkerId::from_bits(row.try_get::<Uuid, _>(0)?.as_u128()),
        host: row.try_get(1)?,
        pid: row.try_get::<i64, _>(2)? as u32,
        queues: row.try_get(3)?,
        names: row.try_get(4)?,
        concurrency: row.try_get::<i64, _>(5)? as u32,
        running: row.try_get::<i64, _>(6)? as u32,
        registered_by: row.try_get::<Option<Uuid>, _>(9)?.map(|id| TokenId::from_bits(id.as_u128())),
    };
    Ok(WorkerRecord { heartbeat, started_at: rows::instant(row, 7)?, seen_at: rows::instant(row, 8)? })
}

pub(crate) async fn lock(store: &Core, name: String, owner: String, ttl: Duration) -> sqlx::Result<Option<Lock>> {
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::LOCK)
        .bind(store.sessions.clock())
        .bind(&name)
        .bind(&owner)
        .bind(ttl.as_micros() as i64)
        .fetch_optional(&mut *unit)
        .await?;
    unit.done().await?;
    let Some(row) = row else { return Ok(None) };
    let (token, expires_at) = (row.try_get::<i64, _>(0)? as u64, rows::instant(&row, 1)?);
    Ok(Some(Lock { name, owner, token, expires_at }))
}

pub(crate) async fn extend_lock(store: &Core, name: &str, owner: &str, ttl: Duration) -> sqlx::Result<bool> {
    let mut unit = store.sessions.single().await?;
    let done = sqlx::query(*sql::EXTEND_LOCK)
        .bind(store.sessions.clock())
        .bind(name)
        .bind(owner)
        .bind(ttl.as_micros() as i64)
        .execute(&mut *unit)
        .await?;
    unit.done().await?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn unlock(store: &Core, name: &str, owner: &str) -> sqlx::Result<bool> {
    let mut unit = store.sessions.single().await?;
    let done =
        sqlx::query(*sql::UNLOCK).bind(store.sessions.clock()).bind(name).bind(owner).execute(&mut *unit).await?;
    unit.done().await?;
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn locks(store: &Core) -> sqlx::Result<Vec<Lock>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::LOCKS).bind(store.sessions.clock()).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let lock = |row: &PgRow| {
        let token = row.try_get::<i64, _>(2)? as u64;
        Ok(Lock { name: row.try_get(0)?, owner: row.try_get(1)?, token, expires_at: rows::instant(row, 3)? })
    };
    rows.iter().map(lock).collect()
}
