//! Messages to users.

use std::time::Duration;

use punctual_core::{JobId, Json, NewNotification, Notification, StoreResult};

use super::{
    edit::{Edit, SingleEdit},
    rows, statements as sql,
};
use crate::db::{Db, Row, params};

pub(crate) fn notify(edit: SingleEdit<'_>, messages: &[NewNotification]) -> StoreResult<Vec<Notification>> {
    let store = |new: &NewNotification| {
        let job = new.job.map(JobId::to_bytes);
        let stored = |row: &dyn Row| Ok(Notification::new(row.get(0)?, new.clone(), rows::instant(row, 1)?));
        edit.db.only(sql::INSERT_NOTIFICATION, params![new.user_id, new.message.as_str(), job, edit.at()], stored)
    };
    messages.iter().map(store).collect()
}

pub(crate) fn list(db: &dyn Db, user: Option<&str>, after: u64, limit: usize) -> StoreResult<Vec<Notification>> {
    let (after, limit) = (i64::try_from(after).unwrap_or(i64::MAX), limit as i64);
    match user {
        Some(user) => db.all(sql::NOTIFICATIONS_OF_USER, params![user, after, limit], notification),
        None => db.all(sql::NOTIFICATIONS, params![after, limit], notification),
    }
}

fn notification(row: &dyn Row) -> StoreResult<Notification> {
    let job: Option<[u8; 16]> = row.get(3)?;
    Ok(Notification {
        id: row.get(0)?,
        user_id: row.get(1)?,
        message: Json::trusted(row.get::<Box<str>>(2)?),
        job: job.map(JobId::from_bytes),
        created_at: rows::instant(row, 4)?,
    })
}

pub(crate) fn last(db: &dyn Db) -> StoreResult<u64> {
    db.only(sql::LAST_NOTIFICATION, &[], |row| row.get(0))
}

pub(crate) fn drop(edit: Edit<'_>, after: Duration, limit: usize) -> StoreResult<usize> {
    edit.db.execute(sql::PRUNE_NOTIFICATIONS, params![edit.now.before(after).as_micros(), limit as i64])
}
