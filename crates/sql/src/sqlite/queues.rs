//! What is said of queues.

use punctual_core::{Limits, Queue, QueueEvent, QueueSave, StoreError};
use rusqlite::{Connection, Row, params};

use super::{error::store_error, gated::Gated, gates, rows, statements as sql, tx::Tx};

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
