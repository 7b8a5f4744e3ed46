//! The slot of a limit is held until the handler is gone.

use std::{future, time::Duration};

use futures_util::future::BoxFuture;
use punctual::{
    AttemptStatus, Context, Draft, HandlerResult, RetryPolicy, Status, Worker,
    core::{JobId, Limits},
};
use punctual_testkit::{When, conformance::audit_store};
use punctual_tests::{TestStore, on_each_engine, until};

use crate::bench::{Bench, Counter, LONG, stops_slowly};

on_each_engine! {
    a_cancel_frees_the_slot_of_a_key_only_when_the_handler_is_gone
    a_cancel_frees_the_slot_of_a_queue_only_when_the_handler_is_gone
    a_handler_that_ignores_its_cancel_is_dropped_after_its_grace_and_its_slot_is_free
}

/// Two jobs of one concurrency key, of which one may run at once.
fn keyed() -> impl Iterator<Item = Draft> {
    let draft = |number: u32| Draft::new("x", &number).concurrency_key("k").retry(RetryPolicy::fixed(Duration::ZERO));
    (0..2).map(draft)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_frees_the_slot_of_a_limit_only_when_the_handler_is_gone() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let counts = counter.clone();
    let handler = move |ctx: Context| {
        let counted = counts.begin();
        async move {
            let _counted = counted;
            stops_slowly(ctx).await
        }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let drafts = keyed().map(|draft| draft.timeout(Duration::from_millis(100)).max_attempts(1));
    let jobs = bench.punctual.enqueue_all(drafts).await.unwrap();
    for job in jobs {
        assert_eq!(bench.punctual.wait(job.id, LONG).await.unwrap().status, Status::Dead);
        let attempts = bench.punctual.store().history(job.id).await.unwrap().attempts;
        assert_eq!(attempts[0].status, AttemptStatus::TimedOut);
    }
    assert_eq!((counter.all(), counter.most()), (2, 1));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_frees_the_slot_of_a_limit_only_when_the_handler_is_gone() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let (counts, others) = (counter.clone(), counter.clone());
    let handler = move |ctx: Context| {
        let counted = counts.begin();
        async move {
            let _counted = counted;
            stops_slowly(ctx).await
        }
    };
    let stopping = bench.behind().handler("x", handler).drain_timeout(Duration::ZERO).start().await.unwrap();
    let jobs = bench.punctual.enqueue_all(keyed()).await.unwrap();
    until("one to run", async || counter.all() == 1).await;
    let quick = move |_: Context| {
        let _counted = others.begin();
        async { Ok(None) }
    };
    let other = Worker::builder(bench.punctual.clone()).handler("x", quick).start().await.unwrap();
    stopping.stop().await;
    for job in jobs {
        assert_eq!(bench.punctual.wait(job.id, LONG).await.unwrap().status, Status::Succeeded);
    }
    assert_eq!((counter.all(), counter.most()), (3, 1));
    other.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

/// What the first execution does after its stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterStop {
    StopsSlowly,
    Continues,
}

/// A handler whose first execution waits for its stop signal; all others succeed at once.
fn first_waits(
    counter: &Counter,
    after_stop: AfterStop,
) -> impl Fn(Context) -> BoxFuture<'static, HandlerResult> + use<> {
    let counts = counter.clone();
    move |ctx: Context| {
        let (counted, is_first) = (counts.begin(), counts.all() == 1);
        Box::pin(async move {
            let _counted = counted;
            match after_stop {
                AfterStop::Continues if is_first => future::pending().await,
                AfterStop::StopsSlowly if is_first => stops_slowly(ctx).await,
                _ => Ok(None),
            }
        })
    }
}

impl Bench {
    /// Enqueues jobs of which one may run at once, and cancels the first one while it runs; returns the second.
    async fn cancel_first(&self, counter: &Counter, drafts: impl Iterator<Item = Draft>) -> JobId {
        let jobs = self.punctual.enqueue_all(drafts).await.unwrap();
        until("the first to run", async || counter.all() == 1).await;
        self.punctual.admin("test").cancel(jobs[0].id, None).await.unwrap();
        assert_eq!(self.punctual.job(jobs[0].id).await.unwrap().status, Status::Cancelled);
        jobs[1].id
    }

    async fn succeeds_alone(&self, counter: &Counter, job: JobId) {
        assert_eq!(self.punctual.wait(job, LONG).await.unwrap().status, Status::Succeeded);
        assert_eq!((counter.all(), counter.most()), (2, 1));
    }
}

async fn a_cancel_frees_the_slot_of_a_key_only_when_the_handler_is_gone(new_store: fn() -> TestStore) {
    let (bench, counter) = (Bench::on(new_store()).await, Counter::default());
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

async fn a_cancel_frees_the_slot_of_a_queue_only_when_the_handler_is_gone(new_store: fn() -> TestStore) {
    let (bench, counter) = (Bench::on(new_store()).await, Counter::default());
    let limits = Limits { concurrency: Some(1), ..Limits::default() };
    bench.punctual.admin("test").set_queue_limits("narrow", limits).await.unwrap();
    let other = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let drafts = (0..2).map(|number| Draft::new("x", &number).queue("narrow"));
    let second = bench.cancel_first(&counter, drafts).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    other.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

async fn a_handler_that_ignores_its_cancel_is_dropped_after_its_grace_and_its_slot_is_free(
    new_store: fn() -> TestStore,
) {
    let (bench, counter) = (Bench::on(new_store()).await, Counter::default());
    let worker =
        bench.behind().handler("x", first_waits(&counter, AfterStop::Continues)).grace(Duration::from_millis(100));
    // The test must not wait for this lease to expire.
    let worker = worker.lease(Duration::from_secs(3_600)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_whose_release_is_not_stored_is_free_when_the_lease_ends() {
    let (bench, counter) = (Bench::new().await, Counter::default());
    bench.network.fail_always("release_slots", When::Before);
    let worker =
        bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).lease(Duration::from_secs(2));
    let worker = worker.start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    bench.succeeds_alone(&counter, second).await;
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grace_of_a_cancelled_job_ends_with_its_lease() {
    let (bench, counter) = (Bench::new().await, Counter::default());
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::Continues)).grace(2 * LONG);
    let worker = worker.lease(Duration::from_secs(1)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    until("the first to be dropped", async || counter.now() == 0).await;
    assert_eq!(bench.punctual.wait(second, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_not_empty_while_a_job_waits_for_the_handler_of_a_cancelled_one() {
    let (bench, counter) = (Bench::new().await, Counter::default());
    let worker = bench.behind().handler("x", first_waits(&counter, AfterStop::StopsSlowly)).start().await.unwrap();
    let second = bench.cancel_first(&counter, keyed()).await;
    worker.until_empty().await;
    assert_eq!(bench.punctual.job(second).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_outlives_its_grace_is_reported_in_the_log_of_its_attempt() {
    let bench = Bench::new().await;
    let handler = |_: Context| async {
        tokio::time::sleep(LONG).await;
        Ok(None)
    };
    let worker = bench.behind().handler("x", handler).grace(Duration::from_millis(100)).start().await.unwrap();
    let draft = Draft::new("x", &()).timeout(Duration::from_millis(50)).max_attempts(1);
    let id = bench.punctual.enqueue(draft).await.unwrap().id;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Dead);
    worker.stop().await;
    let logs = bench.punctual.admin("test").job(id).await.unwrap().logs;
    assert!(logs.last().is_some_and(|line| line.message.contains("still running")), "{logs:?}");
}
