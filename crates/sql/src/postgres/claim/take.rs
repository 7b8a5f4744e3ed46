//! Takes queued jobs for a worker.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use punctual_core::{
    AttemptId, Claim, ClaimRequest, Job, JobId, JobOptions, Json, LeaseGrant, NewJob, Spec, Timestamp, WorkflowId,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    super::{
        core::Core,
        queues::QueueSnapshot,
        rows, statements as sql,
        value::{At, Uuid, job_id, uuid},
    },
    lanes::{Lane, ScanPosition, Served},
    scan_bounds::ScanMode,
};

/// The jobs that a claim took.
pub(crate) struct ScanResult {
    pub(crate) jobs: Vec<ClaimedRow>,
    pub(crate) next_run_at: Option<Timestamp>,
    pub(crate) opens_at: Option<Timestamp>,
}

/// A job that a claim took, and the columns that the claim changed.
pub(crate) struct ClaimedRow {
    pub(crate) attempt: AttemptId,
    number: u32,
    pub(crate) lane: i32,
    pub(crate) run_at: Timestamp,
    started_at: Timestamp,
    /// The job's other attributes, if the claim returned them.
    pub(crate) job: Option<Box<Job>>,
}

impl ClaimedRow {
    /// The job as its worker receives it.
    pub(crate) fn claim(&self, mut job: Box<Job>, request: &ClaimRequest) -> Claim {
        let lease = LeaseGrant { worker: request.worker, from: self.started_at, duration: request.lease };
        job.begin(self.attempt.run, self.number, lease);
        Claim::new(job, request.worker)
    }
}

/// The key of a queued job's row in `punctual_ready`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadyKey {
    pub(crate) lane: i32,
    pub(crate) run_at: Timestamp,
    pub(crate) id: JobId,
}

/// Where a claim finds jobs without limits.
pub(crate) enum Plain {
    /// At the heads of lanes.
    Lanes(Vec<Served>),
    /// By keys known from hints, in lanes that the worker serves.
    Keys(Vec<(Served, ReadyKey)>),
}

impl Plain {
    /// The keys without those of the `claimed` jobs; `None` if single keys are not known.
    pub(crate) fn without(&self, claimed: &[ClaimedRow]) -> Option<Self> {
        let Self::Keys(keys) = self else { return None };
        let claimed: HashSet<JobId> = claimed.iter().map(|job| job.attempt.job).collect();
        Some(Self::Keys(keys.iter().filter(|(_, key)| !claimed.contains(&key.id)).copied().collect()))
    }
}

/// One scan for the jobs that a claim requests.
#[derive(Clone, Copy)]
pub(crate) struct ClaimScan<'a> {
    pub(crate) store: &'a Core,
    pub(crate) request: &'a ClaimRequest,
    pub(crate) mode: &'a ScanMode<'a>,
    /// The queue settings that the scan was planned with.
    pub(crate) queues: &'a QueueSnapshot,
}

