//! Locks.

use std::time::Duration;

use punctual_core::{Lock, StoreResult, Timestamp};

use super::{edit::SingleEdit, rows, statements as sql};
use crate::db::{Db, params};

pub(crate) fn lock(edit: SingleEdit<'_>, name: &str, owner: &str, ttl: Duration) -> StoreResult<Option<Lock>> {
    edit.db.one(sql::LOCK, params![name, owner, edit.at(), ttl.as_micros() as i64], |row| {
        let (token, expires_at) = (row.get(0)?, rows::instant(row, 1)?);
        Ok(Lock { name: name.to_owned(), owner: owner.to_owned(), token, expires_at })
    })
}

pub(crate) fn extend_lock(edit: SingleEdit<'_>, name: &str, owner: &str, ttl: Duration) -> StoreResult<bool> {
    Ok(edit.db.execute(sql::EXTEND_LOCK, params![name, owner, edit.at(), ttl.as_micros() as i64])? == 1)
}

pub(crate) fn unlock(edit: SingleEdit<'_>, name: &str, owner: &str) -> StoreResult<bool> {
    Ok(edit.db.execute(sql::UNLOCK, params![name, owner, edit.at()])? == 1)
}

/// The locks that are held at a time; if none is given, at the server's own.
pub(crate) fn locks(db: &dyn Db, at: Option<Timestamp>) -> StoreResult<Vec<Lock>> {
    db.all(sql::LOCKS, params![at.map(|at| at.as_micros())], |row| {
        Ok(Lock { name: row.get(0)?, owner: row.get(1)?, token: row.get(2)?, expires_at: rows::instant(row, 3)? })
    })
}
