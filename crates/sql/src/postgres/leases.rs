//! Leases: which have expired, their extension, and what their holders report.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use punctual_core::{AttemptId, Claim, JobId, ProgressReport, Settlement, Timestamp, WorkerId};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    claim::lanes::SLACK,
    core::Core,
    read, rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// Claims whose lease has expired, and settlements for those whose rows are corrupt, which would otherwise be found
/// every time.
pub(crate) async fn expired(store: &Core, limit: usize) -> sqlx::Result<(Vec<Claim>, Vec<Settlement>)> {
    let (now, full) = (store.clock_now(), store.scan_bounds.lease_scans.begin());
    let bound = if full.is_some() { Timestamp::MIN } else { store.scan_bounds.lock().lease_bound };
    let mut unit = store.sessions.single().await?;
    let expired: Vec<Lease> = sqlx::query_as(*sql::EXPIRED_LEASES)
        .bind(store.sessions.clock())
        .bind(limit as i64)
        .bind(At(bound))
        .fetch_all(&mut *unit)
        .await?;
    drop(full);
    // If any lease was found, the bound stays, so that the next scan finds it again if it is still held.
    store.scan_bounds.lock().lease_bound = if expired.is_empty() { now.before(SLACK) } else { bound };
    unit.done().await?;
    let (claims, corrupt) = claims_of_leases(store, expired).await?;
    for settlement in &corrupt {
        tracing::error!(job = %settlement.attempt.job, "a job whose lease has run out and whose row is corrupt is set aside as dead");
    }
    Ok((claims, corrupt))
}

/// Claims of a worker, except those whose rows are corrupt.
pub(crate) async fn claims_of(store: &Core, worker: WorkerId, limit: usize) -> sqlx::Result<Vec<Claim>> {
    let mut unit = store.sessions.single().await?;
    let worker = Uuid::from_u128(worker.to_bits());
    let leases = sqlx::query_as(*sql::LEASES_OF).bind(worker).bind(limit as i64).fetch_all(&mut *unit).await?;
    unit.done().await?;
    Ok(claims_of_leases(store, leases).await?.0)
}

/// A row of `punctual_running`: job id, whether the worker has confirmed that the handler is about to start, run,
/// worker.
type Lease = (Uuid, bool, i32, Uuid);

/// The claims of the given leases that are still held, and settlements for those whose rows are corrupt, which apply
/// once the leases have expired.
async fn claims_of_leases(store: &Core, leases: Vec<Lease>) -> sqlx::Result<(Vec<Claim>, Vec<Settlement>)> {
    let ids: Vec<JobId> = leases.iter().map(|(id, ..)| job_id(*id)).collect();
    let mut jobs = read::get_each(store, &ids).await?;
    let (mut claims, mut corrupt) = (Vec::new(), Vec::new());
    for (id, (_, confirmed, run, worker)) in ids.into_iter().zip(leases) {
        match jobs.remove(&id) {
            Some(Ok(job)) => {
                let worker_id = job.worker_id;
                claims.extend(worker_id.map(|worker| Claim { confirmed, ..Claim::new(Box::new(job), worker) }));
            }
            Some(Err(error)) => {
                let attempt = AttemptId { job: id, run: run as u32 };
                corrupt.push(Settlement::corrupt_and_expired(attempt, WorkerId::from_bits(worker.as_u128()), &error));
            }
            None => {}
        }
    }
    Ok((claims, corrupt))
}