impl ClaimScan<'_> {
    /// Takes the first queued jobs without limits; `None` if queue settings have changed since they were read.
    pub(crate) async fn take(&self, plain: &Plain) -> sqlx::Result<Option<ScanResult>> {
        match plain {
            Plain::Lanes(lanes) => self.take_of_lanes(lanes).await,
            Plain::Keys(keys) => self.take_by_keys(keys).await,
        }
    }

    async fn take_by_keys(&self, keys: &[(Served, ReadyKey)]) -> sqlx::Result<Option<ScanResult>> {
        let Self { store, request, .. } = *self;
        let mut ordered: Vec<&(Served, ReadyKey)> = keys.iter().collect();
        ordered.sort_unstable_by_key(|(lane, key)| (lane.rank, key.run_at, key.id));
        let keys: Vec<ReadyKey> = ordered.iter().take(request.limit).map(|(_, key)| *key).collect();
        let mut unit = store.sessions.single().await?;
        let rows = self.take_chosen(&mut unit, &keys, Vec::new(), store.sessions.clock()).await?;
        unit.done().await?;
        self.in_order(&rows, ordered.into_iter().map(|(lane, _)| lane))
    }

    /// Takes jobs that were chosen before; `limited` has the lanes whose queues are limited.
    pub(crate) async fn take_chosen(
        &self,
        connection: &mut PgConnection,
        keys: &[ReadyKey],
        limited: Vec<i32>,
        now: Option<At>,
    ) -> sqlx::Result<Vec<PgRow>> {
        sqlx::query(*sql::CLAIM_CHOSEN)
            .bind(now)
            .bind(keys.iter().map(|key| key.lane).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| At(key.run_at)).collect::<Vec<_>>())
            .bind(keys.iter().map(|key| uuid(key.id)).collect::<Vec<_>>())
            .bind(self.request.limit as i64)
            .bind(Uuid::from_u128(self.request.worker.to_bits()))
            .bind(self.request.lease.as_micros() as i64)
            .bind(At(self.mode.due_bound(&self.store.scan_bounds)))
            .bind(self.queues.revision)
            .bind(limited)
            .fetch_all(connection)
            .await
    }

    async fn take_of_lanes(&self, lanes: &[Served]) -> sqlx::Result<Option<ScanResult>> {
        let Self { store, request, mode, queues } = *self;
        let due_bound = mode.due_bound(&store.scan_bounds);
        let several = lanes.len() > 1;
        let bounds = || lanes.iter().map(|lane| mode.lane_bound(lane.bound));
        let mut unit = store.sessions.single().await?;
        let mut query = sqlx::query(sql::CLAIM[usize::from(several)])
            .bind(store.sessions.clock())
            .bind(lanes.iter().map(|lane| lane.number).collect::<Vec<_>>())
            .bind(bounds().map(|bound| At(bound.run_at)).collect::<Vec<_>>())
            .bind(bounds().map(|bound| Uuid::from_u128(bound.job.map_or(0, JobId::to_bits))).collect::<Vec<_>>())
            .bind(request.limit as i64)
            .bind(Uuid::from_u128(request.worker.to_bits()))
            .bind(request.lease.as_micros() as i64)
            .bind(At(due_bound))
            .bind(queues.revision);
        if several {
            query = query.bind(lanes.iter().map(|lane| lane.rank).collect::<Vec<_>>());
        }
        let rows = query.fetch_all(&mut *unit).await?;
        unit.done().await?;
        self.in_order(&rows, lanes)
    }

    /// Converts the rows of a claim, sorted in claim order; `None` if queue settings have changed since they were read.
    fn in_order<'l>(
        &self,
        rows: &[PgRow],
        lanes: impl IntoIterator<Item = &'l Served>,
    ) -> sqlx::Result<Option<ScanResult>> {
        let revision = rows.first().map(|row| row.try_get::<i64, _>(18)).transpose()?;
        if revision.is_some_and(|revision| revision != self.queues.revision) {
            return Ok(None);
        }
        let mut jobs = claimed_rows(self.store, rows)?;
        let ranks: HashMap<i32, i32> = lanes.into_iter().map(|lane| (lane.number, lane.rank)).collect();
        jobs.sort_by_cached_key(|job| (ranks.get(&job.lane), job.run_at, job.attempt.job));
        Ok(Some(ScanResult { jobs, next_run_at: self.store.scan_bounds.learn(rows)?, opens_at: None }))
    }
}

/// Converts the rows of a claim statement.
pub(crate) fn claimed_rows(store: &Core, rows: &[PgRow]) -> sqlx::Result<Vec<ClaimedRow>> {
    let (mut lanes, mut jobs) = (HashMap::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let Some(mut job) = claimed_row(row, rows::instant(row, 0)?)? else { continue };
        store.lanes.taken(job.lane, ScanPosition { run_at: job.run_at, job: Some(job.attempt.job) });
        let lane = lanes.entry(job.lane).or_insert_with(|| store.lanes.lane(job.lane));
        // A job that cannot be read here is read, and validated, from its own row later.
        job.job = new_job(row, &job, lane.as_ref()).ok().flatten();
        jobs.push(job);
    }
    Ok(jobs)
}

/// Converts a row of a claim, if it has a job.
pub(crate) fn claimed_row(row: &PgRow, started_at: Timestamp) -> sqlx::Result<Option<ClaimedRow>> {
    let Some(id) = row.try_get::<Option<Uuid>, _>(2)? else { return Ok(None) };
    Ok(Some(ClaimedRow {
        attempt: AttemptId { job: job_id(id), run: rows::number(row, 3)? },
        number: rows::number(row, 4)?,
        lane: row.try_get(5)?,
        run_at: rows::instant(row, 6)?,
        started_at,
        job: None,
    }))
}

/// The job of a row of a claim statement, if it was claimed for the first time and the row contains its payload.
fn new_job(row: &PgRow, claimed: &ClaimedRow, lane: Option<&Lane>) -> sqlx::Result<Option<Box<Job>>> {
    let (Some(payload), Some((queue, name, level, _))) = (row.try_get::<Option<String>, _>(17)?, lane) else {
        return Ok(None);
    };
    let created_at = rows::instant(row, 7)?;
    let spec = Spec {
        name: name.clone(),
        queue: queue.clone(),
        payload: Json::trusted(payload),
        priority: level.priority(),
        max_attempts: rows::number(row, 8)?,
        timeout: Duration::from_millis(row.try_get::<i64, _>(9)? as u64),
        user_id: row.try_get(12)?,
        correlation_id: row.try_get(13)?,
        unique_key: row.try_get(14)?,
        workflow_id: row.try_get::<Option<Uuid>, _>(15)?.map(|id| WorkflowId::from_bits(id.as_u128())),
        keep_for: row.try_get::<Option<i64>, _>(10)?.map(|keep| Duration::from_millis(keep as u64)),
        ephemeral: row.try_get(11)?,
        options: rows::document::<JobOptions>(row, 16)?.unwrap_or_default(),
    };
    Ok(Some(Box::new(NewJob::new(claimed.attempt.job, spec).into_job(created_at))))
}
