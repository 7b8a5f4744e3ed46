//! Leases: which have expired, which are of one worker, their renewal, and what their holders report.

use std::{collections::HashSet, time::Duration};

use punctual_core::{AttemptId, Claim, JobId, ProgressReport, Settlement, StoreResult, Timestamp, WorkerId};

use super::{rows, running::Running, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

/// Expired leases.
pub(crate) struct Expired {
    pub(crate) claims: Vec<Claim>,
    /// Settlements that end jobs with corrupt rows: no worker can receive them, and every later search would find them
    /// again.
    pub(crate) corrupt: Vec<Settlement>,
}

/// A row of the running table.
struct Lease {
    seq: i64,
    attempt: AttemptId,
    worker: WorkerId,
    confirmed: bool,
}

impl Lease {
    fn of(row: &dyn Row) -> StoreResult<Self> {
        let attempt = AttemptId { job: JobId::from_bytes(row.get(1)?), run: row.get(3)? };
        Ok(Self { seq: row.get(0)?, attempt, worker: WorkerId::from_bytes(row.get(4)?), confirmed: row.get(2)? })
    }
}

/// Claims whose lease has expired.
pub(crate) fn expired(db: &dyn Db, now: Timestamp, limit: usize) -> StoreResult<Expired> {
    let leases = db.all(sql::EXPIRED_LEASES, params![now.as_micros(), limit], Lease::of)?;
    let mut expired = Expired { claims: Vec::new(), corrupt: Vec::new() };
    for (lease, claim) in leases.iter().zip(claims_of_leases(db, &leases)?) {
        match claim {
            Ok(claim) => expired.claims.extend(claim),
            Err(error) => expired.corrupt.push(Settlement::corrupt_and_expired(lease.attempt, lease.worker, &error)),
        }
    }
    Ok(expired)
}

/// Claims of a worker, without those with corrupt rows.
pub(crate) fn claims_of(db: &dyn Db, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
    let leases = db.all(sql::LEASES_OF, params![worker.to_bytes(), limit], Lease::of)?;
    Ok(claims_of_leases(db, &leases)?.into_iter().flatten().flatten().collect())
}

/// The claim of each lease, if the job is still running.
fn claims_of_leases(db: &dyn Db, leases: &[Lease]) -> StoreResult<Vec<StoreResult<Option<Claim>>>> {
    let jobs =
        db.all_each(sql::JOB_BY_SEQ, &mut |row| leases.iter().try_for_each(|lease| row(params![lease.seq])), |row| {
            Ok(rows::job(row))
        })?;
    let mut claims: Vec<_> = leases.iter().map(|_| Ok(None)).collect();
    for (index, job) in jobs {
        let confirmed = leases[index].confirmed;
        claims[index] = job.map(|(_, job)| {
            let worker = job.worker_id?;
            Some(Claim { confirmed, ..Claim::new(Box::new(job), worker) })
        });
    }
    Ok(claims)
}

/// Extends leases that had not expired when the renewal was requested; returns which attempts were still held.
pub(crate) fn extend(tx: &Tx<'_>, worker: WorkerId, lease: Duration, attempts: &[AttemptId]) -> StoreResult<Vec<bool>> {
    // The new lease begins now, so that the worker's own estimate, which begins at its request, never outlasts it.
    let (requested_at, until, worker) =
        (tx.requested_at.as_micros(), tx.now.after(lease).as_micros(), worker.to_bytes());
    // Sorted, because other transactions lock the rows in the same order.
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut kept = HashSet::new();
    tx.db.read_each(
        sql::EXTEND_LEASE,
        &mut |row| {
            let fence = |attempt: &AttemptId| (attempt.job.to_bytes(), attempt.run);
            sorted.iter().map(fence).try_for_each(|(id, run)| row(params![id, run, worker, requested_at, until]))
        },
        &mut |index, _| {
            kept.insert(sorted[index]);
            Ok(())
        },
    )?;
    Ok(attempts.iter().map(|attempt| kept.contains(attempt)).collect())
}

/// Records that handlers are about to start; returns which attempts were still held.
pub(crate) fn confirm(tx: &Tx<'_>, worker: WorkerId, attempts: &[AttemptId]) -> StoreResult<Vec<bool>> {
    confirm_at(tx, tx.now, worker, attempts)
}

/// Like `confirm`, at a given time.
pub(crate) fn confirm_at(
    tx: &Tx<'_>,
    now: Timestamp,
    worker: WorkerId,
    attempts: &[AttemptId],
) -> StoreResult<Vec<bool>> {
    let (now, worker) = (now.as_micros(), worker.to_bytes());
    // Sorted, because other transactions lock the rows in the same order.
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut confirmed = HashSet::new();
    tx.db.read_each(
        sql::CONFIRM,
        &mut |row| sorted.iter().try_for_each(|one| row(params![one.job.to_bytes(), one.run, worker, now])),
        &mut |index, _| {
            confirmed.insert(sorted[index]);
            Ok(())
        },
    )?;
    Ok(attempts.iter().map(|attempt| confirmed.contains(attempt)).collect())
}

/// Which attempts this worker is running.
pub(crate) fn held(db: &dyn Db, worker: WorkerId, attempts: &[AttemptId]) -> StoreResult<Vec<bool>> {
    let ids: Vec<_> = attempts.iter().map(|attempt| attempt.job.to_bytes()).collect();
    let held = Running::find_each(db, &ids)?;
    let is_held = |(attempt, id): (&AttemptId, &[u8; 16])| {
        held.get(id).is_some_and(|running| running.run == attempt.run && running.worker == worker)
    };
    Ok(attempts.iter().zip(&ids).map(is_held).collect())
}

/// Stores progress and logs of running handlers.
pub(crate) fn report_progress(tx: &mut Tx<'_>, reports: &[ProgressReport]) -> StoreResult<()> {
    for report in reports {
        let progress = report.progress.as_ref().map(rows::text).transpose()?;
        write_report(tx, report, progress.as_deref())?;
    }
    Ok(())
}

fn write_report(tx: &mut Tx<'_>, report: &ProgressReport, progress: Option<&str>) -> StoreResult<()> {
    let (id, run) = (report.attempt.job.to_bytes(), report.attempt.run);
    if let Some(progress) = progress {
        tx.write(sql::SET_PROGRESS, params![id, run, report.worker.to_bytes(), progress])?;
        tx.jobs_changed = true;
    }
    for (number, line) in &report.lines {
        tx.write(sql::INSERT_LOG, params![id, run, number, line.at.as_micros(), line.level.as_str(), line.message])?;
    }
    Ok(())
}
