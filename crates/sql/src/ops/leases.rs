//! Claims read from their leases: the expired ones, and those of one worker.

use punctual_core::{AttemptId, Claim, JobId, Settlement, StoreResult, Timestamp, WorkerId};

use super::{rows, statements as sql};
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
