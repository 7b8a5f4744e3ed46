//! A store behind an unreliable network, and counters of concurrent executions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use punctual::{Context, HandlerResult, Punctual, RunningWorker, Worker, WorkerBuilder};
use punctual_testkit::{FaultyStore, When};
use punctual_tests::TestStore;

pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A store, and the same store behind an unreliable network.
pub(crate) struct Bench {
    pub(crate) test_store: TestStore,
    pub(crate) punctual: Punctual,
    pub(crate) network: FaultyStore,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::on(TestStore::new()).await
    }

    pub(crate) async fn on(test_store: TestStore) -> Self {
        let punctual = test_store.connect().await;
        let network = FaultyStore::new(punctual.store().clone());
        Self { test_store, punctual, network }
    }

    /// A worker behind the network.
    pub(crate) fn behind(&self) -> WorkerBuilder {
        Worker::builder(Punctual::new(Arc::new(self.network.clone()))).poll_period(Duration::from_millis(20))
    }

    /// From now on the network drops everything.
    pub(crate) fn cut(&self) {
        for method in [
            "extend",
            "check_leases",
            "heartbeat",
            "claim",
            "settle",
            "release_slots",
            "report_progress",
            "expired",
            "maintain",
            "lock",
            "deregister",
        ] {
            self.network.fail_always(method, When::Never);
        }
    }

    /// Runs the remaining jobs with a worker that is not cut off.
    pub(crate) async fn other_worker(&self) -> RunningWorker {
        Worker::builder(self.punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap()
    }
}

/// Counts concurrent executions.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Counts>);

#[derive(Default)]
struct Counts {
    all: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A counted execution.
pub(crate) struct Counted(Arc<Counts>);

impl Counter {
    pub(crate) fn restart(&self) {
        self.0.all.store(0, Ordering::SeqCst);
    }

    pub(crate) fn begin(&self) -> Counted {
        self.0.all.fetch_add(1, Ordering::SeqCst);
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        Counted(self.0.clone())
    }

    pub(crate) fn all(&self) -> usize {
        self.0.all.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Works until its stop signal, and then takes some time to clean up.
pub(crate) async fn stops_slowly(ctx: Context) -> HandlerResult {
    ctx.signal().cancelled().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(None)
}
