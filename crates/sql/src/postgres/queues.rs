//! The queue settings that claims know.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use punctual_core::{Limits, Queue, QueueSettings, dispatch::GRACE};
use sqlx::{PgConnection, Row};

use super::{db::serve, session::Sessions, statements as sql};
use crate::ops;

/// The queue settings that the claims of this process know.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<Arc<QueueSnapshot>>);

/// Queue settings at one revision.
#[derive(Debug, Default)]
pub(crate) struct QueueSnapshot {
    /// Increases with every change of any queue's settings or of its assignment to a dispatcher.
    pub(crate) revision: i64,
    /// Queues whose jobs may not start.
    pub(crate) paused: HashSet<String>,
    /// Whether there is a dispatcher, which serves jobs without limits while it can.
    pub(crate) dispatched: bool,
    /// The limits of the queues that have any.
    pub(crate) limits: HashMap<String, Limits>,
    /// Queues whose settings cannot be read; their jobs may not start.
    unreadable: HashSet<String>,
}

impl QueueSnapshot {
    pub(crate) fn limits(&self, queue: &str) -> &Limits {
        self.limits.get(queue).unwrap_or(Limits::none())
    }

    /// Whether jobs of a queue are limited even without a key, or may be.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.unreadable.contains(queue) || self.limits.get(queue).is_some_and(Limits::guard_all)
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
        let names_of = |matches: fn(&QueueSettings) -> bool| {
            all.iter().filter(|queue| matches(&queue.settings)).map(|queue| queue.name.clone()).collect::<HashSet<_>>()
        };
        let paused = names_of(|settings| !settings.starts_jobs());
        let unreadable = names_of(|settings| settings.unreadable.is_some());
        let limited = all.into_iter().filter(|queue| queue.settings.limits != Limits::default());
        let limits = limited.map(|queue| (queue.name, queue.settings.limits)).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(QueueSnapshot { revision, paused, dispatched, limits, unreadable });
        Ok(())
    }
}

/// Reads the settings of all queues.
pub(crate) async fn read(connection: &mut PgConnection) -> sqlx::Result<Vec<Queue>> {
    serve(connection, ops::queues::queues).await
}

/// Whether a dispatcher hands out the jobs without limits, or may have until recently.
pub(crate) async fn is_closed(sessions: &Sessions, known: &QueueSnapshot) -> sqlx::Result<bool> {
    if !known.dispatched {
        return Ok(false);
    }
    let mut unit = sessions.single().await?;
    let row = sqlx::query(*sql::DISPATCH).fetch_one(&mut *unit).await?;
    unit.done().await?;
    Ok(row.try_get::<i64, _>(0)? > -(GRACE.as_micros() as i64))
}
