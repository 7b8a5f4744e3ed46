//! Workers with one handler.

use punctual::{Draft, Punctual, RunningWorker, Worker, core};
use punctual_testkit::conformance::audit_store;
use punctual_tests::TestStore;

use crate::bench::LONG;

pub(crate) async fn start(punctual: &Punctual, handler: impl punctual::Handler) -> RunningWorker {
    Worker::builder(punctual.clone()).handler("x", handler).start().await.unwrap()
}

/// Runs one job to its end and returns it.
pub(crate) async fn run(
    handler: impl punctual::Handler,
    adjust: impl FnOnce(Draft) -> Draft,
) -> (TestStore, Punctual, core::Job) {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = start(&punctual, handler).await;
    let id = punctual.enqueue(adjust(Draft::new("x", &()))).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    worker.stop().await;
    audit_store(&**punctual.store()).await;
    (test_store, punctual, done)
}
