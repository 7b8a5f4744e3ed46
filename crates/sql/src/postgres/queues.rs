//! Queue settings.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::{Limits, Queue, QueueEvent, QueueSave, dispatch::GRACE};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{core::Core, rows, statements as sql};

/// The queue settings that the claims of this process know.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<Arc<QueueSnapshot>>);

/// Queue settings at one revision.
#[derive(Debug, Default)]
pub(crate) struct QueueSnapshot {
    /// Increases with every change of any queue's settings or of its assignment to a dispatcher.
    pub(crate) revision: i64,
    pub(crate) paused: HashSet<String>,
    /// Whether there is a dispatcher, which serves jobs without limits while it can.
    pub(crate) dispatched: bool,
    /// The limits of the queues that have any.
    pub(crate) limits: HashMap<String, Limits>,
}

impl QueueSnapshot {
    pub(crate) fn limits(&self, queue: &str) -> &Limits {
        self.limits.get(queue).unwrap_or(Limits::none())
    }

    /// Whether jobs of a queue are limited even without a key.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.limits.get(queue).is_some_and(Limits::guard_all)
    }
}

impl Queues {
    pub(crate) fn known(&self) -> Arc<QueueSnapshot> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the settings again.
    pub(crate) async fn refresh(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let all = read(&mut *connection).await?;
        let revisions: i64 = all.iter().map(|queue| queue.revision as i64).sum();
        let epochs = sqlx::query(*sql::DISPATCH_QUEUES).fetch_all(&mut *connection).await?;
        let epochs = epochs.iter().map(|row| row.try_get::<i64, _>(1)).collect::<sqlx::Result<Vec<_>>>()?;
        let (revision, dispatched) = (revisions + epochs.iter().sum::<i64>(), !epochs.is_empty());
        let paused = all.iter().filter(|queue| queue.settings.paused).map(|queue| queue.name.clone()).collect();
        let limited = all.into_iter().filter(|queue| queue.settings.limits != Limits::default());
        let limits = limited.map(|queue| (queue.name, queue.settings.limits)).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(QueueSnapshot { revision, paused, dispatched, limits });
        Ok(())
    }
}

pub(crate) async fn read(connection: &mut PgConnection) -> sqlx::Result<Vec<Queue>> {
    let rows = sqlx::query(*sql::QUEUES).fetch_all(connection).await?;
    let queue = |row: &PgRow| {
        Ok(Queue {
            name: row.try_get(0)?,
            settings: rows::document(row, 1)?.unwrap_or_default(),
            revision: row.try_get::<i64, _>(2)? as u64,
            updated_at: rows::instant(row, 3)?,
            updated_by: row.try_get(4)?,
        })
    };
    rows.iter().map(queue).collect()
}

pub(crate) async fn queues(store: &Core) -> sqlx::Result<Vec<Queue>> {
    let mut unit = store.sessions.single().await?;
    let queues = read(&mut unit).await?;
    unit.done().await?;
    Ok(queues)
}

pub(crate) async fn save(store: &Core, save: &QueueSave) -> sqlx::Result<bool> {
    let mut unit = store.sessions.several().await?;
    // A claim that has locked the queue's limits uses the former settings, and must not see the new ones halfway.
    sqlx::query(*sql::LIMITS_WAIT).bind(&save.name).execute(&mut *unit).await?;
    let former = read(&mut unit).await?.into_iter().find(|queue| queue.name == save.name);
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

/// Whether a dispatcher hands out the jobs without limits, or may have until recently.
pub(crate) async fn is_closed(store: &Core, known: &QueueSnapshot) -> sqlx::Result<bool> {
    if !known.dispatched {
        return Ok(false);
    }
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::DISPATCH).fetch_one(&mut *unit).await?;
    unit.done().await?;
    Ok(row.try_get::<i64, _>(0)? > -(GRACE.as_micros() as i64))
}
