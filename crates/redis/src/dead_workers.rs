//! The jobs that Redis had handed out to a worker that died.

use punctual_core::{StoreResult, WorkerId, dispatch::Start};
use tokio::time::Instant;

use crate::{claim::HOLD, shared::Shared, write_behind::Unrecorded};

/// Records or puts back all jobs that Redis had handed out to a dead worker; returns how many were put back.
pub(crate) async fn take_from_dead(store: &Shared, worker: WorkerId) -> StoreResult<usize> {
    store.write_behind.flush().await;
    record_started(store, worker).await?;
    put_back(store, worker).await
}

/// Records the jobs that a dead worker was handed and may have started unrecorded: one of them may have killed the
/// worker, and counts as a crash then.
async fn record_started(store: &Shared, worker: WorkerId) -> StoreResult<()> {
    let (started_at, since) = (store.primary.now(), Instant::now());
    let mut started = Vec::new();
    for queue in store.dispatch_lease.state().await?.queues() {
        match store.queue(&queue.queue, queue.epoch).in_hands_of(worker).await {
            Ok(held) => started.extend(held.into_iter().map(|(hint, token)| {
                let start = Start { hint, worker, started_at, lease: HOLD };
                Unrecorded { start, token: token.into(), since }
            })),
            Err(error) => tracing::debug!(%error, "cannot read the jobs of a dead worker from Redis"),
        }
    }
    if started.is_empty() {
        return Ok(());
    }
    // Jobs that have changed since they were handed out are not recorded: they are put back as they are.
    let begun = store.primary.begin(started.iter().map(|one| one.start.clone()).collect()).await?;
    let known: Vec<Unrecorded> =
        started.into_iter().zip(begun).filter(|(_, begun)| *begun).map(|(one, _)| one).collect();
    store.write_behind.release(&known).await;
    Ok(())
}

/// Puts unrecorded jobs of a dead worker back into their lanes; returns how many.
async fn put_back(store: &Shared, worker: WorkerId) -> StoreResult<usize> {
    let mut jobs = 0;
    for queue in store.dispatch_lease.state().await?.queues() {
        match store.queue(&queue.queue, queue.epoch).bury(worker).await {
            Ok(put_back) => jobs += put_back,
            Err(error) => {
                tracing::debug!(%error, "cannot put back the jobs of a dead worker; another process will do so")
            }
        }
    }
    Ok(jobs)
}
