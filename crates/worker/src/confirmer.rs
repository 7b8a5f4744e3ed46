//! Confirms jobs that run at most once before their handlers start: in batches, with retries until the store answers.

use std::{sync::Arc, time::Duration};

use punctual_core::{AttemptId, Store, WorkerId};
use tokio::{
    sync::{mpsc, oneshot},
    time,
};

/// Maximum number of attempts per call.
const BATCH_MAX_COUNT: usize = 1_000;
/// Initial and maximum pause after an error of the store.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// An attempt to confirm, and the channel to the execution that waits for the answer.
type Request = (AttemptId, oneshot::Sender<bool>);

/// Sends requests to the confirmer.
#[derive(Debug)]
pub(crate) struct Confirmer(mpsc::UnboundedSender<Request>);

/// Requests to the confirmer: at most as many as jobs run.
#[derive(Debug)]
pub(crate) struct Requests(mpsc::UnboundedReceiver<Request>);

impl Confirmer {
    pub(crate) fn new() -> (Self, Requests) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), Requests(receiver))
    }

    /// Confirms that this worker holds the job, and records that its handler is about to start.
    pub(crate) async fn confirm(&self, attempt: AttemptId) -> bool {
        let (caller, answer) = oneshot::channel();
        self.0.send((attempt, caller)).is_ok() && answer.await.unwrap_or(false)
    }
}

/// Confirms attempts until every sender is dropped.
pub(crate) async fn run(store: Arc<dyn Store>, worker: WorkerId, Requests(mut requests): Requests) {
    let mut batch = Vec::with_capacity(BATCH_MAX_COUNT);
    while requests.recv_many(&mut batch, BATCH_MAX_COUNT).await > 0 {
        confirm(&*store, worker, std::mem::take(&mut batch)).await;
    }
}

/// Retries until the store answers. Repeating a request is harmless, and an execution that has lost its lease no longer
/// waits.
async fn confirm(store: &dyn Store, worker: WorkerId, mut batch: Vec<Request>) {
    let mut pause = BACKOFF.0;
    loop {
        batch.retain(|(_, caller)| !caller.is_closed());
        if batch.is_empty() {
            return;
        }
        let attempts: Vec<AttemptId> = batch.iter().map(|(attempt, _)| *attempt).collect();
        match store.confirm(worker, attempts).await {
            Ok(held) => return batch.into_iter().zip(held).for_each(|((_, caller), held)| _ = caller.send(held)),
            Err(error) => {
                let (jobs, retry_ms) = (batch.len(), pause.as_millis() as u64);
                tracing::warn!(%worker, jobs, %error, retry_ms, "cannot confirm the start of jobs");
                time::sleep(pause).await;
                pause = (2 * pause).min(BACKOFF.1);
            }
        }
    }
}
