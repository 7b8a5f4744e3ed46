//! Claims: assigns queued jobs to workers.
//!
//! Measured in a prototype, in jobs per second from enqueue to settle: one jobs table, updated in place behind partial
//! indexes, 20,000; slim ready and running tables with the jobs row untouched until the end, as below, 26,000 to
//! 28,000. See docs/adr/0002 for the figures and their limits.

use std::time::Duration;

use punctual_core::{
    AttemptId, Claim, ClaimRequest, Claimed, Job, JobId, Settlement, Status, StoreResult, Timestamp, WorkerId,
    effects::{Effects, Phase},
    limits,
};

use super::{
    choice,
    effects::{self, IndexedJob},
    promote::{self, DueJob},
    queue_controls::QueueControls,
    queue_limits, read,
    ready::{Lane, ReadyJob, read_heads},
    rows,
    running::Running,
    settle, statements as sql,
    tx::{EventLine, Tx},
};
use crate::db::{Db, Row, params};

/// A claim of at most this many jobs reads them in the writer's transaction. For a larger claim, a reader reads them
/// afterwards while the writer continues. For few jobs, switching to another thread costs more than it saves.
const READ_AT_ONCE_MAX_JOBS: usize = 64;

/// A claim ahead of time reads this many due jobs per requested job, because others may be for other workers.
const AHEAD_READ_FACTOR: usize = 4;

/// The result of a claim.
#[derive(Debug, Default)]
pub(crate) struct ClaimedJobs {
    jobs: Vec<ClaimedJob>,
    /// The same jobs with all attributes, in the same order; empty until a reader has read them.
    claims: Vec<Claim>,
    /// Settlements that end jobs with corrupt rows. A worker cannot run such a job, and it would block all others.
    corrupt: Vec<Settlement>,
    next_run_at: Option<Timestamp>,
    opens_at: Option<Timestamp>,
    /// When to try again, if nothing was claimed.
    pub(crate) claim_again_at: Option<Timestamp>,
}

/// A claimed job: its row number, and the columns that the claim changed.
#[derive(Debug, Clone, Copy)]
struct ClaimedJob {
    seq: i64,
    attempt: AttemptId,
    number: u32,
    worker: WorkerId,
    started_at: Timestamp,
    lease_until: Timestamp,
}

impl ClaimedJobs {
    #[cfg(feature = "sqlite")]
    pub(crate) const fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Settlements that release all claimed jobs.
    pub(crate) fn releases(&self) -> Vec<Settlement> {
        self.jobs.iter().map(|job| Settlement::release(job.attempt, job.worker)).collect()
    }

    /// Whether the jobs have been read.
    pub(crate) const fn is_read(&self) -> bool {
        self.claims.len() == self.jobs.len()
    }

    /// Reads the jobs. A job with a corrupt row is dropped from the claim; the caller must [end](Self::take_corrupt)
    /// it.
    pub(crate) fn read(&mut self, db: &dyn Db) -> StoreResult<()> {
        let jobs = db.only_each(
            sql::CLAIM_READ,
            &mut |row| self.jobs.iter().try_for_each(|job| row(params![job.seq])),
            |row| Ok(rows::job(row)),
        )?;
        for (claimed, job) in std::mem::take(&mut self.jobs).into_iter().zip(jobs) {
            match job {
                Ok((_, job)) => {
                    self.claims.push(claimed.claim(job));
                    self.jobs.push(claimed);
                }
                Err(error) => self.corrupt.push(Settlement::corrupt(claimed.attempt, claimed.worker, &error)),
            }
        }
        Ok(())
    }

    /// Takes the settlements that end the jobs with corrupt rows.
    pub(crate) fn take_corrupt(&mut self) -> Vec<Settlement> {
        for one in &self.corrupt {
            let error = one.fault.as_ref().map(ToString::to_string);
            tracing::error!(job = %one.attempt.job, error, "a job whose row is corrupt is set aside as dead");
        }
        std::mem::take(&mut self.corrupt)
    }

    /// Reads the jobs, and ends those with corrupt rows, in the same transaction.
    pub(crate) fn read_within(&mut self, tx: &mut Tx<'_>) -> StoreResult<()> {
        self.read(tx.db)?;
        let corrupt = self.take_corrupt();
        if !corrupt.is_empty() {
            settle::settle(tx, &corrupt)?;
        }
        Ok(())
    }

    /// The response to the worker.
    pub(crate) fn claimed(self) -> Claimed {
        Claimed { claims: self.claims, next_run_at: self.next_run_at, opens_at: self.opens_at }
    }
}

