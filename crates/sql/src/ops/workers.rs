//! Workers.

use punctual_core::{Heartbeat, StoreResult, TokenId, WorkerId, WorkerRecord};

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

pub(crate) fn deregister(db: &dyn Db, worker: WorkerId) -> StoreResult<()> {
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
