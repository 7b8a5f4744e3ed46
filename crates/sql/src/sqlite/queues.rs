//! What is said of queues.

use std::collections::{HashMap, HashSet};

use punctual_core::{Limits, Queue, QueueEvent, QueueSave, QueueSettings, StoreError};
use rusqlite::{Connection, Row, params};

use super::{error::store_error, gates, rows, statements as sql, tx::Tx};

pub(crate) fn queues(connection: &Connection) -> rusqlite::Result<Vec<Queue>> {
    connection.prepare_cached(sql::QUEUES)?.query_map([], queue)?.collect()
}

fn queue(row: &Row<'_>) -> rusqlite::Result<Queue> {
    Ok(Queue {
        name: row.get(0)?,
        settings: rows::document(row, 1)?.unwrap_or_default(),
        revision: row.get(2)?,
        updated_at: rows::instant(row, 3)?,
        updated_by: row.get(4)?,
    })
}

/// What claims must know of queues.
#[derive(Debug, Default)]
pub(crate) struct Gated {
    /// Those that nothing is to be started of.
    pub(crate) paused: HashSet<String>,
    /// How many jobs may start of those that are limited.
    pub(crate) limits: HashMap<String, Limits>,
}

impl Gated {
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let (mut statement, mut gated) = (connection.prepare_cached(sql::GATED_QUEUES)?, Self::default());
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, settings): (String, QueueSettings) = (row.get(0)?, rows::document(row, 2)?.unwrap_or_default());
            if settings.paused {
                gated.paused.insert(name.clone());
            }
            if settings.limits != Limits::default() {
                gated.limits.insert(name, settings.limits);
            }
        }
        Ok(gated)
    }

    pub(crate) fn limits(&self, queue: &str) -> &Limits {
        self.limits.get(queue).unwrap_or(Limits::none())
    }

    /// Whether jobs of a queue have to pass a gate even without a key.
    pub(crate) fn guards(&self, queue: &str) -> bool {
        self.limits.get(queue).is_some_and(Limits::guard_all)
    }
}

pub(crate) fn save(tx: &mut Tx<'_>, save: &QueueSave) -> Result<bool, StoreError> {
    let settings = rows::text(&save.settings)?;
    write(tx, save, &settings).map_err(store_error)
}

fn write(tx: &mut Tx<'_>, save: &QueueSave, settings: &str) -> rusqlite::Result<bool> {
    let QueueSave { name, revision, actor, what, .. } = save;
    let limits = &save.settings.limits;
    let limited = *limits != Limits::default();
    let changed = Gated::read(tx.connection)?.limits(name) != limits;
    let row = params![name, save.settings.paused, settings, revision, tx.now.as_micros(), actor, limited];
    let saved = tx.prepare(sql::SAVE_QUEUE)?.execute(row)? == 1;
    if saved && changed {
        gates::limits_changed(tx, name)?;
    }
    if saved {
        tx.prepare(sql::INSERT_QUEUE_EVENT)?.execute(params![name, tx.now.as_micros(), actor, what])?;
        // What was paused may start now.
        tx.woke_work = true;
    }
    Ok(saved)
}

pub(crate) fn events(connection: &Connection, name: &str, limit: usize) -> rusqlite::Result<Vec<QueueEvent>> {
    let event = |row: &Row<'_>| Ok(QueueEvent { at: rows::instant(row, 0)?, actor: row.get(1)?, what: row.get(2)? });
    connection.prepare_cached(sql::QUEUE_EVENTS)?.query_map(params![name, limit as i64], event)?.collect()
}
