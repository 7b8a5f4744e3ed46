//! Upkeep that every worker does for all: puts back what vanished workers held, and retention once an hour.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use punctual_client::admin::{self, Retention};
use punctual_core::{Outcome, Settled, Store, StoreResult, settle};
use tokio::time::{self, Instant};
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

/// Does the upkeep until `done`.
pub(crate) async fn run(shared: Arc<Shared>, done: CancellationToken) {
    let mut next_retention = Instant::now();
    while done.run_until_cancelled(time::sleep(REAP_PERIOD)).await.is_some() {
        match reap(&**shared.store()).await {
            Ok(0) => {}
            Ok(jobs) => {
                shared.counters.reaped.fetch_add(jobs as u64, Ordering::Relaxed);
                tracing::warn!(worker = %shared.id, jobs, "put back jobs whose workers have vanished");
            }
            Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot look for expired leases"),
        }
        if let Some(retention) = shared.config.retention
            && Instant::now() >= next_retention
        {
            next_retention = Instant::now() + RETENTION_PERIOD;
            let _ = done.run_until_cancelled(retain(&shared, retention)).await;
        }
    }
}

/// Settles claims whose lease has run out as lost, through the same decision as any other end; says how many.
pub(crate) async fn reap(store: &dyn Store) -> StoreResult<usize> {
    let expired = store.expired(REAP_MAX_JOBS).await?;
    if expired.is_empty() {
        return Ok(0);
    }
    let lost = expired.iter().map(|claim| settle(claim, Outcome::Lost, fastrand::f64())).collect();
    let settled = store.settle(lost).await?;
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

/// Drops ephemeral jobs if this is the first worker to come back.
pub(crate) async fn drop_ephemeral(shared: &Shared) -> StoreResult<()> {
    const BATCH_MAX_JOBS: usize = 500;
    let now = shared.store().now();
    let others = shared.store().workers().await?;
    if others.iter().any(|worker| worker.beat.id != shared.id && admin::is_live(worker, now)) {
        return Ok(());
    }
    let mut dropped = 0;
    loop {
        match shared.store().drop_ephemeral(BATCH_MAX_JOBS).await? {
            0 => break,
            jobs => dropped += jobs,
        }
    }
    if dropped > 0 {
        tracing::info!(jobs = dropped, "dropped ephemeral jobs of a former run");
    }
    Ok(())
}
