//! Promotes due jobs to queued.

use punctual_core::{StoreError, Timestamp, limits};
use sqlx::{Row, postgres::PgRow};

use super::super::{
    core::Core,
    error, rows, statements as sql,
    value::{At, Uuid, job_id},
};

/// Promotes due jobs, if any may be due; returns the time of the next one, if known.
pub(crate) async fn promote_due(store: &Core) -> Result<Option<Timestamp>, StoreError> {
    let error = |error| store.sessions.error(error);
    if store.scan_bounds.may_be_due(store.clock_now()) {
        reset_if_late(store);
        promote_since_last(store).await?;
        let bound = store.scan_bounds.lock().due_bound;
        let mut unit = store.sessions.single().await.map_err(error)?;
        let next = sqlx::query(*sql::NEXT_DUE).bind(At(bound)).fetch_optional(&mut *unit).await.map_err(error)?;
        unit.done().await.map_err(error)?;
        let next = next.map(|row| rows::instant(&row, 0)).transpose().map_err(error)?;
        store.scan_bounds.know(next);
    }
    Ok(store.scan_bounds.lock().next_run_at)
}

/// Promotes due scheduled and retrying jobs; returns their number.
pub(crate) async fn promote(store: &Core, limit: usize) -> Result<usize, StoreError> {
    promote_since(store, Timestamp::MIN, limit).await
}

/// Promotes the jobs that became due since the last promotion.
pub(crate) async fn promote_since_last(store: &Core) -> Result<usize, StoreError> {
    let bound = store.scan_bounds.lock().due_bound;
    promote_since(store, bound, limits::PROMOTE_MAX_JOBS).await
}

/// Promotes due jobs whose time is after the bound; returns their number.
pub(crate) async fn promote_since(store: &Core, bound: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let error = |error| store.sessions.error(error);
    let now = store.clock_now();
    let rows = match promote_except(store, bound, limit, &[]).await {
        // One damaged row must not keep all other jobs from being promoted. The claim that takes it ends it as corrupt.
        Err(refused) if error::is_invalid_json(&refused) => {
            let damaged = damaged_due(store, bound, limit).await.map_err(error)?;
            promote_except(store, bound, limit, &damaged).await
        }
        rows => rows,
    };
    let rows = rows.map_err(error)?;
    let mut promoted = 0;
    for row in &rows {
        let read = || -> sqlx::Result<_> { Ok((row.try_get(0)?, rows::instant(row, 1)?, row.try_get::<i64, _>(2)?)) };
        let (lane, run_at, count) = read().map_err(error)?;
        store.lanes.put(lane, run_at);
        promoted += count as usize;
    }
    if promoted < limit {
        store.scan_bounds.promoted(now);
    }
    if promoted > 0 {
        store.hints.notify_work();
    }
    Ok(promoted)
}

/// Promotes due jobs; the `damaged` ones without their concurrency keys, which cannot be read.
async fn promote_except(store: &Core, bound: Timestamp, limit: usize, damaged: &[Uuid]) -> sqlx::Result<Vec<PgRow>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::PROMOTE)
        .bind(store.sessions.clock())
        .bind(At(bound))
        .bind(limit as i64)
        .bind(damaged)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    Ok(rows)
}

/// The due jobs whose options are not valid JSON.
async fn damaged_due(store: &Core, bound: Timestamp, limit: usize) -> sqlx::Result<Vec<Uuid>> {
    let mut unit = store.sessions.single().await?;
    let due: Vec<(Uuid, String)> = sqlx::query_as(*sql::DUE_OPTIONS)
        .bind(store.sessions.clock())
        .bind(At(bound))
        .bind(limit as i64)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let is_damaged = |options: &str| serde_json::from_str::<serde::de::IgnoredAny>(options).is_err();
    let damaged = due.into_iter().filter(|(_, options)| is_damaged(options)).map(|(id, _)| id);
    Ok(damaged
        .inspect(|id| tracing::error!(job = %job_id(*id), "the row of a due job is corrupt: its options are no JSON"))
        .collect())
}

/// Resets the bounds if a job may have been queued behind one already claimed, so that the next scan reads everything.
pub(crate) fn reset_if_late(store: &Core) {
    if store.hints.take_late() {
        store.lanes.forget_bounds();
        store.scan_bounds.lock().due_bound = Timestamp::MIN;
    }
}