impl ClaimedJob {
    /// The claim of one job, as returned to the worker.
    fn claim(&self, mut job: Job) -> Claim {
        job.status = Status::Processing;
        job.attempt = self.number;
        job.run = self.attempt.run;
        job.worker_id = Some(self.worker);
        job.lease_until = Some(self.lease_until);
        job.started_at = Some(self.started_at);
        job.updated_at = self.started_at;
        Claim::new(Box::new(job), self.worker)
    }
}

/// Promotes due jobs to queued, then claims queued jobs for a worker.
pub(crate) fn claim(tx: &mut Tx<'_>, request: &ClaimRequest) -> StoreResult<ClaimedJobs> {
    promote::promote(tx, limits::PROMOTE_MAX_JOBS)?;
    take(tx, request)
}

fn take(tx: &mut Tx<'_>, request: &ClaimRequest) -> StoreResult<ClaimedJobs> {
    let controls = QueueControls::read(tx.db)?;
    let mut claimed = ClaimedJobs::default();
    if queue_limits::are_any(tx, &controls)? {
        tx.job_db.be_alone()?;
        take_limited(tx, request, &controls, &mut claimed)?;
    } else {
        let lanes = controls.served(lanes(tx, request)?);
        let jobs = first_jobs(tx, &lanes, request)?;
        effects::delete_ready(tx, &jobs)?;
        claimed.jobs = assign_all(tx, request, &jobs)?;
    }
    let room = request.limit - claimed.jobs.len();
    if room > 0 && !request.ahead.is_zero() {
        claimed.jobs.extend(take_ahead(tx, request, room, &controls)?);
    }
    if claimed.jobs.len() <= READ_AT_ONCE_MAX_JOBS {
        claimed.read_within(tx)?;
    }
    let next: Option<i64> = tx.db.only(sql::NEXT_DUE, &[], |row| row.get(0))?;
    claimed.next_run_at = next.map(Timestamp::from_micros);
    let due = claimed.next_run_at.map(|next| request.claim_again_at(tx.now, next));
    claimed.claim_again_at = due.into_iter().chain(claimed.opens_at).min();
    Ok(claimed)
}

/// The lanes of jobs without a key that the request can claim from.
fn lanes(tx: &Tx<'_>, request: &ClaimRequest) -> StoreResult<Vec<Lane>> {
    Ok(Lane::of_request(request, read::lanes(tx.db, &request.queues, &request.names)?))
}

/// Claims the first jobs that the limits allow.
fn take_limited(
    tx: &mut Tx<'_>,
    request: &ClaimRequest,
    queues: &QueueControls,
    claimed: &mut ClaimedJobs,
) -> StoreResult<()> {
    // Includes jobs that were promoted earlier in this operation.
    queue_limits::evaluate_touched(tx)?;
    let next_wakeup = queue_limits::process_wakeups(tx, request, queues)?;
    let plain = queues.served(lanes(tx, request)?);
    let keyed = queues.served(choice::lanes(tx, request)?);
    let chosen = choice::choose(tx, request, queues, (&plain, &keyed))?;
    let records = chosen.records(tx.now, |_| true);
    choice::record(tx, &records)?;
    claimed.jobs = assign_all(tx, request, &chosen.jobs)?;
    chosen.jobs.iter().try_for_each(|job| queue_limits::take(tx, job.entry()))?;
    claimed.opens_at = choice::evaluate_keys(tx, queues, &records)?.into_iter().chain(next_wakeup).min();
    Ok(())
}

/// Assigns jobs to the worker.
fn assign_all(tx: &mut Tx<'_>, request: &ClaimRequest, jobs: &[ReadyJob<'_>]) -> StoreResult<Vec<ClaimedJob>> {
    let queued = queued_jobs(tx, jobs.iter().map(|job| job.seq))?;
    tx.expect_events(jobs.len())?;
    jobs.iter().zip(queued).map(|(job, queued)| assign(tx, request, job, queued)).collect()
}

