//! Takes queued jobs for a worker.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use punctual_core::{
    AttemptId, Claim, ClaimRequest, Job, JobId, JobOptions, Json, NewJob, Spec, Timestamp, WorkflowId,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    core::Core,
    lanes::{Lane, ScanPosition, Served},
    queues::QueueSnapshot,
    rows,
    scan_bounds::ScanMode,
    statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// The result of a claim statement.
pub(crate) struct Taken {
    pub(crate) holds: Vec<Hold>,
    pub(crate) next_run_at: Option<Timestamp>,
    pub(crate) opens_at: Option<Timestamp>,
}

/// A job that a claim took, and the columns that the claim changed.
pub(crate) struct Hold {
    pub(crate) attempt: AttemptId,
    number: u32,
    pub(crate) lane: i32,
    pub(crate) run_at: Timestamp,
    started_at: Timestamp,
    /// The job's other attributes, if the claim returned them.
    pub(crate) job: Option<Box<Job>>,
}

impl Hold {
    /// The job as its worker receives it.
    pub(crate) fn claim(&self, mut job: Box<Job>, request: &ClaimRequest) -> Claim {
        job.begin(self.attempt.run, self.number, request.worker, self.started_at, request.lease);
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
    /// At positions known from hints, in lanes that the worker serves.
    Spots(Vec<(Served, ReadyKey)>),
}

impl Plain {
    /// The positions without those of the `taken` jobs; `None` if single positions are not known.
    pub(crate) fn without(&self, taken: &[Hold]) -> Option<Self> {
        let Self::Spots(spots) = self else { return None };
        let taken: HashSet<JobId> = taken.iter().map(|hold| hold.attempt.job).collect();
        Some(Self::Spots(spots.iter().filter(|(_, spot)| !taken.contains(&spot.id)).copied().collect()))
    }
}

/// Takes the first queued jobs without limits; `None` if queue settings have changed since they were read.
pub(crate) async fn try_take(
    store: &Core,
    request: &ClaimRequest,
    look: &ScanMode<'_>,
    queues: &QueueSnapshot,
    plain: &Plain,
) -> sqlx::Result<Option<Taken>> {
    match plain {
        Plain::Lanes(lanes) => try_take_of_lanes(store, request, look, queues, lanes).await,
        Plain::Spots(spots) => try_take_of_spots(store, request, look, queues, spots).await,
    }
}

async fn try_take_of_spots(
    store: &Core,
    request: &ClaimRequest,
    look: &ScanMode<'_>,
    queues: &QueueSnapshot,
    spots: &[(Served, ReadyKey)],
) -> sqlx::Result<Option<Taken>> {
    let mut ordered: Vec<&(Served, ReadyKey)> = spots.iter().collect();
    ordered.sort_unstable_by_key(|(lane, spot)| (lane.rank, spot.run_at, spot.id));
    let spots: Vec<ReadyKey> = ordered.iter().take(request.limit).map(|(_, spot)| *spot).collect();
    let mut unit = store.sessions.single().await?;
    let claim = ChosenClaim { store, request, look, revision: queues.revision, limited: Vec::new() };
    let rows = claim.take(&mut unit, &spots, store.sessions.clock()).await?;
    unit.done().await?;
    claimed_in_order(store, &rows, queues, ordered.into_iter().map(|(lane, _)| lane))
}

/// A claim of jobs that were chosen before.
pub(crate) struct ChosenClaim<'a> {
    pub(crate) store: &'a Core,
    pub(crate) request: &'a ClaimRequest,
    pub(crate) look: &'a ScanMode<'a>,
    pub(crate) revision: i64,
    /// The lanes whose queues are limited.
    pub(crate) limited: Vec<i32>,
}

impl ChosenClaim<'_> {
    pub(crate) async fn take(
        self,
        connection: &mut PgConnection,
        spots: &[ReadyKey],
        now: Option<At>,
    ) -> sqlx::Result<Vec<PgRow>> {
        sqlx::query(*sql::CLAIM_CHOSEN)
            .bind(now)
            .bind(spots.iter().map(|spot| spot.lane).collect::<Vec<_>>())
            .bind(spots.iter().map(|spot| At(spot.run_at)).collect::<Vec<_>>())
            .bind(spots.iter().map(|spot| uuid(spot.id)).collect::<Vec<_>>())
            .bind(self.request.limit as i64)
            .bind(Uuid::from_u128(self.request.worker.to_bits()))
            .bind(self.request.lease.as_micros() as i64)
            .bind(At(self.look.due_bound(self.store)))
            .bind(self.revision)
            .bind(self.limited)
            .fetch_all(connection)
            .await
    }
}

async fn try_take_of_lanes(
    store: &Core,
    request: &ClaimRequest,
    look: &ScanMode<'_>,
    queues: &QueueSnapshot,
    lanes: &[Served],
) -> sqlx::Result<Option<Taken>> {
    let due_bound = look.due_bound(store);
    let several = lanes.len() > 1;
    let bounds = || lanes.iter().map(|lane| look.lane_bound(lane.bound));
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
    claimed_in_order(store, &rows, queues, lanes)
}

/// Converts the rows of a claim, sorted in claim order; `None` if queue settings have changed since they were read.
fn claimed_in_order<'a>(
    store: &Core,
    rows: &[PgRow],
    queues: &QueueSnapshot,
    lanes: impl IntoIterator<Item = &'a Served>,
) -> sqlx::Result<Option<Taken>> {
    if rows.first().map(|row| row.try_get::<i64, _>(18)).transpose()?.is_some_and(|now| now != queues.revision) {
        return Ok(None);
    }
    let mut holds = holds(store, rows)?;
    let ranks: HashMap<i32, i32> = lanes.into_iter().map(|lane| (lane.number, lane.rank)).collect();
    holds.sort_by_cached_key(|hold| (ranks.get(&hold.lane), hold.run_at, hold.attempt.job));
    Ok(Some(Taken { holds, next_run_at: store.outlook.learn(rows)?, opens_at: None }))
}

/// Converts the rows of a claim statement.
pub(crate) fn holds(store: &Core, rows: &[PgRow]) -> sqlx::Result<Vec<Hold>> {
    let (mut lanes, mut holds) = (HashMap::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let Some(mut hold) = hold(row, rows::instant(row, 0)?)? else { continue };
        store.lanes.taken(hold.lane, ScanPosition { run_at: hold.run_at, job: Some(hold.attempt.job) });
        let lane = lanes.entry(hold.lane).or_insert_with(|| store.lanes.lane(hold.lane));
        // A job that cannot be read here is read, and validated, from its own row later.
        hold.job = new_job(row, &hold, lane.as_ref()).ok().flatten();
        holds.push(hold);
    }
    Ok(holds)
}

/// Converts a row of a claim, if it has a job.
pub(crate) fn hold(row: &PgRow, started_at: Timestamp) -> sqlx::Result<Option<Hold>> {
    let Some(id) = row.try_get::<Option<Uuid>, _>(2)? else { return Ok(None) };
    Ok(Some(Hold {
        attempt: AttemptId { job: job_id(id), run: rows::number(row, 3)? },
        number: rows::number(row, 4)?,
        lane: row.try_get(5)?,
        run_at: rows::instant(row, 6)?,
        started_at,
        job: None,
    }))
}

/// The job of a row of a claim statement, if it was claimed for the first time and the row contains its payload.
fn new_job(row: &PgRow, hold: &Hold, lane: Option<&Lane>) -> sqlx::Result<Option<Box<Job>>> {
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
    Ok(Some(Box::new(NewJob::new(hold.attempt.job, spec).into_job(created_at))))
}
