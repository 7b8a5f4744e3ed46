//! Maintenance by every worker: requeues the jobs of lost workers every second, and runs retention every hour.

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

/// Interval of the search for expired leases.
const REAP_PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of expired leases per search.
const REAP_MAX_JOBS: usize = 500;
/// Interval of retention.
const RETENTION_PERIOD: Duration = Duration::from_secs(3_600);
/// The lock under which one of all workers runs retention.
const RETENTION_LOCK: &str = "punctual.retention";

/// Requeues the jobs of lost workers, and runs the maintenance of the store, until `done`.
pub(crate) async fn reap_on(shared: Arc<Shared>, mut restart: Restart, done: CancellationToken) {
    let mut expired_leases = ExpiredLeases::default();
    while done.run_until_cancelled(time::sleep(REAP_PERIOD)).await.is_some() {
        match expired_leases.reap(&**shared.store()).await {
            Ok(0) => {}
            Ok(jobs) => {
                shared.counters.reaped.fetch_add(jobs as u64, Ordering::Relaxed);
                tracing::warn!(worker = %shared.id, jobs, "requeued the jobs of lost workers");
            }
            Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot search for expired leases"),
        }
        if let Err(error) = restart.check(&shared).await {
            tracing::warn!(worker = %shared.id, %error, "cannot remove ephemeral jobs of an earlier run");
        }
        if let Err(error) = shared.store().maintain().await {
            tracing::warn!(worker = %shared.id, %error, "store maintenance failed; retrying");
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

/// Leases that were found expired, each with the time since which its renewal could have been stored.
#[derive(Debug, Default)]
struct ExpiredLeases(HashMap<(AttemptId, Option<Timestamp>), Instant>);

impl ExpiredLeases {
    /// Settles claims with expired leases as lost; returns their number. Leases within [`EngineStore::renewal_grace`]
    /// are left for later.
    async fn reap(&mut self, store: &dyn Store) -> StoreResult<usize> {
        let (expired, grace) = (store.expired(REAP_MAX_JOBS).await?, store.renewal_grace());
        let lease = |claim: &Claim| (claim.attempt_id(), claim.job.lease_until);
        let leases: HashSet<_> = expired.iter().map(lease).collect();
        self.0.retain(|lease, _| leases.contains(lease));
        let is_over = |claim: &Claim| self.0.get(&lease(claim)).is_some_and(|since| since.elapsed() >= grace);
        let over: Vec<Claim> = expired.into_iter().filter(|claim| grace.is_zero() || is_over(claim)).collect();
        if !grace.is_zero() && leases.len() > self.0.len() {
            // A successful write shows that waiting renewals can be stored as well.
            store.probe().await?;
            let since = Instant::now();
            for lease in leases {
                self.0.entry(lease).or_insert(since);
            }
        }
        lose(store, &over, None).await
    }
}

/// Settles claims with expired leases as lost; returns their number.
pub(crate) async fn reap(store: &dyn Store) -> StoreResult<usize> {
    let expired = store.expired(REAP_MAX_JOBS).await?;
    lose(store, &expired, None).await
}

/// Settles all claims of a dead worker as lost, with the evidence of how it ended; returns their number.
pub(crate) async fn reap_dead(store: &dyn Store, worker: WorkerId, evidence: &str) -> StoreResult<usize> {
    let mut reaped = 0;
    loop {
        let claims = store.claims_of_dead(worker, REAP_MAX_JOBS).await?;
        let lost = lose(store, &claims, Some(evidence)).await?;
        reaped += lost;
        // If none was settled, other workers were faster.
        if lost == 0 || claims.len() < REAP_MAX_JOBS {
            return Ok(reaped);
        }
    }
}

/// Settles claims as lost, with the same decision as for any other end; returns the number that were settled. With
/// evidence that their worker is dead, their leases need not have expired.
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

/// Runs retention if no other worker has done so within the hour.
async fn retain(shared: &Shared, retention: Retention) {
    let owner = shared.id.to_string();
    // The lock is not released: it also records that retention has run.
    match shared.store().lock(RETENTION_LOCK.into(), owner, RETENTION_PERIOD - Duration::from_secs(60)).await {
        Ok(Some(_)) => {}
        Ok(None) => return,
        Err(error) => return tracing::warn!(worker = %shared.id, %error, "cannot acquire the lock for retention"),
    }
    match shared.punctual.admin("retention").cleanup(retention, |_| ()).await {
        Ok(done) => {
            tracing::info!(deleted = done.deleted, purged = done.purged, trimmed = done.trimmed, "retention ran")
        }
        Err(error) => tracing::warn!(worker = %shared.id, %error, "retention failed"),
    }
}

/// Whether this worker is the first one after a restart of all workers, in which case ephemeral jobs are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// Not known yet: an earlier worker may have died, or may only be silent.
    Unclear,
    /// Known; ephemeral jobs are removed if this was a restart.
    Clear,
}

impl Restart {
    /// Checks whether this was a restart.
    pub(crate) async fn check(&mut self, shared: &Shared) -> StoreResult<()> {
        if *self == Self::Clear {
            return Ok(());
        }
        let (workers, now) = (shared.store().workers().await?, shared.store().now());
        let Some(own) = workers.iter().find(|worker| worker.heartbeat.id == shared.id) else { return Ok(()) };
        let since = (own.started_at, own.heartbeat.id);
        let mut former = workers.iter().filter(|worker| (worker.started_at, worker.heartbeat.id) < since);
        if former.clone().any(|worker| worker.seen_at > own.started_at) {
            // An earlier worker was seen after this one started: this was no restart.
            *self = Self::Clear;
        } else if !former.any(|worker| admin::is_live(worker, now)) {
            drop_ephemeral(shared, own.started_at).await?;
            *self = Self::Clear;
        }
        Ok(())
    }
}

/// Removes ephemeral jobs that were enqueued before this instant.
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
        tracing::info!(jobs = dropped, "removed ephemeral jobs of an earlier run");
    }
    Ok(())
}
