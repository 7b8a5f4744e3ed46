//! Queued jobs pass into a worker's hands.

use std::{collections::HashMap, time::Duration};

use punctual_core::{
    AttemptId, Claim, ClaimRequest, Extras, Job, JobId, Json, NewJob, Spec, Status, Timestamp, WorkflowId,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    Core,
    lanes::{Lane, Place, Served},
    outlook::Look,
    queues::Known,
    rows, statements as sql,
    value::{At, Uuid, job_id},
};

/// What a claim took.
pub(crate) struct Taken {
    pub(crate) holds: Vec<Hold>,
    pub(crate) next_run_at: Option<Timestamp>,
    pub(crate) opens_at: Option<Timestamp>,
}

/// A job that a claim took, and what the claim changed of it.
pub(crate) struct Hold {
    pub(crate) attempt: AttemptId,
    number: u32,
    pub(crate) lane: i32,
    pub(crate) run_at: Timestamp,
    started_at: Timestamp,
    /// What the job is apart from that, if the claim told.
    pub(crate) job: Option<Box<Job>>,
}

impl Hold {
    /// The job as its worker gets it.
    pub(crate) fn claim(&self, mut job: Box<Job>, request: &ClaimRequest) -> Claim {
        job.status = Status::Processing;
        job.attempt = self.number;
        job.run = self.attempt.run;
        job.worker_id = Some(request.worker);
        job.lease_until = Some(self.started_at.after(request.lease));
        job.started_at = Some(self.started_at);
        job.updated_at = self.started_at;
        Claim { job, worker: request.worker }
    }
}

/// Takes queued jobs, the first ones of lanes whose jobs pass no gate, if nothing was said of queues that is not known here.
pub(crate) async fn try_take(
    store: &Core,
    request: &ClaimRequest,
    look: &Look<'_>,
    queues: &Known,
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
    if rows.first().map(|row| row.try_get::<i64, _>(18)).transpose()?.is_some_and(|now| now != queues.revision) {
        return Ok(None);
    }
    let mut holds = holds(store, &rows)?;
    let ranks: HashMap<i32, i32> = lanes.iter().map(|lane| (lane.number, lane.rank)).collect();
    holds.sort_by_cached_key(|hold| (ranks.get(&hold.lane), hold.run_at, hold.attempt.job));
    Ok(Some(Taken { holds, next_run_at: store.outlook.learn(&rows)?, opens_at: None }))
}

/// What the rows of claim.sql tell.
pub(crate) fn holds(store: &Core, rows: &[PgRow]) -> sqlx::Result<Vec<Hold>> {
    let (mut lanes, mut holds) = (HashMap::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let Some(mut hold) = hold(row, rows::instant(row, 0)?)? else { continue };
        store.lanes.taken(hold.lane, Place { run_at: hold.run_at, job: Some(hold.attempt.job) });
        let lane = lanes.entry(hold.lane).or_insert_with(|| store.lanes.lane(hold.lane));
        hold.job = new_job(row, &hold, lane.as_ref())?;
        holds.push(hold);
    }
    Ok(holds)
}

/// A row of a claim, if it has a job.
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

/// The job of a row of claim.sql, if it was claimed for the first time and is all there.
fn new_job(row: &PgRow, hold: &Hold, lane: Option<&Lane>) -> sqlx::Result<Option<Box<Job>>> {
    let (Some(payload), Some((queue, name, priority, _))) = (row.try_get::<Option<String>, _>(17)?, lane) else {
        return Ok(None);
    };
    let created_at = rows::instant(row, 7)?;
    let spec = Spec {
        name: name.clone(),
        queue: queue.clone(),
        payload: Json::trusted(payload),
        priority: *priority,
        max_attempts: rows::number(row, 8)?,
        timeout: Duration::from_millis(row.try_get::<i64, _>(9)? as u64),
        user_id: row.try_get(12)?,
        correlation_id: row.try_get(13)?,
        unique_key: row.try_get(14)?,
        workflow_id: row.try_get::<Option<Uuid>, _>(15)?.map(|id| WorkflowId::from_bits(id.as_u128())),
        keep_for: row.try_get::<Option<i64>, _>(10)?.map(|keep| Duration::from_millis(keep as u64)),
        ephemeral: row.try_get(11)?,
        extras: rows::document::<Extras>(row, 16)?.unwrap_or_default(),
    };
    Ok(Some(Box::new(NewJob::new(hold.attempt.job, spec).into_job(created_at))))
}
