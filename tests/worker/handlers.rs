//! Handlers of every kind: how they end, and how their jobs end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use punctual::{AttemptStatus, Context, Draft, Failure, HandlerResult, Job, RetryPolicy, Status, Worker};
use punctual_testkit::conformance::audit_store;
use punctual_tests::TestStore;
use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;

use crate::{
    bench::LONG,
    one_job::{run, start},
};

#[tokio::test]
async fn a_panic_is_a_failure_and_the_worker_lives_on() {
    async fn panics(ctx: Context) -> HandlerResult {
        assert!(ctx.attempt() > 1, "the first attempt panics");
        Ok(None)
    }
    let (_test_store, punctual, done) = run(panics, |draft| draft.retry(RetryPolicy::fixed(Duration::ZERO))).await;
    assert_eq!((done.status, done.attempt), (Status::Succeeded, 2));
    let attempts = punctual.store().history(done.id).await.unwrap().attempts;
    let fault = attempts[0].error.clone().unwrap();
    assert_eq!(fault.code.as_deref(), Some("PUNCTUAL_E_PANIC"));
    assert!(fault.message.contains("the first attempt panics"), "{fault}");
}

#[tokio::test]
async fn a_handler_that_takes_too_long_times_out_and_its_late_end_is_ignored() {
    let stopped = Arc::new(AtomicUsize::new(0));
    let seen = stopped.clone();
    let handler = move |ctx: Context| {
        let seen = seen.clone();
        async move {
            ctx.signal().cancelled().await;
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(Some(punctual::Json::of(&"too late").unwrap()))
        }
    };
    let (_test_store, punctual, done) =
        run(handler, |draft| draft.timeout(Duration::from_millis(50)).max_attempts(1)).await;
    assert_eq!((done.status, done.result), (Status::Dead, None));
    assert_eq!(done.error.unwrap().code.as_deref(), Some("PUNCTUAL_E_TIMEOUT"));
    assert_eq!(stopped.load(Ordering::SeqCst), 1, "the handler received its stop signal and ended");
    assert_eq!(punctual.store().history(done.id).await.unwrap().attempts[0].status, AttemptStatus::TimedOut);
}

#[tokio::test]
async fn cancelling_a_running_job_stops_its_handler() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let (begun, stopped) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (begins, stops) = (begun.clone(), stopped.clone());
    let worker = start(&punctual, move |ctx: Context| {
        let (begun, stopped) = (begins.clone(), stops.clone());
        async move {
            begun.wait().await;
            ctx.signal().cancelled().await;
            stopped.wait().await;
            Ok(None)
        }
    })
    .await;
    let id = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    begun.wait().await;
    punctual.admin("ada").cancel(id, Some("no longer needed".into())).await.unwrap();
    stopped.wait().await;
    assert_eq!(punctual.job(id).await.unwrap().status, Status::Cancelled);
    worker.stop().await;
    assert_eq!(punctual.store().history(id).await.unwrap().attempts[0].status, AttemptStatus::Cancelled);
    audit_store(&**punctual.store()).await;
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "sums", redact("a"))]
struct Add {
    a: u32,
    b: u32,
}

#[derive(Serialize, Deserialize, Job)]
struct Parse(String);

async fn add(job: Add, ctx: Context, bonus: u32) -> Result<u32, Failure> {
    ctx.progress(50.0, "adding");
    ctx.info("first");
    ctx.warn("second");
    Ok(job.a + job.b + bonus)
}

#[tokio::test]
async fn a_typed_job_has_state_result_progress_logs_and_redaction() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).state(100_u32).register(add).start().await.unwrap();
    let id = punctual.enqueue(Add { a: 1, b: 2 }).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.result.unwrap().as_str(), done.spec.queue.as_str()), ("103", "sums"));
    assert_eq!(done.progress.unwrap().percent, 50.0);
    let detail = punctual.admin("ada").job(id).await.unwrap();
    let logged: Vec<_> = detail.logs.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(logged, ["first", "second"]);
    assert_eq!(detail.job.payload_preview.to_string(), r#"{"a":"[redacted]","b":2}"#);
    worker.stop().await;
}

#[tokio::test]
async fn a_payload_that_does_not_fit_its_type_dies_at_once() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).state(0_u32).register(add).start().await.unwrap();
    let id = punctual.enqueue(Draft::new("add", &"text")).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, done.attempt), (Status::Dead, 1));
    assert_eq!(done.error.unwrap().code.as_deref(), Some("PUNCTUAL_E_DATA"));
    worker.stop().await;
}

