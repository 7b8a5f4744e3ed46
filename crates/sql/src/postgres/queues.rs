//! Queue settings, as claims know them, and their changes; the other operations are `ops::queues`.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::{Limits, Queue, QueueSave, dispatch::GRACE};
use sqlx::{PgConnection, Row};

use super::{core::Core, db::serve, statements as sql};
use crate::ops::{edit::Edit, queues};

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

/// Reads the settings of all queues on a connection that is in use.
pub(crate) async fn read(connection: &mut PgConnection) -> sqlx::Result<Vec<Queue>> {
    serve(connection, queues::queues).await
}

pub(crate) async fn save(store: &Core, save: &QueueSave) -> sqlx::Result<bool> {
    let mut unit = store.sessions.several().await?;
    // A claim that has locked the queue's limits uses the former settings, and must not see the new ones halfway.
    sqlx::query(*sql::LIMITS_WAIT).bind(&save.name).execute(&mut *unit).await?;
    let former = read(&mut unit).await?.into_iter().find(|queue| queue.name == save.name);
    let changed = former.map(|queue| queue.settings.limits).unwrap_or_default() != save.settings.limits;
    let now = store.sessions.now(&mut unit).await?;
    let saved = serve(&mut unit, |db| queues::store(Edit { db, now }, save)).await?;
    if saved && changed {
        sqlx::query(*sql::WAKE_QUEUE).bind(store.sessions.clock()).bind(&save.name).execute(&mut *unit).await?;
        sqlx::query(*sql::MOVE_LATE_STARTS).bind(store.sessions.clock()).bind(&save.name).execute(&mut *unit).await?;
    }
    unit.done().await?;
    // Jobs of a queue that was paused may start now.
    store.hints.notify_work();
    Ok(saved)
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
