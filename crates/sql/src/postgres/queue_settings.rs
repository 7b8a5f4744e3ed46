//! Changes of queue settings, which claims must not see halfway; the other operations are `ops::queues`.

use punctual_core::QueueSave;
use sqlx::PgConnection;

use super::{core::Core, db::serve, queues, statements as sql};
use crate::ops::{self, edit::Edit};

pub(crate) async fn save(store: &Core, save: &QueueSave) -> sqlx::Result<bool> {
    let mut unit = store.sessions.several().await?;
    let saved = save_within(store, &mut unit, save).await;
    let saved = unit.ended(saved).await?;
    // Jobs of a queue that was paused may start now.
    store.hints.notify_work();
    Ok(saved)
}

async fn save_within(store: &Core, connection: &mut PgConnection, save: &QueueSave) -> sqlx::Result<bool> {
    // A claim that has locked the queue's limits uses the former settings, and must not see the new ones halfway.
    sqlx::query(*sql::LIMITS_WAIT).bind(&save.name).execute(&mut *connection).await?;
    let former = queues::read(connection).await?.into_iter().find(|queue| queue.name == save.name);
    let former = former.map(|queue| queue.settings).unwrap_or_default();
    let changed = former.unreadable.is_some() || former.limits != save.settings.limits;
    let now = store.sessions.now(connection).await?;
    let saved = serve(connection, |db| ops::queues::store(Edit { db, now }, save)).await?;
    if saved && changed {
        let wake = sqlx::query(*sql::WAKE_QUEUE).bind(store.sessions.clock()).bind(&save.name);
        wake.execute(&mut *connection).await?;
        let starts = sqlx::query(*sql::MOVE_LATE_STARTS).bind(store.sessions.clock()).bind(&save.name);
        starts.execute(&mut *connection).await?;
    }
    Ok(saved)
}
