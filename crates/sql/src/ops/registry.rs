//! Workers and locks.

use std::time::Duration;

use punctual_core::{Heartbeat, Lock, StoreResult, Timestamp, TokenId, WorkerId, WorkerRecord};

use super::{edit::SingleEdit, rows, slots, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

pub(crate) fn heartbeat(edit: SingleEdit<'_>, heartbeat: &Heartbeat) -> StoreResult<()> {
    let (queues, names) = (rows::text(&heartbeat.queues)?, rows::text(&heartbeat.names)?);
    let Heartbeat { host, pid, concurrency, running, .. } = heartbeat;
    let (id, at) = (heartbeat.id.to_bytes(), edit.at());
    let registered_by = heartbeat.registered_by.map(TokenId::to_bytes);
    edit.db.write(sql::HEARTBEAT, params![id, host, pid, queues, names, concurrency, running, at, registered_by])
}

pub(crate) fn end_leases(tx: &mut Tx<'_>, worker: WorkerId) -> StoreResult<usize> {
    slots::release_all_of(tx, worker)?;
    tx.execute(sql::END_LEASES, params![tx.now.as_micros(), worker.to_bytes()])
}

pub(crate) fn leave(db: &dyn Db, worker: WorkerId) -> StoreResult<()> {
    db.write(sql::DEREGISTER, params![worker.to_bytes()])
}

pub(crate) fn workers(db: &dyn Db) -> StoreResult<Vec<WorkerRecord>> {
    db.all(sql::WORKERS, &[], worker)
}

fn worker(row: &dyn Row) -> StoreResult<WorkerRecord> {
    let heartbeat = Heartbeat {
        id: WorkerId::from_bytes(row.get(0)?),
        host: row.get(1)?,
        pid: row.get(2)?,
        queues: rows::document(row, 3)?.unwrap_or_default(),
        names: rows::document(row, 4)?.unwrap_or_default(),
        concurrency: row.get(5)?,
        running: row.get(6)?,
        registered_by: row.get::<Option<[u8; 16]>>(9)?.map(TokenId::from_bytes),
    };
    Ok(WorkerRecord { heartbeat, started_at: rows::instant(row, 7)?, seen_at: rows::instant(row, 8)? })
}

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
