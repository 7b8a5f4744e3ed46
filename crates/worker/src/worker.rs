//! A running worker, until its graceful stop.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use punctual_core::{Settlement, StoreError, WorkerId};
use tokio::{task::JoinHandle, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Stats,
    shared::{Awaiting, Shared},
};

/// How long after the grace period jobs are released whose handlers did not react to the request to stop.
const UNRESPONSIVE_SLACK: Duration = Duration::from_millis(500);

/// A running worker. If it is dropped without [`stop`](Self::stop), it continues until its runtime ends.
#[derive(Debug)]
pub struct RunningWorker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) executions: TaskTracker,
    pub(crate) claimer: JoinHandle<()>,
    pub(crate) tasks: Vec<JoinHandle<()>>,
    pub(crate) done: CancellationToken,
    /// The worker that delivers alerts to webhooks.
    pub(crate) delivery_worker: Option<Box<RunningWorker>>,
}

impl RunningWorker {
    /// Its id.
    pub fn id(&self) -> WorkerId {
        self.shared.id
    }

    /// Its statistics so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Returns a function that reads the statistics, which outlives this value.
    pub fn watch_stats(&self) -> impl Fn() -> Stats + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.stats()
    }

    /// Returns a function that tells why the worker does not claim jobs, if it does not; it outlives this value.
    pub fn watch_claims(&self) -> impl Fn() -> Option<&'static str> + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.why_not_claiming()
    }

    /// Waits until the worker has nothing to run: no job is due for it, and all claimed jobs are settled. Includes all
    /// jobs that were enqueued before the call.
    pub async fn until_empty(&self) {
        let _awaiting = Awaiting::begin(&self.shared);
        let mut load = self.shared.load.subscribe();
        let before = load.borrow().claims();
        loop {
            let now = *load.borrow_and_update();
            if now.is_empty_since(before) {
                return;
            }
            if now.unsettled == 0 {
                self.shared.claim_now.notify_one();
            }
            let _ = load.changed().await;
        }
    }

    /// Waits until the store has failed permanently in this process, and returns the error; see [`StoreError::Failed`].
    /// From then on the worker can neither claim nor settle, and the process should end with an error. Never returns
    /// with most engines.
    pub async fn failed(&self) -> StoreError {
        self.shared.store().failed().await
    }

    /// Stops gracefully: claims no more jobs, waits for running jobs up to the drain timeout, and then releases the
    /// rest. Returns the statistics of the worker.
    pub async fn stop(self) -> Stats {
        self.stop_or_hurry(&CancellationToken::new()).await
    }

    /// Stops without waiting for running jobs: they are released, if the store can be reached.
    pub async fn stop_now(self) -> Stats {
        let now = CancellationToken::new();
        now.cancel();
        self.stop_or_hurry(&now).await
    }

    /// Stops like [`stop`](Self::stop); once `hurry` is cancelled, the running handlers are asked to stop, and their
    /// jobs are released within half a second.
    pub async fn stop_or_hurry(self, hurry: &CancellationToken) -> Stats {
        let Self { shared, executions, claimer, tasks, done, delivery_worker } = self;
        if let Some(delivery_worker) = delivery_worker {
            // Do not wait for an unresponsive webhook: another worker delivers the alert.
            delivery_worker.shared.releasing.cancel();
            Box::pin(delivery_worker.stop_or_hurry(hurry)).await;
        }
        // If the caller stops waiting, no task continues to run.
        let mut tasks = Tasks(tasks);
        tasks.0.push(tokio::spawn(forward_hurry(hurry.clone(), Arc::clone(&shared))));
        shared.draining.cancel();
        let _ = claimer.await;
        executions.close();
        let drained = hurry.run_until_cancelled(time::timeout(shared.config.drain_timeout, executions.wait())).await;
        if !matches!(drained, Some(Ok(()))) {
            tracing::warn!(worker = %shared.id, jobs = executions.len(), "releasing jobs that did not finish within the drain timeout");
        }
        shared.releasing.cancel();
        tokio::select! {
            () = shared.all_settled() => {}
            () = shared.grace_over().then(|()| time::sleep(UNRESPONSIVE_SLACK)) => release_unresponsive(&shared).await,
        }
        // The remaining jobs have ended, but the store does not accept their outcomes now. Their work is done, so wait
        // for it.
        let settled = time::timeout(shared.config.drain_timeout, shared.all_settled()).await.is_ok();
        if !settled {
            let jobs = shared.stats().running;
            tracing::error!(worker = %shared.id, jobs, "stopped before all outcomes were stored; these jobs run again");
        }
        done.cancel();
        // Before deregistering, so that no heartbeat follows.
        drop(tasks);
        // Handlers that were stopped have some time to clean up.
        let _ = time::timeout(shared.config.grace, executions.wait()).await;
        shared.registry.stop().await;
        if let Err(error) = shared.store().deregister(shared.id).await {
            tracing::warn!(worker = %shared.id, %error, "cannot deregister");
        }
        tracing::info!(worker = %shared.id, settled, "stopped");
        shared.stats()
    }
}

async fn forward_hurry(hurry: CancellationToken, shared: Arc<Shared>) {
    hurry.cancelled().await;
    shared.hurried.cancel();
}

/// Releases the jobs of handlers that do not notice the request to stop because they block their thread.
async fn release_unresponsive(shared: &Shared) {
    // Jobs that were taken away occupy their slots until their leases expire.
    shared.forget_given_up();
    let unresponsive = shared.unended_attempts();
    if unresponsive.is_empty() {
        return;
    }
    tracing::warn!(worker = %shared.id, jobs = unresponsive.len(), "releasing jobs whose handlers do not react to the request to stop");
    // A job that runs at most once is not released: it is dead when its lease expires.
    let releases = shared.releasable_attempts().into_iter().map(|attempt| Settlement::release(attempt, shared.id));
    let releases = releases.collect();
    if let Err(error) = shared.store().settle(releases).await {
        tracing::error!(worker = %shared.id, %error, "cannot release all jobs; their leases will expire");
    }
    shared.end(unresponsive);
}

/// The tasks of a worker, aborted on drop.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
