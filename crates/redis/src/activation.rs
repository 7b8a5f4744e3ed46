//! Activation of queues: assigning them to Redis, opening them there, and detecting that Redis has lost them.

use std::{sync::Arc, time::Duration};

use punctual_core::StoreResult;

use crate::{
    dispatch_lease::{DispatchState, PAUSE, QueueDispatch},
    shared::Shared,
};

/// Maximum time between announcing that a queue is being opened and opening it.
const OPENING: Duration = Duration::from_secs(1);
/// How soon to check a queue again that another process is about to open.
const OPEN_POLL_PERIOD: Duration = Duration::from_millis(50);
/// The number of steps from unknown to open.
const STEPS_MAX: usize = 3;

/// Whether Redis hands out the jobs of a queue.
pub(crate) enum Opened {
    /// It does, in this epoch.
    Now(u64),
    /// It does not before this time has passed.
    In(Duration),
}

/// Opens a queue in Redis, unless it is open or must wait.
pub(crate) async fn open(store: &Arc<Shared>, state: &DispatchState, name: &str) -> StoreResult<Opened> {
    let mut step = state.queue(name);
    for _ in 0..STEPS_MAX {
        match step {
            QueueDispatch::Open { epoch, .. } => return Ok(Opened::Now(epoch)),
            QueueDispatch::Closed { opens_in } => return Ok(Opened::In(opens_in)),
            QueueDispatch::Unknown => store.primary.give(name.to_owned(), 0, PAUSE).await?,
            QueueDispatch::Ready { epoch } => {
                if store.primary.open(name.to_owned(), epoch).await? {
                    reopen(store, name, epoch).await?;
                }
            }
        }
        store.dispatch_lease.forget();
        step = store.dispatch_lease.state().await?.queue(name);
    }
    Ok(Opened::In(OPEN_POLL_PERIOD))
}

/// Opens a queue in Redis, and loads its jobs: the first jobs of each lane now, the others in the background.
async fn reopen(store: &Arc<Shared>, name: &str, epoch: u64) -> StoreResult<()> {
    if let Err(error) = store.queue(name, epoch).open(false).await {
        tracing::warn!(queue = name, %error, "cannot open the queue in Redis");
        return Ok(());
    }
    tracing::info!(queue = name, epoch, "Redis hands out the queue's jobs");
    store.dispatch_lease.forget();
    if store.reconciler.load(&store.dispatch_lease, name, epoch, false).await? {
        let (own, name) = (Arc::clone(store), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = own.reconciler.load(&own.dispatch_lease, &name, epoch, true).await {
                tracing::warn!(queue = name, %error, "cannot pass all jobs to Redis yet");
            }
        });
    }
    Ok(())
}

/// Called when Redis does not know a queue that should be open: Redis has lost its data, or the queue is limited now.
pub(crate) async fn lost(store: &Shared, name: &str, epoch: u64) -> StoreResult<()> {
    store.dispatch_lease.forget();
    match store.dispatch_lease.state().await?.queue(name) {
        QueueDispatch::Open { epoch: now, since } if now == epoch && since > OPENING => {}
        _ => return Ok(()),
    }
    if store.reconciler.serves(name) {
        tracing::warn!(queue = name, "Redis has lost the queue's jobs; they are sent again");
        store.primary.give(name.to_owned(), epoch, PAUSE).await?;
        store.dispatch_lease.forget();
        store.repairs.count("queues reloaded that Redis had lost", 1).await;
    }
    Ok(())
}
