//! A store, its clock, a worker that checks for alerts, and the server that receives them.

use std::time::Duration;

use punctual::{
    ALERTS_QUEUE, Alert, AlertKind, AlertState, Alerts, Context, Draft, Failure, Filter, ManualClock, ManualWorker,
    Page, Punctual, Worker,
    core::{Heartbeat, WorkerId},
};
use punctual_tests::TestStore;

use super::receiver::Receiver;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// A store, its clock, a manual worker, and the server that receives its alerts.
pub(super) struct Scene {
    pub(super) punctual: Punctual,
    pub(super) clock: ManualClock,
    pub(super) worker: ManualWorker,
    pub(super) receiver: Receiver,
    pub(super) test_store: TestStore,
}

impl Scene {
    pub(super) async fn new(new_store: fn() -> TestStore) -> Self {
        Self::with(new_store, |receiver| Alerts::new().webhook(receiver.webhook())).await
    }

    pub(super) async fn with(new_store: fn() -> TestStore, alerts: impl Fn(&Receiver) -> Alerts) -> Self {
        let (test_store, receiver) = (new_store(), Receiver::start());
        let (punctual, clock) = test_store.connect_with_clock().await;
        let worker = manual(&punctual, alerts(&receiver));
        assert_eq!(worker.check_alerts().await.unwrap(), [], "nothing has happened yet");
        Self { punctual, clock, worker, receiver, test_store }
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(super) async fn check(&self) -> Vec<Alert> {
        self.worker.check_alerts().await.unwrap()
    }

    /// Checks for alerts, and returns kind and state of those that were raised.
    pub(super) async fn states(&self) -> Vec<(AlertKind, AlertState)> {
        self.check().await.iter().map(|alert| (alert.kind, alert.state)).collect()
    }

    pub(super) async fn enqueue(&self, name: &str, jobs: usize) {
        self.punctual.enqueue_all((0..jobs).map(|number| Draft::new(name, &number).queue("mail"))).await.unwrap();
    }

    pub(super) async fn run(&self) -> usize {
        self.worker.run_all().await.unwrap().len()
    }

    /// Sends a heartbeat of a worker with a handler for this job name.
    pub(super) async fn heartbeat(&self, name: &str) {
        let heartbeat = Heartbeat {
            id: WorkerId::from_bits(name.len() as u128),
            host: "elsewhere".into(),
            pid: 1,
            queues: vec!["mail".into()],
            names: vec![name.into()],
            concurrency: 1,
            running: 0,
            registered_by: None,
        };
        self.punctual.store().heartbeat(heartbeat).await.unwrap();
    }

    pub(super) async fn alert_jobs(&self) -> Vec<punctual::core::Job> {
        let filter = Filter { queue: Some(ALERTS_QUEUE.into()), ..Filter::default() };
        self.punctual.store().list(filter, Page::first(100)).await.unwrap().jobs
    }
}

pub(super) fn manual(punctual: &Punctual, alerts: Alerts) -> ManualWorker {
    let dies = |_: Context| async { Err(Failure::permanent("no such mailbox")) };
    let worker =
        Worker::builder(punctual.clone()).handler("send", dies).handler("report", |_: Context| async { Ok(None) });
    worker.alerts(alerts).manual().unwrap()
}
