//! Workers and locks.

use std::time::Duration;

use punctual_core::{Beat, Lock, StoreError, Timestamp, WorkerId, WorkerRecord};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{error::store_error, rows, statements as sql, tx::Tx};

pub(crate) fn beat(tx: &Tx<'_>, beat: &Beat) -> Result<(), StoreError> {
    let (queues, names) = (rows::text(&beat.queues)?, rows::text(&beat.names)?);
    let row = params![
        beat.id.to_bytes(),
        beat.host,
        beat.pid,
        queues,
        names,
        beat.concurrency,
        beat.running,
        tx.now.as_micros(),
    ];
    tx.prepare(sql::BEAT).and_then(|mut beat| beat.execute(row)).map(drop).map_err(store_error)
}

pub(crate) fn end_leases(tx: &Tx<'_>, worker: WorkerId) -> rusqlite::Result<usize> {
    tx.prepare(sql::END_LEASES)?.execute(params![tx.now.as_micros(), worker.to_bytes()])
}

pub(crate) fn leave(tx: &Tx<'_>, worker: WorkerId) -> rusqlite::Result<()> {
    tx.prepare(sql::LEAVE)?.execute([worker.to_bytes()]).map(drop)
}

pub(crate) fn workers(connection: &Connection) -> rusqlite::Result<Vec<WorkerRecord>> {
    let mut statement = connection.prepare_cached(sql::WORKERS)?;
    let rows = statement.query_map([], worker)?;
    rows.collect()
}

fn worker(row: &Row<'_>) -> rusqlite::Result<WorkerRecord> {
    let beat = Beat {
        id: WorkerId::from_bytes(row.get(0)?),
        host: row.get(1)?,
        pid: row.get(2)?,
        queues: rows::document(row, 3)?.unwrap_or_default(),
        names: rows::document(row, 4)?.unwrap_or_default(),
        concurrency: row.get(5)?,
        running: row.get(6)?,
    };
    Ok(WorkerRecord { beat, started_at: rows::instant(row, 7)?, seen_at: rows::instant(row, 8)? })
}

pub(crate) fn lock(tx: &Tx<'_>, name: &str, owner: &str, ttl: Duration) -> rusqlite::Result<Option<Lock>> {
    let expires_at = tx.now.after(ttl);
    let mut statement = tx.prepare(sql::LOCK)?;
    let row = params![name, owner, tx.now.as_micros(), expires_at.as_micros()];
    let token: Option<u64> = statement.query_row(row, |row| row.get(0)).optional()?;
    Ok(token.map(|token| Lock { name: name.to_owned(), owner: owner.to_owned(), token, expires_at }))
}

pub(crate) fn extend_lock(tx: &Tx<'_>, name: &str, owner: &str, ttl: Duration) -> rusqlite::Result<bool> {
    let until = tx.now.after(ttl).as_micros();
    Ok(tx.prepare(sql::EXTEND_LOCK)?.execute(params![name, owner, tx.now.as_micros(), until])? == 1)
}

pub(crate) fn unlock(tx: &Tx<'_>, name: &str, owner: &str) -> rusqlite::Result<bool> {
    Ok(tx.prepare(sql::UNLOCK)?.execute(params![name, owner, tx.now.as_micros()])? == 1)
}

pub(crate) fn locks(connection: &Connection, now: Timestamp) -> rusqlite::Result<Vec<Lock>> {
    let mut statement = connection.prepare_cached(sql::LOCKS)?;
    let rows = statement.query_map([now.as_micros()], |row| {
        Ok(Lock { name: row.get(0)?, owner: row.get(1)?, token: row.get(2)?, expires_at: rows::instant(row, 3)? })
    })?;
    rows.collect()
}
