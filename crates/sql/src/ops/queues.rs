//! Queue settings.

use punctual_core::{Queue, QueueEvent, QueueSave, StoreResult};

use super::{
    edit::Edit, queue_controls::QueueControls, queue_limits, rows, statements as sql, stored_settings, tx::Tx,
};
use crate::db::{Db, Row, params};

pub(crate) fn queues(db: &dyn Db) -> StoreResult<Vec<Queue>> {
    db.all(sql::QUEUES, &[], queue)
}

fn queue(row: &dyn Row) -> StoreResult<Queue> {
    let name: String = row.get(0)?;
    Ok(Queue {
        settings: stored_settings::parse(&name, row.get(1)?, (row.get(5)?, row.get(6)?)),
        name,
        revision: row.get(2)?,
        updated_at: rows::instant(row, 3)?,
        updated_by: row.get(4)?,
    })
}

/// Saves the settings, if their revision is the given one. Changed limits are evaluated again.
pub(crate) fn save(tx: &mut Tx<'_>, save: &QueueSave) -> StoreResult<bool> {
    let controls = QueueControls::read(tx.db)?;
    let changed = controls.is_unreadable(&save.name) || *controls.limits(&save.name) != save.settings.limits;
    let saved = store(tx.edit(), save)?;
    if saved && changed {
        queue_limits::limits_changed(tx, &save.name)?;
    }
    // The queue may have been resumed, so its jobs may start now.
    tx.new_work |= saved;
    Ok(saved)
}

/// Stores the settings, if their revision is the given one, and adds to the history; returns whether they were stored.
pub(crate) fn store(edit: Edit<'_>, save: &QueueSave) -> StoreResult<bool> {
    let QueueSave { name, settings, revision, actor, action } = save;
    let (text, limited, now) = (stored_settings::text(name, settings)?, settings.may_limit(), edit.now.as_micros());
    let saved =
        edit.db.execute(sql::SAVE_QUEUE, params![name, settings.paused, text, revision, now, actor, limited])? == 1;
    if saved {
        edit.db.write(sql::INSERT_QUEUE_EVENT, params![name, now, actor, action])?;
    }
    Ok(saved)
}

pub(crate) fn events(db: &dyn Db, name: &str, limit: usize) -> StoreResult<Vec<QueueEvent>> {
    let event = |row: &dyn Row| Ok(QueueEvent { at: rows::instant(row, 0)?, actor: row.get(1)?, action: row.get(2)? });
    db.all(sql::QUEUE_EVENTS, params![name, limit as i64], event)
}
