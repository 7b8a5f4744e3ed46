//! Retention: which jobs expire, and the removal of jobs with all their rows.

use std::time::Duration;

use punctual_core::{
    Job, RetentionPolicy, Status, StoreResult, Timestamp, Verb, WorkflowId, change,
    effects::{Effects, Phase},
    limits,
};

use super::{
    change::replace,
    effects::{self, IndexedJob},
    flow, queue_limits, read,
    rows::JobRow,
    statements as sql, tokens,
    tx::Tx,
};
use crate::db::params;

/// Marks finished jobs as deleted whose retention has passed.
pub(crate) fn expire(tx: &mut Tx<'_>, keep: RetentionPolicy, limit: usize) -> StoreResult<usize> {
    let mut seqs: Vec<i64> = Vec::new();
    for status in [Status::Succeeded, Status::Dead, Status::Cancelled] {
        let cutoff = tx.now.before(keep.of(status)).as_micros();
        let room = (limit - seqs.len()) as i64;
        seqs.extend(tx.db.all(sql::EXPIRABLE, params![status.as_str(), cutoff, room], |row| row.get::<i64>(0))?);
    }
    let room = (limit - seqs.len()) as i64;
    seqs.extend(tx.db.all(sql::EXPIRABLE_BY_JOB, params![tx.now.as_micros(), room], |row| row.get::<i64>(0))?);
    tx.expect_events(seqs.len())?;
    for known in read::known(tx.db, &seqs)? {
        let mut job = known.job.clone();
        if change::keep_for_unique_key(&mut job, tx.now) {
            keep_longer(tx, &known, &job)?;
        } else if change::apply(Verb::Delete, &mut job, tx.now).is_ok() {
            replace(tx, &known, &job, (Some("retention"), None))?;
        }
    }
    Ok(seqs.len())
}

/// Stores a longer retention for a finished job.
fn keep_longer(tx: &mut Tx<'_>, JobRow { seq, job: before, .. }: &JobRow, after: &Job) -> StoreResult<()> {
    let effects = Effects::kept(Phase::of(before), Phase::of(after));
    effects::apply(tx, &IndexedJob::of(after, *seq), &effects)?;
    let keep_for_ms = after.spec.keep_for.map(|keep| keep.as_millis() as i64);
    tx.write(sql::SET_RETENTION, params![seq, keep_for_ms])
}

/// Removes deleted jobs with all their rows.
pub(crate) fn purge(tx: &mut Tx<'_>, after: Duration, limit: usize) -> StoreResult<usize> {
    let cutoff = tx.now.before(after).as_micros();
    let seqs: Vec<i64> = tx.db.all(sql::PURGEABLE, params![cutoff, limit], |row| row.get(0))?;
    remove_some(tx, &seqs)
}

/// Removes ephemeral jobs that are not running.
pub(crate) fn drop_ephemeral(tx: &mut Tx<'_>, before: Timestamp, limit: usize) -> StoreResult<usize> {
    let seqs: Vec<i64> = tx.db.all(sql::EPHEMERAL, params![limit, before.as_micros()], |row| row.get(0))?;
    remove_some(tx, &seqs)
}

/// Removes jobs until many rows are deleted; returns the number of jobs. The limit is on rows because a job may have a
/// long log and other operations wait for the writer.
fn remove_some(tx: &mut Tx<'_>, seqs: &[i64]) -> StoreResult<usize> {
    const MANY_ROWS: usize = 20_000;
    const FEW_ROWS: usize = 1_000;
    const AT_ONCE_MAX_JOBS: usize = 16;
    if !seqs.is_empty() {
        tx.write(sql::SAVE_EVENT_NUMBER, &[])?;
    }
    let (mut left, mut rows, mut at_once) = (seqs, 0, 1);
    while !left.is_empty() && rows < MANY_ROWS {
        let some;
        (some, left) = left.split_at(at_once.min(left.len()));
        let gone = remove(tx, some)?;
        rows += gone;
        at_once = if gone < FEW_ROWS { (2 * at_once).min(AT_ONCE_MAX_JOBS) } else { 1 };
    }
    Ok(seqs.len() - left.len())
}

/// Removes jobs that are not running, with all their rows; returns the number of rows of their histories.
fn remove(tx: &mut Tx<'_>, seqs: &[i64]) -> StoreResult<usize> {
    let known = read::known(tx.db, seqs)?;
    flow::lose(tx, &known)?;
    for JobRow { seq, job, .. } in &known {
        effects::remove(tx, &IndexedJob::of(job, *seq), &Effects::removed(Phase::of(job)))?;
    }
    flow::forget(tx, seqs)?;
    let mut rows = 0;
    for history in [sql::DELETE_EVENTS, sql::DELETE_LOGS, sql::DELETE_ATTEMPTS] {
        rows += tx.db.execute_each(history, &mut |row| seqs.iter().try_for_each(|seq| row(params![seq])))?;
    }
    seqs.iter().try_for_each(|seq| tx.write(sql::DELETE_JOB, params![seq]))?;
    Ok(rows)
}

/// Removes old attempts, logs, counters and workers.
pub(crate) fn prune(tx: &Tx<'_>, after: Duration, limit: usize) -> StoreResult<usize> {
    let cutoff = tx.now.before(after).as_micros();
    let attempts = tx.execute(sql::PRUNE_ATTEMPTS, params![cutoff, limit as i64])?;
    let logs = tx.execute(sql::PRUNE_LOGS, params![cutoff, limit as i64])?;
    let rollups = tx.execute(sql::PRUNE_ROLLUPS, params![tx.now.before(limits::ROLLUPS_KEPT).as_micros()])?;
    let workers = tx.execute(sql::PRUNE_WORKERS, params![tx.now.before(limits::WORKER_SILENT_MAX).as_micros()])?;
    queue_limits::prune(tx)?;
    tokens::prune(tx.edit(), limit)?;
    let last_id = WorkflowId::last_of(tx.now.before(after)).to_bytes();
    let workflows = tx.execute(sql::PRUNE_WORKFLOWS, params![cutoff, limit as i64, last_id])?;
    Ok(attempts + logs + rollups + workers + workflows)
}
