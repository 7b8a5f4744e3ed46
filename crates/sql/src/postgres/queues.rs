//! What is said of queues.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::{Limits, Queue, QueueEvent, QueueSave, dispatch::GRACE};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{core::Core, rows, statements as sql};

/// What the claims of a process know of queues.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<Arc<Known>>);

/// What is known of queues.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// How often anything was said of any.
    pub(crate) revision: i64,
    pub(crate) paused: HashSet<String>,
    /// Whether there is a dispatcher, which serves jobs without limits while it can.
    pub(crate) dispatched: bool,
    /// How many jobs may start of those that are limited.
    pub(crate) limits: HashMap<String, Limits>,
}

impl Known {
    pub(crate) fn limits(&self, queue: &str) -> &Limits {
        self.limits.get(queue).unwrap_or(Limits::none())
    }

    /// Whether jobs of a queue are limited even without a key.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.limits.get(queue).is_some_and(Limits::guard_all)
    }
}

impl Queues {
    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks again.
    pub(crate) async fn refresh(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let all = read(&mut *connection).await?;
        let said: i64 = all.iter().map(|queue| queue.revision as i64).sum();
        let epochs = sqlx::query(*sql::DISPATCH_QUEUES).fetch_all(&mut *connection).await?;
        let epochs = epochs.iter().map(|row| row.try_get::<i64, _>(1)).collect::<sqlx::Result<Vec<_>>>()?;
        let (revision, dispatched) = (said + epochs.iter().sum::<i64>(), !epochs.is_empty());
        let paused = all.iter().filter(|queue| queue.settings.paused).map(|queue| queue.name.clone()).collect();
        let limited = all.into_iter().filter(|queue| queue.settings.limits != Limits::default());
        let limits = limited.map(|queue| (queue.name, queue.settings.limits)).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Known { revision, paused, dispatched, limits });
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
    // A claim that is at the queue's limits now goes by what was said before, and must not meet what is said now half
    // way.
    sqlx::query(*sql::LIMITS_WAIT).bind(&save.name).execute(&mut *unit).await?;
    let former = read(&mut unit).await?.into_iter().find(|queue| queue.name == save.name);
    let changed = former.map(|queue| queue.settings.limits).unwrap_or_default() != save.settings.limits;
    let done = sqlx::query(*sql::QUEUE_SAVE)
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
        let mark = sqlx::query(*sql::LIMITS_MARK_QUEUE).bind(store.sessions.clock()).bind(&save.name);
        mark.execute(&mut *unit).await?;
        let moments = sqlx::query(*sql::LIMITS_BEGIN_MOMENT).bind(store.sessions.clock()).bind(&save.name);
        moments.execute(&mut *unit).await?;
    }
    unit.done().await?;
    // What was paused may start now.
    store.hints.tell_work();
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

/// Whether a dispatcher hands out the jobs without limits, or may have until lately.
pub(crate) async fn is_closed(store: &Core, known: &Known) -> sqlx::Result<bool> {
    if !known.dispatched {
        return Ok(false);
    }
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::DISPATCH).fetch_one(&mut *unit).await?;
    unit.done().await?;
    Ok(row.try_get::<i64, _>(0)? > -(GRACE.as_micros() as i64))
}