/// Extends leases; returns which were still held.
pub(crate) async fn extend(
    store: &Core,
    worker: WorkerId,
    lease: Duration,
    attempts: &[AttemptId],
) -> sqlx::Result<Vec<bool>> {
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut unit = store.sessions.single().await?;
    let kept = sqlx::query(*sql::EXTEND_LEASES)
        .bind(store.sessions.clock())
        .bind(sorted.iter().map(|attempt| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(sorted.iter().map(|attempt| attempt.run as i32).collect::<Vec<_>>())
        .bind(Uuid::from_u128(worker.to_bits()))
        .bind(lease.as_micros() as i64)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let kept = attempts_of(&kept)?;
    Ok(attempts.iter().map(|attempt| kept.contains(attempt)).collect())
}

/// Records that handlers are about to start; returns which attempts were still held.
pub(crate) async fn confirm(store: &Core, worker: WorkerId, attempts: &[AttemptId]) -> sqlx::Result<Vec<bool>> {
    let mut sorted = attempts.to_vec();
    sorted.sort_unstable();
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::CONFIRM)
        .bind(store.sessions.clock())
        .bind(sorted.iter().map(|attempt| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(sorted.iter().map(|attempt| attempt.run as i32).collect::<Vec<_>>())
        .bind(Uuid::from_u128(worker.to_bits()))
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let held = attempts_of(&rows)?;
    Ok(attempts.iter().map(|attempt| held.contains(attempt)).collect())
}

/// The attempts in rows of ids and runs.
fn attempts_of(rows: &[PgRow]) -> sqlx::Result<HashSet<AttemptId>> {
    rows.iter().map(|row| Ok(AttemptId { job: job_id(row.try_get(0)?), run: rows::number(row, 1)? })).collect()
}

/// Returns which attempts this worker currently holds.
pub(crate) async fn held(store: &Core, worker: WorkerId, attempts: &[AttemptId]) -> sqlx::Result<Vec<bool>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::HELD_LEASES)
        .bind(attempts.iter().map(|attempt| uuid(attempt.job)).collect::<Vec<_>>())
        .bind(Uuid::from_u128(worker.to_bits()))
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let runs: HashMap<Uuid, i32> =
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()?;
    Ok(attempts.iter().map(|attempt| runs.get(&uuid(attempt.job)) == Some(&(attempt.run as i32))).collect())
}

/// Stores progress and logs of running handlers.
pub(crate) async fn report_progress(store: &Core, reports: &[ProgressReport]) -> sqlx::Result<()> {
    let mut unit = store.sessions.several().await?;
    let reported = report_within(&mut unit, reports).await;
    unit.ended(reported).await?;
    if reports.iter().any(|report| report.progress.is_some()) {
        store.hints.notify_jobs();
    }
    Ok(())
}

async fn report_within(connection: &mut PgConnection, reports: &[ProgressReport]) -> sqlx::Result<()> {
    let mut progress: Vec<(&ProgressReport, String)> = Vec::new();
    for report in reports {
        if let Some(reported) = &report.progress {
            // Of two reports about one execution, the later one counts.
            progress.retain(|(earlier, _)| earlier.attempt != report.attempt);
            progress.push((report, rows::text(reported)?));
        }
    }
    progress.sort_by_key(|(report, _)| report.attempt);
    if !progress.is_empty() {
        sqlx::query(*sql::SET_PROGRESS)
            .bind(progress.iter().map(|(report, _)| uuid(report.attempt.job)).collect::<Vec<_>>())
            .bind(progress.iter().map(|(report, _)| At(report.attempt.job.timestamp())).collect::<Vec<_>>())
            .bind(progress.iter().map(|(report, _)| report.attempt.run as i32).collect::<Vec<_>>())
            .bind(progress.iter().map(|(report, _)| Uuid::from_u128(report.worker.to_bits())).collect::<Vec<_>>())
            .bind(progress.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    let lines: Vec<_> = reports
        .iter()
        .flat_map(|report| report.lines.iter().map(move |(number, line)| (report.attempt, number, line)))
        .collect();
    if !lines.is_empty() {
        sqlx::query(*sql::INSERT_LOGS)
            .bind(lines.iter().map(|(attempt, _, _)| uuid(attempt.job)).collect::<Vec<_>>())
            .bind(lines.iter().map(|(attempt, _, _)| At(attempt.job.timestamp())).collect::<Vec<_>>())
            .bind(lines.iter().map(|(attempt, _, _)| attempt.run as i32).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, number, _)| **number as i32).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, _, line)| At(line.at)).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, _, line)| line.level.as_str()).collect::<Vec<_>>())
            .bind(lines.iter().map(|(_, _, line)| line.message.as_str()).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
