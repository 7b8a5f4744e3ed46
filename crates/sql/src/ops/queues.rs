//! Queue settings.

use punctual_core::{Limits, Queue, QueueEvent, QueueSave, StoreResult};

use super::{queue_controls::QueueControls, queue_limits, rows, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

pub(crate) fn queues(db: &dyn Db) -> StoreResult<Vec<Queue>> {
    db.all(sql::QUEUES, &[], queue)
}

fn queue(row: &dyn Row) -> StoreResult<Queue> {
    Ok(Queue {
        name: row.get(0)?,
        settings: rows::document(row, 1)?.unwrap_or_default(),
        revision: row.get(2)?,
        updated_at: rows::instant(row, 3)?,
        updated_by: row.get(4)?,
    })
}

pub(crate) fn save(tx: &mut Tx<'_>, save: &QueueSave) -> StoreResult<bool> {
    let settings = rows::text(&save.settings)?;
    write(tx, save, &settings)
}

fn write(tx: &mut Tx<'_>, save: &QueueSave, settings: &str) -> StoreResult<bool> {
    let QueueSave { name, revision, actor, action, .. } = save;
    let limits = &save.settings.limits;
    let limited = *limits != Limits::default();
    let changed = QueueControls::read(tx.db)?.limits(name) != limits;
    let saved = tx.execute(
        sql::SAVE_QUEUE,
        params![name, save.settings.paused, settings, revision, tx.now.as_micros(), actor, limited],
    )? == 1;
    if saved && changed {
        queue_limits::limits_changed(tx, name)?;
    }
    if saved {
        tx.write(sql::INSERT_QUEUE_EVENT, params![name, tx.now.as_micros(), actor, action])?;
        // The queue may have been resumed, so its jobs may start now.
        tx.new_work = true;
    }
    Ok(saved)
}

pub(crate) fn events(db: &dyn Db, name: &str, limit: usize) -> StoreResult<Vec<QueueEvent>> {
    let event = |row: &dyn Row| Ok(QueueEvent { at: rows::instant(row, 0)?, actor: row.get(1)?, action: row.get(2)? });
    db.all(sql::QUEUE_EVENTS, params![name, limit as i64], event)
}
