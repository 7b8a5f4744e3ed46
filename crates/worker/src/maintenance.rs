//! Upkeep that every worker does for all: puts back what vanished workers held, and retention once an hour.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use punctual_client::admin::{self, Retention};
use punctual_core::{AttemptId, Claim, Outcome, Settled, Settlement, Store, StoreResult, Timestamp, WorkerId, settle};
use tokio::time;
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// How often expired leases are looked for.
const REAP_PERIOD: Duration = Duration::from_secs(1);
/// Expired leases that one look takes.
const REAP_MAX_JOBS: usize = 500;
/// How often retention runs.
const RETENTION_PERIOD: Duration = Duration::from_secs(3_600);
/// The lock under which one worker of all does it.
const RETENTION_LOCK: &str = "punctual.retention";

/// Puts back what vanished workers held, and lets the store look after itself, until `done`.
pub(crate) async fn reap_on(shared: Arc<Shared>, mut restart: Restart, done: CancellationToken) {
    let mut seen = Seen::default();
    while done.run_until_cancelled(time::sleep(REAP_PERIOD)).await.is_some() {
        match seen.reap(&**shared.store()).await {
            Ok(0) => {}
            Ok(jobs) => {
                shared.counters.reaped.fetch_add(jobs as u64, Ordering::Relaxed);
                tracing::warn!(worker = %shared.id, jobs, "returned the jobs of lost workers to the queue");
            }
            Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot look for expired leases"),
        }
        if let Err(error) = restart.look(&shared).await {
            tracing::warn!(worker = %shared.id, %error, "cannot drop ephemeral jobs of a former run");
        }
        if let Err(error) = shared.store().maintain().await {
            tracing::warn!(worker = %shared.id, %error, "the store's own upkeep broke off; it will be tried again");
        }
    }
}

/// Runs retention once an hour, until `done`.
pub(crate) async fn retain_on(shared: Arc<Shared>, retention: Retention, done: CancellationToken) {
    let hourly = async {
        loop {
            retain(&shared, retention).await;
            time::sleep(RETENTION_PERIOD).await;
        }
    };
    let _ = done.run_until_cancelled(hourly).await;
}

/// Leases that had run out when they were seen, each with the time since when its renewal could have been stored.
#[derive(Debug, Default)]
struct Seen(HashMap<(AttemptId, Option<Timestamp>), Instant>);

impl Seen {
    /// Settles claims whose lease has run out as lost; says how many. What [`EngineStore::renewal_grace`] leaves alone
    /// is taken later.
    async fn reap(&mut self, store: &dyn Store) -> StoreResult<usize> {
        let (expired, grace) = (store.expired(REAP_MAX_JOBS).await?, store.renewal_grace());
        let lease = |claim: &Claim| (claim.attempt_id(), claim.job.lease_until);
        let leases: HashSet<_> = expired.iter().map(lease).collect();
        self.0.retain(|lease, _| leases.contains(lease));
        let is_over = |claim: &Claim| self.0.get(&lease(claim)).is_some_and(|since| since.elapsed() >= grace);
        let over: Vec<Claim> = expired.into_iter().filter(|claim| grace.is_zero() || is_over(claim)).collect();
        if !grace.is_zero() && leases.len() > self.0.len() {
            // A write that works shows that renewals that wait will be stored as well.
            store.probe().await?;
            let since = Instant::now();
            for lease in leases {
                self.0.entry(lease).or_insert(since);
            }
        }
        lose(store, &over, None).await
    }
}

/// Settles claims whose lease has run out as lost; says how many.
pub(crate) async fn reap(store: &dyn Store) -> StoreResult<usize> {
    let expired = store.expired(REAP_MAX_JOBS).await?;
    lose(store, &expired, None).await
}

/// Settles all claims of a worker that is known to be dead as lost, with the evidence of how it ended; says how many.
pub(crate) async fn reap_dead(store: &dyn Store, worker: WorkerId, evidence: &str) -> StoreResult<usize> {
    let mut reaped = 0;
    loop {
        let claims = store.claims_of_dead(worker, REAP_MAX_JOBS).await?;
        let lost = lose(store, &claims, Some(evidence)).await?;
        reaped += lost;
        // Where nothing was lost, others were faster.
        if lost == 0 || claims.len() < REAP_MAX_JOBS {
            return Ok(reaped);
        }
    }
}

/// Settles claims as lost, through the same decision as any other end; says how many were. With evidence that their
/// worker is dead, their leases need not have run out.
async fn lose(store: &dyn Store, claims: &[Claim], evidence: Option<&str>) -> StoreResult<usize> {
    if claims.is_empty() {
        return Ok(0);
    }
    let lost = |claim| {
        let outcome = Outcome::Lost { evidence: evidence.map(ToOwned::to_owned) };
        Settlement { only_if_expired: evidence.is_none(), ..settle(claim, outcome, fastrand::f64()) }
    };
    let settled = store.settle(claims.iter().map(lost).collect()).await?;
    Ok(settled.into_iter().filter(|settled| *settled == Settled::Done).count())
}

/// Runs retention if no other worker has within the hour.
async fn retain(shared: &Shared, retention: Retention) {
    let owner = shared.id.to_string();
    // The lock is not given back: it also says that it was done.
    match shared.store().lock(RETENTION_LOCK.into(), owner, RETENTION_PERIOD - Duration::from_secs(60)).await {
        Ok(Some(_)) => {}
        Ok(None) => return,
        Err(error) => return tracing::warn!(worker = %shared.id, %error, "cannot take the lock for retention"),
    }
    match shared.punctual.admin("retention").cleanup(retention, |_| ()).await {
        Ok(done) => {
            tracing::info!(deleted = done.deleted, purged = done.purged, trimmed = done.trimmed, "retention ran")
        }
        Err(error) => tracing::warn!(worker = %shared.id, %error, "retention broke off"),
    }
}

/// Whether this worker is the first to come back after all were gone, in which case ephemeral jobs are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// A worker that was there before may have died, or may only be silent so far.
    Unclear,
    /// It is known, and what had to be dropped is gone.
    Clear,
}

impl Restart {
    /// Looks whether it is clear by now.
    pub(crate) async fn look(&mut self, shared: &Shared) -> StoreResult<()> {
        if *self == Self::Clear {
            return Ok(());
        }
        let (workers, now) = (shared.store().workers().await?, shared.store().now());
        let Some(own) = workers.iter().find(|worker| worker.beat.id == shared.id) else { return Ok(()) };
        let since = (own.started_at, own.beat.id);
        let mut former = workers.iter().filter(|worker| (worker.started_at, worker.beat.id) < since);
        if former.clone().any(|worker| worker.seen_at > own.started_at) {
            // It has outlived our start: this was no restart.
            *self = Self::Clear;
        } else if !former.any(|worker| admin::is_live(worker, now)) {
            drop_ephemeral(shared, own.started_at).await?;
            *self = Self::Clear;
        }
        Ok(())
    }
}

/// Drops ephemeral jobs from before that instant.
async fn drop_ephemeral(shared: &Shared, before: Timestamp) -> StoreResult<()> {
    const BATCH_MAX_JOBS: usize = 500;
    let mut dropped = 0;
    loop {
        match shared.store().drop_ephemeral(before, BATCH_MAX_JOBS).await? {
            0 => break,
            jobs => dropped += jobs,
        }
    }
    if dropped > 0 {
        tracing::info!(jobs = dropped, "dropped ephemeral jobs of a former run");
    }
    Ok(())
}