/// Claims jobs that become due within the request's `ahead` interval, each with its due time as the start. Limits count
/// starts when they happen, so jobs under a limit are skipped.
fn take_ahead(
    tx: &mut Tx<'_>,
    request: &ClaimRequest,
    limit: usize,
    controls: &QueueControls,
) -> StoreResult<Vec<ClaimedJob>> {
    let due = promote::due_until(tx, tx.now.after(request.ahead), AHEAD_READ_FACTOR * limit)?;
    let free = |job: &DueJob| {
        let Lane { queue, name, .. } = &job.lane;
        let controls = job.key.is_some() || controls.paused.contains(queue) || controls.guards(queue);
        !controls && request.serves(queue, name) && request.suspects == job.level.is_suspect()
    };
    let due: Vec<DueJob> = due.into_iter().filter(free).take(limit).collect();
    let queued = queued_jobs(tx, due.iter().map(|job| job.seq))?;
    tx.expect_events(2 * due.len())?;
    let (mut claimed, now) = (Vec::new(), tx.now);
    for (job, mut queued) in due.iter().zip(queued) {
        tx.now = now.max(Timestamp::from_micros(job.run_at));
        let effects = job.promotion(tx.now);
        queued.last_event = job.promote(tx, &effects)?;
        // It is claimed at once, without becoming ready.
        effects::delete(tx, &job.indexed(), &effects.deleted)?;
        effects::count(tx, &job.indexed(), &effects);
        claimed.push(assign(tx, request, &job.ready_job(), queued)?);
    }
    tx.now = now;
    Ok(claimed)
}

/// The first jobs of all lanes that the worker serves, in claim order.
fn first_jobs<'l>(tx: &Tx<'_>, lanes: &'l [Lane], request: &ClaimRequest) -> StoreResult<Vec<ReadyJob<'l>>> {
    let mut jobs = Vec::new();
    read_heads(tx, lanes, request.limit, &mut |job| {
        jobs.push(job);
        // Keeps memory use and the final sort small when there are many lanes.
        if jobs.len() > 4 * request.limit {
            keep_first(&mut jobs, request);
        }
    })?;
    keep_first(&mut jobs, request);
    Ok(jobs)
}

fn keep_first(jobs: &mut Vec<ReadyJob<'_>>, request: &ClaimRequest) {
    jobs.sort_by_cached_key(|job| job.order(request));
    jobs.truncate(request.limit);
}

/// The columns of a queued job that a claim needs.
struct QueuedJob {
    id: [u8; 16],
    attempts: u32,
    runs: u32,
    keep_for: Option<Duration>,
    user: Option<String>,
    last_event: Option<i64>,
    flow: bool,
}

impl QueuedJob {
    fn of(row: &dyn Row) -> StoreResult<Self> {
        Ok(Self {
            id: row.get(0)?,
            attempts: row.get(1)?,
            runs: row.get(2)?,
            keep_for: row.get::<Option<u64>>(3)?.map(Duration::from_millis),
            user: row.get(4)?,
            last_event: row.get(5)?,
            flow: row.get(6)?,
        })
    }
}

fn queued_jobs(tx: &Tx<'_>, seqs: impl Iterator<Item = i64> + Clone) -> StoreResult<Vec<QueuedJob>> {
    tx.db.only_each(sql::CLAIM_TAKE, &mut |row| seqs.clone().try_for_each(|seq| row(params![seq])), QueuedJob::of)
}

/// Assigns one job to the worker.
fn assign(tx: &mut Tx<'_>, request: &ClaimRequest, job: &ReadyJob<'_>, queued: QueuedJob) -> StoreResult<ClaimedJob> {
    let ReadyJob { lane: Lane { queue, name, .. }, level, seq, run_at, limit_key } = job;
    let QueuedJob { id, attempts, runs, keep_for, user, last_event, flow } = queued;
    let run_at = Timestamp::from_micros(*run_at);
    let before = Phase { status: Status::Queued, run_at, updated_at: tx.now, finished_at: None, keep_for };
    let effects = Effects::changed(before, before.claimed(tx.now));
    let line = EventLine::plain(Status::Processing, Some(runs + 1));
    let last_event = effects::write_events(tx, (*seq, last_event), &effects, line)?;
    let running = Running {
        seq: *seq,
        run: runs + 1,
        attempt: attempts + 1,
        worker: request.worker,
        lease_until: tx.now.after(request.lease),
        started_at: tx.now,
        level: *level,
        queue: queue.clone(),
        name: name.clone(),
        keep_for,
        user,
        last_event,
        flow,
        limit_key: limit_key.clone(),
    };
    running.insert(tx.db, id)?;
    let job = JobId::from_bytes(id);
    // Its entry in the index of queued jobs was deleted with those of the other jobs.
    effects::count(tx, &IndexedJob::held(&running, job), &effects);
    let claimed = ClaimedJob {
        seq: *seq,
        attempt: AttemptId { job, run: running.run },
        number: running.attempt,
        worker: request.worker,
        started_at: tx.now,
        lease_until: running.lease_until,
    };
    tx.remember(id, running);
    Ok(claimed)
}
