//! Claims: give queued jobs to workers, each with a lease.
//!
//! | question | file |
//! |---|---|
//! | when does a scheduled job become queued? | `promote` |
//! | which lanes are there, and which does a worker serve? | `lanes`; those of jobs whose worker was lost: `suspects` |
//! | where in a lane does a claim begin to read? | `scan_bounds` |
//! | which rows does it take? | `take`; those that a dispatcher names: `ready_keys` |

pub(super) mod lanes;
pub(super) mod promote;
pub(super) mod ready_keys;
pub(super) mod scan_bounds;
pub(super) mod suspects;
pub(super) mod take;

use std::collections::HashMap;

use punctual_core::{
    Claim, ClaimRequest, Claimed, JobId, Offer, Settlement, StoreError, Timestamp, Watch, dispatch::Hint, limits,
};
use sqlx::{Row, postgres::PgRow};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, sleep},
};

use self::{
    scan_bounds::{POLL, POLL_WITHOUT_HINTS, ScanMode},
    take::{ClaimScan, ClaimedRow, Plain, ScanResult},
};
use super::{
    core::Core,
    error, queue_limits, queues, rows,
    session::Patience,
    settle, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// Claims jobs, and waits for some if the request says so. If the caller is dropped meanwhile, the jobs that were
/// claimed for it are released.
pub(crate) async fn claim(store: &Core, request: ClaimRequest) -> Result<Claimed, StoreError> {
    let deadline = Instant::now() + request.wait.min(limits::WAIT_MAX);
    let mut claim_wakes = store.hints.claim_wakes.listen();
    loop {
        let mut hints = store.hints.work.listen();
        let claimed = claim_now(store, &request, Source::Lanes).await?;
        if !claimed.claims.is_empty() || Instant::now() >= deadline {
            return Ok(claimed);
        }
        let poll = if store.options.transaction_pooler { POLL_WITHOUT_HINTS } else { POLL };
        let now = store.clock_now();
        let due = claimed.next_run_at.map(|next| request.claim_again_at(now, next));
        let due = due.into_iter().chain(claimed.opens_at).min().map_or(poll, |at| at.since(now));
        let pause = poll.min(due).min(deadline - Instant::now());
        tokio::select! {
            () = hints.changed() => {}
            () = sleep(pause) => {}
            () = claim_wakes.changed() => return Ok(claimed),
        }
    }
}

/// Where a claim looks for jobs without limits.
pub(crate) enum Source {
    /// In the lanes that the worker serves, unless a dispatcher serves them.
    Lanes,
    /// Only the jobs that a dispatcher names.
    Hints(Vec<Hint>),
}

/// One try, on a task of its own, so that it completes even if the caller is dropped.
pub(crate) async fn claim_now(store: &Core, request: &ClaimRequest, source: Source) -> Result<Claimed, StoreError> {
    let (caller, answer) = oneshot::channel();
    let (own, request) = (store.clone(), request.clone());
    let task = async move {
        let claimed = try_claim(&own, &request, &source).await;
        let runtime = Handle::current();
        let release_all = move |unreceived: Result<Claimed, StoreError>| {
            let release = |claim: &Claim| Settlement::release(claim.attempt_id(), claim.worker);
            let releases = unreceived.iter().flat_map(|claimed| &claimed.claims).map(release).collect();
            runtime.spawn(async move { settle_unreceived(&own, releases).await });
        };
        // The caller may be dropped before the answer is sent, or after; then `release_all` releases the claims.
        drop(caller.send(Offer::new(claimed, release_all)));
    };
    tokio::spawn(task);
    answer.await.ok().and_then(Offer::take).ok_or(StoreError::Closed)?
}

async fn try_claim(store: &Core, request: &ClaimRequest, source: &Source) -> Result<Claimed, StoreError> {
    let error = |error| store.sessions.error(error);
    let mode = ScanMode::begin(&store.scan_bounds);
    promote::reset_if_late(store);
    let take = async {
        if store.scan_bounds.may_be_due(store.clock_now()) {
            promote::promote_since(store, mode.due_bound(&store.scan_bounds), limits::PROMOTE_MAX_JOBS).await?;
        }
        refresh_and_take(store, request, source, &mode).await.map_err(error)
    };
    let claimed = store.sessions.within(Patience::Short, take).await;
    drop(mode);
    let mut claimed = claimed?;
    let read = async {
        take_ahead(store, request, source, &mut claimed).await.map_err(error)?;
        read_claims(store, request, &mut claimed.jobs).await
    };
    match store.sessions.within(Patience::Short, read).await {
        Ok((claims, corrupt)) => {
            settle_unreceived(store, corrupt).await;
            Ok(Claimed { claims, next_run_at: claimed.next_run_at, opens_at: claimed.opens_at })
        }
        // The worker will not receive these claims.
        Err(error) => {
            let release = |job: &ClaimedRow| Settlement::release(job.attempt, request.worker);
            settle_unreceived(store, claimed.jobs.iter().map(release).collect()).await;
            Err(error)
        }
    }
}

/// Takes jobs; refreshes the list of lanes first if this is a full scan.
async fn refresh_and_take(
    store: &Core,
    request: &ClaimRequest,
    source: &Source,
    mode: &ScanMode<'_>,
) -> sqlx::Result<ScanResult> {
    if mode.is_full() {
        let mut unit = store.sessions.single().await?;
        store.lanes.refresh(&mut unit).await?;
        unit.done().await?;
    }
    take(store, request, source, mode).await
}

/// Settles claims that no worker received.
pub(crate) async fn settle_unreceived(store: &Core, releases: Vec<Settlement>) {
    if releases.is_empty() {
        return;
    }
    if let Err(error) = settle::settle(store, releases).await {
        tracing::warn!(%error, "could not release jobs that no worker received; their leases will expire");
    }
}

/// Takes queued jobs, the first ones of the worker's lanes.
async fn take(store: &Core, request: &ClaimRequest, source: &Source, mode: &ScanMode<'_>) -> sqlx::Result<ScanResult> {
    loop {
        let queues = store.queues.known();
        let (lanes, limited) = store.lanes.served(request, &queues);
        let plain = match source {
            Source::Hints(hints) => Plain::Keys(ready_keys::of_hints(store, hints, &lanes)),
            Source::Lanes if dispatches(store, request, &queues).await? => Plain::Lanes(Vec::new()),
            Source::Lanes => Plain::Lanes(lanes),
        };
        let scan = ClaimScan { store, request, mode, queues: &queues };
        let claimed = if limited.is_empty() {
            scan.take(&plain).await?
        } else {
            queue_limits::take(&scan, &plain, &limited).await?
        };
        match claimed {
            Some(claimed) => return Ok(claimed),
            // The settings of a queue have changed since this process read them.
            None => {
                let mut unit = store.sessions.single().await?;
                store.queues.refresh(&mut unit).await?;
                unit.done().await?;
            }
        }
    }
}

/// Whether the jobs that a claim requests are handed out by a dispatcher. Suspects never are.
async fn dispatches(store: &Core, request: &ClaimRequest, queues: &queues::QueueSnapshot) -> sqlx::Result<bool> {
    Ok(!request.suspects && queues::is_closed(&store.sessions, queues).await?)
}

/// Takes jobs that become due within the period that the request allows, if it has room for more.
async fn take_ahead(
    store: &Core,
    request: &ClaimRequest,
    source: &Source,
    claimed: &mut ScanResult,
) -> sqlx::Result<()> {
    let room = request.limit - claimed.jobs.len();
    let soon = store.clock_now().after(request.ahead);
    if room == 0 || request.ahead.is_zero() || claimed.next_run_at.is_none_or(|next| next > soon) {
        return Ok(());
    }
    let queues = store.queues.known();
    if matches!(source, Source::Lanes) && dispatches(store, request, &queues).await? {
        return Ok(());
    }
    // Limits count starts when they happen, so limited jobs are not claimed ahead.
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
    let mut jobs = Vec::with_capacity(rows.len());
    for row in &rows {
        jobs.extend(take::claimed_row(row, rows::optional_instant(row, 6)?.unwrap_or(Timestamp::MIN))?);
    }
    jobs.sort_unstable_by_key(|job| (job.run_at, job.attempt.job));
    claimed.jobs.extend(jobs);
    claimed.next_run_at = store.scan_bounds.learn(&rows)?;
    Ok(())
}

/// Builds the claims of the jobs taken; reads the jobs that the claim statement did not return. Jobs whose rows are
/// corrupt are to be ended: no worker can receive them, and they would block all other jobs.
async fn read_claims(
    store: &Core,
    request: &ClaimRequest,
    claimed: &mut [ClaimedRow],
) -> Result<(Vec<Claim>, Vec<Settlement>), StoreError> {
    let ids: Vec<JobId> = claimed.iter().filter(|one| one.job.is_none()).map(|one| one.attempt.job).collect();
    let mut jobs = HashMap::with_capacity(ids.len());
    for (table, ids) in store.days.by_table(ids, |id| *id) {
        let rows = match read_table(store, &table, &ids).await {
            // The partition was removed, and its remaining rows are in another one.
            Err(gone) if error::is_partition_gone(&gone) => read_table(store, "punctual_jobs", &ids).await,
            rows => rows,
        };
        for row in rows.map_err(|error| store.sessions.error(error))? {
            let id = row.try_get(0).map(job_id).map_err(|error| store.sessions.error(error))?;
            jobs.insert(id, rows::job(&row).map(Box::new));
        }
    }
    let (mut claims, mut corrupt) = (Vec::with_capacity(claimed.len()), Vec::new());
    for one in claimed {
        match one.job.take().map(Ok).or_else(|| jobs.remove(&one.attempt.job)) {
            Some(Ok(job)) => claims.push(one.claim(job, request)),
            Some(Err(error)) => {
                let error = store.sessions.error(error);
                tracing::error!(job = %one.attempt.job, %error, "a job whose row is corrupt is set aside as dead");
                corrupt.push(Settlement::corrupt(one.attempt, request.worker, &error));
            }
            None => {}
        }
    }
    Ok((claims, corrupt))
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
