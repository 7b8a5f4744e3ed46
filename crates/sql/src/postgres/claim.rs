//! Jobs go out to workers.

use std::{collections::HashMap, time::Duration};

use punctual_core::{
    AttemptId, Claim, ClaimRequest, Claimed, Extras, Job, JobId, Json, NewJob, Settlement, Spec, Status, StoreError,
    Timestamp, Watch, WorkflowId, limits,
};
use sqlx::{Row, postgres::PgRow};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    Core, error, gates,
    lanes::{Lane, Place, SLACK, Served},
    outlook::{Look, POLL, POLL_WITHOUT_HINTS},
    queues::Known,
    read, rows, settle, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// Claims jobs, and waits for some if the request says so. A caller that goes meanwhile holds nothing: whatever was claimed for
/// it goes back.
pub(crate) async fn claim(store: &Core, request: ClaimRequest) -> Result<Claimed, StoreError> {
    let deadline = Instant::now() + request.wait.min(limits::WAIT_MAX);
    loop {
        let mut hints = store.hints.work.listen();
        let claimed = claim_now(store, &request).await?;
        if !claimed.claims.is_empty() || Instant::now() >= deadline {
            return Ok(claimed);
        }
        let poll = if store.options.transaction_pooler { POLL_WITHOUT_HINTS } else { POLL };
        let now = store.clock_now();
        let due = claimed.next_run_at.map(|next| request.look_again_at(now, next));
        let due = due.into_iter().chain(claimed.opens_at).min().map_or(poll, |at| at.since(now));
        let pause = poll.min(due).min(deadline - Instant::now());
        tokio::select! {
            () = hints.changed() => {}
            () = sleep(pause) => {}
        }
    }
}

/// One try, on a task of its own, which sees to the end of what it began.
async fn claim_now(store: &Core, request: &ClaimRequest) -> Result<Claimed, StoreError> {
    let (caller, answer) = oneshot::channel();
    let (own, request) = (store.clone(), request.clone());
    let task = async move {
        let claimed = try_claim(&own, &request).await;
        if let Err(Ok(untaken)) = caller.send(claimed) {
            let release = |claim: &Claim| Settlement::release(claim.attempt_id(), claim.worker);
            give_back(&own, untaken.claims.iter().map(release).collect()).await;
        }
    };
    tokio::spawn(task);
    answer.await.map_err(|_| StoreError::Closed)?
}

async fn try_claim(store: &Core, request: &ClaimRequest) -> Result<Claimed, StoreError> {
    let error = |error| store.sessions.error(error);
    let look = Look::begin(store);
    if store.hints.take_late() {
        store.lanes.forget_bounds();
        store.outlook.lock().due_bound = Timestamp::MIN;
    }
    if store.outlook.may_be_due(store.clock_now()) {
        promote_since(store, look.due_bound(store), limits::PROMOTE_MAX_JOBS).await?;
    }
    let taken = look_and_take(store, request, &look).await;
    drop(look);
    let mut taken = taken.map_err(error)?;
    let claims = match take_ahead(store, request, &mut taken).await {
        Ok(()) => read_claims(store, request, &mut taken.holds).await,
        Err(refused) => Err(error(refused)),
    };
    match claims {
        Ok(claims) => Ok(Claimed { claims, next_run_at: taken.next_run_at, opens_at: taken.opens_at }),
        // The worker will never hear of them.
        Err(error) => {
            let release = |hold: &Hold| Settlement::release(hold.attempt, request.worker);
            give_back(store, taken.holds.iter().map(release).collect()).await;
            Err(error)
        }
    }
}

/// Takes jobs; at first, if it is time for that, looks which lanes there are.
async fn look_and_take(store: &Core, request: &ClaimRequest, look: &Look<'_>) -> sqlx::Result<Taken> {
    if look.is_full() {
        let mut unit = store.sessions.single().await?;
        store.lanes.refresh(&mut unit).await?;
        unit.done().await?;
    }
    take(store, request, look).await
}

/// Gives back what was claimed for nobody.
async fn give_back(store: &Core, releases: Vec<Settlement>) {
    if releases.is_empty() {
        return;
    }
    if let Err(error) = settle::settle(store, releases).await {
        tracing::warn!(%error, "could not give back jobs that nobody waits for; their leases will run out");
    }
}

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
    lane: i32,
    run_at: Timestamp,
    started_at: Timestamp,
    /// What the job is apart from that, if the claim told.
    job: Option<Box<Job>>,
}

