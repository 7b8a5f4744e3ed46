//! Reads and changes queue settings for operators.

use punctual_core::{Queue, QueueEvent, QueueSave};
use sqlx::{Row, postgres::PgRow};

use super::{core::Core, queues, rows, statements as sql};

pub(crate) async fn queues(store: &Core) -> sqlx::Result<Vec<Queue>> {
    let mut unit = store.sessions.single().await?;
    let all = queues::read(&mut unit).await?;
    unit.done().await?;
    Ok(all)
}

pub(crate) async fn save(store: &Core, save: &QueueSave) -> sqlx::Result<bool> {
    let mut unit = store.sessions.several().await?;
    // A claim that has locked the queue's limits uses the former settings, and must not see the new ones halfway.
    sqlx::query(*sql::LIMITS_WAIT).bind(&save.name).execute(&mut *unit).await?;
    let former = queues::read(&mut unit).await?.into_iter().find(|queue| queue.name == save.name);
    let changed = former.map(|queue| queue.settings.limits).unwrap_or_default() != save.settings.limits;
    let done = sqlx::query(*sql::SAVE_QUEUE)
        .bind(store.sessions.clock())
        .bind(&save.name)
        .bind(save.settings.paused)
        .bind(rows::text(&save.settings)?)
        .bind(save.revision as i64)
        .bind(&save.actor)
        .bind(&save.action)
        .execute(&mut *unit)
        .await?;
    if done.rows_affected() == 1 && changed {
        let wake = sqlx::query(*sql::WAKE_QUEUE).bind(store.sessions.clock()).bind(&save.name);
        wake.execute(&mut *unit).await?;
        let starts = sqlx::query(*sql::MOVE_LATE_STARTS).bind(store.sessions.clock()).bind(&save.name);
        starts.execute(&mut *unit).await?;
    }
    unit.done().await?;
    // Jobs of a queue that was paused may start now.
    store.hints.notify_work();
    Ok(done.rows_affected() == 1)
}

pub(crate) async fn events(store: &Core, name: &str, limit: usize) -> sqlx::Result<Vec<QueueEvent>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::QUEUE_EVENTS).bind(name).bind(limit as i64).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let event =
        |row: &PgRow| Ok(QueueEvent { at: rows::instant(row, 0)?, actor: row.try_get(1)?, action: row.try_get(2)? });
    rows.iter().map(event).collect()
}