#[tokio::test]
async fn a_handler_that_keeps_its_thread_past_its_time_is_late_all_the_same() {
    let handler = |ctx: Context| async move {
        let begin = std::time::Instant::now();
        while begin.elapsed() <= ctx.claim().job.spec.timeout {
            std::hint::spin_loop();
        }
        Ok(None)
    };
    let (.., done) = run(handler, |draft| draft.timeout(Duration::from_millis(5)).max_attempts(1)).await;
    assert_eq!((done.status, done.error.unwrap().code.as_deref()), (Status::Dead, Some("PUNCTUAL_E_TIMEOUT")));
}

#[tokio::test]
async fn a_wait_without_end_is_a_long_one() {
    let (_test_store, punctual, done) = run(|_: Context| async { Ok(None) }, |draft| draft).await;
    assert_eq!(punctual.wait(done.id, Duration::MAX).await.unwrap(), done);
}

#[tokio::test]
async fn senseless_settings_are_refused() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let none = Worker::builder(punctual.clone()).start().await.unwrap_err();
    assert_eq!(none.to_string(), "handlers: must not be empty; register at least one job");
    let handler = |_: Context| async { Ok(None) };
    let zero = Worker::builder(punctual.clone()).handler("x", handler).concurrency(0).start().await.unwrap_err();
    assert_eq!(zero.to_string(), "concurrency: must be between 1 and 100000, not 0");
    let short = Worker::builder(punctual).handler("x", handler).lease(Duration::ZERO).start().await.unwrap_err();
    assert_eq!(short.to_string(), "lease: must be between 100ms and 1d, not 0s");
}

#[tokio::test]
async fn a_missing_state_and_a_name_with_two_handlers_are_refused_before_anything_runs() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let builder = || Worker::builder(punctual.clone());
    let missing = builder().register(add).start().await.unwrap_err();
    assert_eq!(missing.to_string(), "state: the handler of `add` takes a `u32`; add one with `.state(…)`");
    let two = builder().state(1_u32).state(2_u32).register(add).check().unwrap_err();
    assert_eq!(two.to_string(), "state: two states of the type `u32`; expected one per type");
    let handler = |_: Context| async { Ok(None) };
    let twice = builder().state(1_u32).register(add).handler("add", handler).check().unwrap_err();
    assert_eq!(twice.to_string(), "handlers: `add` is registered twice; expected one handler per job name");
    assert_eq!(builder().register(add).state(1_u32).check(), Ok(()), "the order of the calls does not matter");
}

#[derive(Serialize, Deserialize, Job)]
#[job(name = "orders.ship", queue = "bulk", priority = 9, max_attempts = 7, timeout = "1h 30m", log_level = "warn")]
#[job(retry = RetryPolicy::fixed(Duration::from_secs(3)), parent_results, redact("card", "token"))]
#[job(concurrency_key = "customer-{customer}", unique = "order-{order}")]
struct Ship {
    customer: u32,
    order: u32,
}

#[tokio::test]
async fn the_options_of_a_derived_job_are_those_of_its_drafts() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let first = punctual.enqueue(Ship { customer: 1, order: 2 }).await.unwrap();
    let again = punctual.enqueue(Ship { customer: 3, order: 2 }).await.unwrap();
    assert_eq!((again.id, again.existing), (first.id, true), "one job per order");
    let spec = punctual.job(first.id).await.unwrap().spec;
    assert_eq!((spec.name.as_str(), spec.queue.as_str(), spec.priority), ("orders.ship", "bulk", 9));
    assert_eq!((spec.max_attempts, spec.timeout), (7, Duration::from_secs(5_400)));
    assert_eq!(spec.unique_key.as_deref(), Some("order-2"));
    assert_eq!(spec.options.concurrency_key.as_deref(), Some("customer-1"));
    assert_eq!(spec.options.log_level, Some(punctual::core::LogLevel::Warn));
    assert_eq!(spec.options.retry, Some(RetryPolicy::fixed(Duration::from_secs(3))));
    assert_eq!(spec.options.redact_keys, ["card", "token"]);
    const { assert!(Ship::PARENT_RESULTS) };
}

#[tokio::test]
async fn a_handler_may_return_any_error() {
    async fn parse(job: Parse, _: Context) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        if job.0.is_empty() {
            return Err(Failure::permanent("nothing to parse").into());
        }
        Ok(job.0.parse()?)
    }
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).register(parse).manual().unwrap();
    for (text, status, error) in [
        ("7", Status::Succeeded, None),
        ("x", Status::Retrying, Some("invalid digit found in string")),
        ("", Status::Dead, Some("nothing to parse")),
    ] {
        let id = punctual.enqueue(Parse(text.into())).await.unwrap().id;
        worker.run_all().await.unwrap();
        let done = punctual.job(id).await.unwrap();
        assert_eq!((done.status, done.error.map(|error| error.message).as_deref()), (status, error));
    }
}