impl Hold {
    /// The job as its worker gets it.
    fn claim(&self, mut job: Box<Job>, request: &ClaimRequest) -> Claim {
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

/// Takes queued jobs, the first ones of the worker's lanes.
async fn take(store: &Core, request: &ClaimRequest, look: &Look<'_>) -> sqlx::Result<Taken> {
    loop {
        let queues = store.queues.known();
        let (plain, gated) = store.lanes.served(request, &queues);
        let taken = if gated.is_empty() {
            try_take(store, request, look, &queues, &plain).await?
        } else {
            gates::try_take(store, request, look, &queues, (&plain, &gated)).await?
        };
        match taken {
            Some(taken) => return Ok(taken),
            // Something was said of a queue that this process did not know.
            None => {
                let mut unit = store.sessions.single().await?;
                store.queues.refresh(&mut unit).await?;
                unit.done().await?;
            }
        }
    }
}

/// The same of lanes whose jobs pass no gate, if nothing was said of queues that is not known here.
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

/// Takes jobs that will be due within the instants that the request names, if it has room for more.
async fn take_ahead(store: &Core, request: &ClaimRequest, taken: &mut Taken) -> sqlx::Result<()> {
    let room = request.limit - taken.holds.len();
    let soon = store.clock_now().after(request.ahead);
    if room == 0 || request.ahead.is_zero() || taken.next_run_at.is_none_or(|next| next > soon) {
        return Ok(());
    }
    let queues = store.queues.known();
    // Gates count starts as they happen, so that what has to pass one is left alone.
    let (lanes, _) = store.lanes.served(request, &queues);
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::CLAIM_AHEAD)
        .bind(store.sessions.clock())
        .bind(lanes.iter().map(|lane| lane.number).collect::<Vec<_>>())
        .bind(request.ahead.as_micros() as i64)
        .bind(room as i64)
        .bind(Uuid::from_u128(request.worker.to_bits()))
        .bind(request.lease.as_micros() as i64)
        .bind(queues.revision)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    let mut holds = Vec::with_capacity(rows.len());
    for row in &rows {
        holds.extend(hold(row, rows::optional_instant(row, 6)?.unwrap_or(Timestamp::MIN))?);
    }
    holds.sort_unstable_by_key(|hold| (hold.run_at, hold.attempt.job));
    taken.holds.extend(holds);
    taken.next_run_at = store.outlook.learn(&rows)?;
    Ok(())
}

/// A row of a claim, if it has a job.
fn hold(row: &PgRow, started_at: Timestamp) -> sqlx::Result<Option<Hold>> {
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

/// The claims of what was taken; reads the jobs that the claim did not tell of.
async fn read_claims(store: &Core, request: &ClaimRequest, holds: &mut [Hold]) -> Result<Vec<Claim>, StoreError> {
    let ids: Vec<JobId> = holds.iter().filter(|hold| hold.job.is_none()).map(|hold| hold.attempt.job).collect();
    let mut jobs = HashMap::with_capacity(ids.len());
    for (table, ids) in store.days.by_table(ids, |id| *id) {
        let rows = match read_table(store, &table, &ids).await {
            // The day has gone, and what was left of it lies elsewhere.
            Err(gone) if error::partition_gone(&gone) => read_table(store, "punctual_jobs", &ids).await,
            rows => rows,
        };
        for row in rows.map_err(|error| store.sessions.error(error))? {
            let job = rows::job(&row).map_err(|error| store.sessions.error(error))?;
            jobs.insert(job.id, Box::new(job));
        }
    }
    let claim = |hold: &mut Hold| {
        let job = hold.job.take().or_else(|| jobs.remove(&hold.attempt.job))?;
        Some(hold.claim(job, request))
    };
    Ok(holds.iter_mut().filter_map(claim).collect())
}

async fn read_table(store: &Core, table: &str, ids: &[JobId]) -> sqlx::Result<Vec<PgRow>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(sql::of_table(*sql::CLAIM_READ, table))
        .bind(ids.iter().map(|id| uuid(*id)).collect::<Vec<_>>())
        .bind(ids.iter().map(|id| At(id.timestamp())).collect::<Vec<_>>())
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    Ok(rows)
}

/// Makes due scheduled and retrying jobs queued; says how many.
pub(crate) async fn promote(store: &Core, limit: usize) -> Result<usize, StoreError> {
    promote_since(store, Timestamp::MIN, limit).await
}

async fn promote_since(store: &Core, bound: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let error = |error| store.sessions.error(error);
    let now = store.clock_now();
    let mut unit = store.sessions.single().await.map_err(error)?;
    let rows = sqlx::query(*sql::PROMOTE)
        .bind(store.sessions.clock())
        .bind(At(bound))
        .bind(limit as i64)
        .fetch_all(&mut *unit)
        .await
        .map_err(error)?;
    unit.done().await.map_err(error)?;
    let mut promoted = 0;
    for row in &rows {
        let read = || -> sqlx::Result<_> { Ok((row.try_get(0)?, rows::instant(row, 1)?, row.try_get::<i64, _>(2)?)) };
        let (lane, run_at, count) = read().map_err(error)?;
        store.lanes.put(lane, run_at);
        promoted += count as usize;
    }
    if promoted < limit {
        store.outlook.promoted(now);
    }
    if promoted > 0 {
        store.hints.tell_work();
    }
    Ok(promoted)
}

/// Claims whose lease has run out.
pub(crate) async fn expired(store: &Core, limit: usize) -> sqlx::Result<Vec<Claim>> {
    let (now, full) = (store.clock_now(), store.outlook.lease_looks.begin());
    let bound = if full.is_some() { Timestamp::MIN } else { store.outlook.lock().lease_bound };
    let mut unit = store.sessions.single().await?;
    let ids: Vec<Uuid> = sqlx::query_scalar(*sql::EXPIRED)
        .bind(store.sessions.clock())
        .bind(limit as i64)
        .bind(At(bound))
        .fetch_all(&mut *unit)
        .await?;
    drop(full);
    // What was found now and is still held then is found again.
    store.outlook.lock().lease_bound = if ids.is_empty() { now.before(SLACK) } else { bound };
    let ids: Vec<JobId> = ids.into_iter().map(job_id).collect();
    unit.done().await?;
    let jobs = read::get_many(store, &ids).await?;
    let claims = ids.iter().filter_map(|id| jobs.get(id).cloned());
    Ok(claims.filter_map(|job| Some(Claim { worker: job.worker_id?, job: Box::new(job) })).collect())
}
