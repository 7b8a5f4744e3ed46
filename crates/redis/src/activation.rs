//! Queues are given to Redis, opened there, and found to be lost.

use std::{sync::Arc, time::Duration};

use punctual_core::StoreResult;

use crate::{
    dispatch_lease::{DispatchState, PAUSE, QueueDispatch},
    shared::Shared,
};

/// Somebody who opens a queue may take so long between saying so and doing it.
const OPENING: Duration = Duration::from_secs(1);
/// How soon to look again at a queue that somebody else is about to open.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// From unknown to open, a queue takes so many steps, if nobody is faster.
const STEPS_MAX: usize = 3;

/// Whether Redis hands out the jobs of a queue.
pub(crate) enum Opened {
    /// In this epoch.
    Now(u64),
    /// Not before.
    In(Duration),
}

/// Sees to it that Redis hands out the jobs of a queue.
pub(crate) async fn open(store: &Arc<Shared>, standing: &DispatchState, name: &str) -> StoreResult<Opened> {
    let mut step = standing.queue(name);
    for _ in 0..STEPS_MAX {
        match step {
            QueueDispatch::Open { epoch, .. } => return Ok(Opened::Now(epoch)),
            QueueDispatch::Closed { opens_in } => return Ok(Opened::In(opens_in)),
            QueueDispatch::Unknown => store.primary.give(name.to_owned(), 0, PAUSE).await?,
            QueueDispatch::Ready { epoch } => {
                if store.primary.open(name.to_owned(), epoch).await? {
                    open_anew(store, name, epoch).await?;
                }
            }
        }
        store.keeper.forget();
        step = store.keeper.standing().await?.queue(name);
    }
    Ok(Opened::In(LOOK_AGAIN))
}

/// Opens a queue in Redis, and tells of its jobs: of the first ones of each lane now, of the others beside.
async fn open_anew(store: &Arc<Shared>, name: &str, epoch: u64) -> StoreResult<()> {
    if let Err(error) = store.queue(name, epoch).open(false).await {
        tracing::warn!(queue = name, %error, "cannot open the queue in Redis");
        return Ok(());
    }
    tracing::info!(queue = name, epoch, "Redis hands out the queue's jobs");
    store.keeper.forget();
    if store.loader.load(&store.keeper, name, epoch, false).await? {
        let (own, name) = (Arc::clone(store), name.to_owned());
        tokio::spawn(async move {
            if let Err(error) = own.loader.load(&own.keeper, &name, epoch, true).await {
                tracing::warn!(queue = name, %error, "cannot tell Redis of all jobs yet");
            }
        });
    }
    Ok(())
}

/// Redis does not know a queue that it should: it has lost what it knew, or the queue is limited now.
pub(crate) async fn lost(store: &Shared, name: &str, epoch: u64) -> StoreResult<()> {
    store.keeper.forget();
    match store.keeper.standing().await?.queue(name) {
        QueueDispatch::Open { epoch: now, since } if now == epoch && since > OPENING => {}
        _ => return Ok(()),
    }
    if store.loader.serves(name) {
        tracing::warn!(queue = name, "Redis has lost the queue's jobs; they are told anew");
        store.primary.give(name.to_owned(), epoch, PAUSE).await?;
        store.keeper.forget();
        store.repairs.count("queues reloaded that Redis had lost", 1).await;
    }
    Ok(())
}
