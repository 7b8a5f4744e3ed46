//! Jobs that leave, with all that belongs to them.

use std::time::Duration;

use punctual_core::{Status, StoreError, Timestamp, WorkflowId, limits};
use rusqlite::params;

use super::{
    change::{forget_death, kept_until},
    error::store_error,
    flow, gates,
    places::standing,
    rows::{self, labels},
    statements as sql,
    tx::Tx,
};

/// Removes deleted jobs with all that belongs to them.
pub(crate) fn purge(tx: &mut Tx<'_>, after: Duration, limit: usize) -> Result<usize, StoreError> {
    let cutoff = tx.now.before(after).as_micros();
    let seqs = || -> rusqlite::Result<Vec<i64>> {
        let mut purgeable = tx.prepare(sql::PURGEABLE)?;
        let rows = purgeable.query_map(params![cutoff, limit as i64], |row| row.get(0))?;
        rows.collect()
    };
    let seqs = seqs().map_err(store_error)?;
    remove_some(tx, &seqs).map_err(store_error)
}

/// Removes ephemeral jobs that nobody runs.
pub(crate) fn drop_ephemeral(tx: &mut Tx<'_>, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let seqs = || -> rusqlite::Result<Vec<i64>> {
        let mut ephemeral = tx.prepare(sql::EPHEMERAL)?;
        let rows = ephemeral.query_map([limit as i64, before.as_micros()], |row| row.get(0))?;
        rows.collect()
    };
    let seqs = seqs().map_err(store_error)?;
    flow::lose(tx, &seqs).map_err(store_error)?;
    remove_some(tx, &seqs).map_err(store_error)
}

/// Removes jobs until many rows have gone; says how many jobs. A job may have a long log, and others wait for the writer.
fn remove_some(tx: &mut Tx<'_>, seqs: &[i64]) -> rusqlite::Result<usize> {
    const MANY_ROWS: usize = 20_000;
    let (mut jobs, mut rows) = (0, 0);
    for seq in seqs {
        rows += remove(tx, *seq)?;
        jobs += 1;
        if rows >= MANY_ROWS {
            break;
        }
    }
    Ok(jobs)
}

/// Removes every trace of a job that nobody runs; says how many rows of its history there were.
fn remove(tx: &mut Tx<'_>, seq: i64) -> rusqlite::Result<usize> {
    let (_, job) = tx.prepare(sql::GET_BY_SEQ)?.query_row([seq], rows::job)?;
    let (queue, name, run_at) = (&job.spec.queue, &job.spec.name, job.run_at.as_micros());
    if job.status == Status::Queued {
        gates::leave(tx, standing(&job, seq))?;
    }
    tx.prepare(sql::DELETE_DUE)?.execute(params![run_at, seq])?;
    tx.prepare(sql::DELETE_WAITING)?.execute(params![run_at, seq])?;
    flow::forget(tx, seq)?;
    if let Some((scope, key)) = job.spec.unique_key() {
        tx.prepare(sql::DELETE_KEY)?.execute(params![scope, key, seq])?;
    }
    for (kind, value) in labels(&job.spec) {
        tx.prepare(sql::DELETE_LABEL)?.execute(params![kind, value, job.id.to_bytes()])?;
    }
    if let Some(expires_at) = kept_until(&job) {
        tx.prepare(sql::DELETE_KEPT)?.execute(params![expires_at, seq])?;
    }
    forget_death(tx, seq, &job)?;
    tx.prepare(sql::DELETE_DELETED)?.execute(params![job.updated_at.as_micros(), seq])?;
    tx.prepare(sql::DELETE_EPHEMERAL)?.execute([seq])?;
    let mut rows = tx.prepare(sql::DELETE_EVENTS)?.execute([seq])?;
    for of in ["punctual_logs", "punctual_attempts"] {
        rows += tx.prepare(&format!("delete from {of} where job = ?1"))?.execute([seq])?;
    }
    tx.prepare("delete from punctual_jobs where seq = ?1")?.execute([seq])?;
    tx.count(queue, name, Some(job.status), None);
    tx.count_pending(job.spec.user_id.as_deref(), name, Some(job.status), None);
    Ok(rows)
}

/// Removes old attempts, logs, counters and workers.
pub(crate) fn trim(tx: &Tx<'_>, after: Duration, limit: usize) -> rusqlite::Result<usize> {
    let cutoff = tx.now.before(after).as_micros();
    let attempts = tx.prepare(sql::TRIM_ATTEMPTS)?.execute(params![cutoff, limit as i64])?;
    let logs = tx.prepare(sql::TRIM_LOGS)?.execute(params![cutoff, limit as i64])?;
    let tallies = tx.prepare(sql::TRIM_TALLIES)?.execute([tx.now.before(limits::TALLIES_KEPT).as_micros()])?;
    let workers = tx.prepare(sql::TRIM_WORKERS)?.execute([tx.now.before(limits::WORKER_SILENT_MAX).as_micros()])?;
    gates::trim(tx)?;
    let last_id = WorkflowId::last_of(tx.now.before(after)).to_bytes();
    let workflows = tx.prepare(sql::TRIM_WORKFLOWS)?.execute(params![cutoff, limit as i64, last_id])?;
    Ok(attempts + logs + tallies + workers + workflows)
}
