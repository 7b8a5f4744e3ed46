//! A worker with handlers of every kind, on a store that works and on one that fails.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use punctual::{
    AttemptStatus, Context, Draft, Failure, HandlerResult, Job, Punctual, RetryPolicy, RunningWorker, Status, Worker,
    core, sqlite::rusqlite::Connection,
};
use punctual_testkit::{FaultyStore, When, conformance::audit_store};
use punctual_tests::{TestStore, count, until};
use serde::{Deserialize, Serialize};
use tokio::sync::Barrier;

const LONG: Duration = Duration::from_secs(60);

async fn start(punctual: &Punctual, handler: impl punctual::Handler) -> RunningWorker {
    Worker::builder(punctual.clone()).handler("x", handler).start().await.unwrap()
}

/// Runs one job to its end and returns it.
async fn run(handler: impl punctual::Handler, adjust: impl FnOnce(Draft) -> Draft) -> (TestStore, Punctual, core::Job) {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = start(&punctual, handler).await;
    let id = punctual.enqueue(adjust(Draft::new("x", &()))).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    worker.stop().await;
    audit_store(&**punctual.store()).await;
    (test_store, punctual, done)
}

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

#[derive(Serialize, Deserialize)]
struct Add {
    a: u32,
    b: u32,
}

impl Job for Add {
    const NAME: &'static str = "add";
    const QUEUE: &'static str = "sums";
    const REDACT: &'static [&'static str] = &["a"];
    type State = u32;
    type Output = u32;

    async fn run(self, ctx: Context, bonus: u32) -> Result<u32, Failure> {
        ctx.progress(50.0, "adding");
        ctx.info("first");
        ctx.warn("second");
        Ok(self.a + self.b + bonus)
    }
}

#[tokio::test]
async fn a_typed_job_has_state_result_progress_logs_and_redaction() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).register::<Add>(100).start().await.unwrap();
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
    let worker = Worker::builder(punctual.clone()).register::<Add>(0).start().await.unwrap();
    let id = punctual.enqueue(Draft::new("add", &"text")).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, done.attempt), (Status::Dead, 1));
    assert_eq!(done.error.unwrap().code.as_deref(), Some("PUNCTUAL_E_DATA"));
    worker.stop().await;
}

#[tokio::test]
async fn a_stop_drains_jobs_that_end_in_time_and_releases_the_others() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let (begun, go) = (Arc::new(Barrier::new(3)), Arc::new(tokio::sync::Notify::new()));
    let (begins, goes) = (begun.clone(), go.clone());
    let worker = Worker::builder(punctual.clone())
        .handler("x", move |ctx: Context| {
            let (begun, go) = (begins.clone(), goes.clone());
            async move {
                begun.wait().await;
                match ctx.claim().job.spec.payload.as_str() {
                    "1" => go.notified().await,
                    _ => ctx.signal().cancelled().await,
                }
                Ok(None)
            }
        })
        .drain_timeout(Duration::from_millis(300))
        .start()
        .await
        .unwrap();
    let ends = punctual.enqueue(Draft::new("x", &1)).await.unwrap().id;
    let stays = punctual.enqueue(Draft::new("x", &2)).await.unwrap().id;
    begun.wait().await;
    go.notify_one();
    worker.stop().await;
    assert_eq!(punctual.job(ends).await.unwrap().status, Status::Succeeded);
    let given_back = punctual.job(stays).await.unwrap();
    assert_eq!((given_back.status, given_back.attempt), (Status::Queued, 0));
    assert!(punctual.store().workers().await.unwrap().is_empty(), "it has signed off");
    audit_store(&**punctual.store()).await;
}

/// Its thread is blocked, so that it cannot be notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_releases_the_job_of_a_handler_that_ignores_it() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let (begun, on_begun) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let worker = Worker::builder(punctual.clone())
        .handler("x", move |_: Context| {
            begun.send(()).unwrap();
            let released = released.clone();
            async move {
                let _ = released.lock().unwrap().recv();
                Ok(None)
            }
        })
        .drain_timeout(Duration::from_millis(50))
        .grace(Duration::from_millis(50))
        .start()
        .await
        .unwrap();
    let id = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    on_begun.recv().unwrap();
    worker.stop().await;
    let given_back = punctual.job(id).await.unwrap();
    assert_eq!((given_back.status, given_back.attempt), (Status::Queued, 0));
    audit_store(&**punctual.store()).await;
    drop(release);
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
async fn a_job_claimed_ahead_waits_for_its_time_and_may_be_cancelled_until_then() {
    let test_store = TestStore::new();
    let (punctual, clock) = test_store.connect_with_clock().await;
    let due = punctual.store().now().after(Duration::from_millis(30));
    let draft = || Draft::new("x", &()).run_at(due);
    let (kept, cancelled) = (punctual.enqueue(draft()).await.unwrap().id, punctual.enqueue(draft()).await.unwrap().id);
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = ran.clone();
    let worker = start(&punctual, move |_: Context| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(None) }
    })
    .await;
    until("both to be claimed", async || worker.stats().running == 2).await;
    punctual.admin("ada").cancel(cancelled, None).await.unwrap();
    until("the worker to know", async || worker.stats().lost_leases == 1).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0, "their time has not come");
    clock.advance(Duration::from_millis(30));
    assert_eq!(punctual.wait(kept, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(punctual.job(cancelled).await.unwrap().status, Status::Cancelled);
}

#[tokio::test]
async fn a_job_claimed_ahead_does_not_wait_for_a_clock_that_was_set_back() {
    let test_store = TestStore::new();
    let (punctual, clock) = test_store.connect_with_clock().await;
    let due = punctual.store().now().after(Duration::from_millis(30));
    let job = punctual.enqueue(Draft::new("x", &()).run_at(due)).await.unwrap().id;
    let worker = start(&punctual, |_: Context| async { Ok(None) }).await;
    until("it to be claimed", async || worker.stats().running == 1).await;
    clock.set(due.before(Duration::from_secs(3_600)));
    assert_eq!(punctual.wait(job, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
}

/// A worker that restarts cannot know at once whether another registered worker is still alive.
#[tokio::test]
async fn ephemeral_jobs_are_dropped_once_it_is_clear_that_all_workers_were_gone() {
    for survives in [true, false] {
        let test_store = TestStore::new();
        let (punctual, clock) = test_store.connect_with_clock().await;
        let former = core::Heartbeat {
            id: core::WorkerId::from_bits(punctual.ids().next(punctual.store().now())),
            host: "h".into(),
            pid: 1,
            queues: vec![],
            names: vec!["other".into()],
            concurrency: 1,
            running: 0,
            registered_by: None,
        };
        punctual.store().heartbeat(former.clone()).await.unwrap();
        let job = punctual.enqueue(Draft::new("other", &()).ephemeral(true)).await.unwrap().id;
        clock.advance(Duration::from_secs(1));
        let worker = start(&punctual, |_: Context| async { Ok(None) }).await;
        assert!(punctual.job(job).await.is_ok(), "not yet clear");
        let newer = punctual.enqueue(Draft::new("other", &()).ephemeral(true)).await.unwrap().id;
        clock.advance(Duration::from_secs(if survives { 1 } else { 31 }));
        if survives {
            punctual.store().heartbeat(former).await.unwrap();
            worker.stop().await;
            assert!(punctual.job(job).await.is_ok(), "no restart, as the other was there all the time");
            clock.advance(Duration::from_secs(31));
            let second = start(&punctual, |_: Context| async { Ok(None) }).await;
            assert!(punctual.job(job).await.is_err(), "now both are gone");
            second.stop().await;
        } else {
            until("the old job to be dropped", async || punctual.job(job).await.is_err()).await;
            assert!(punctual.job(newer).await.is_ok(), "it was enqueued after the restart");
            worker.stop().await;
        }
    }
}

#[tokio::test]
async fn a_worker_never_holds_more_jobs_than_it_can_run() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak, store) = (running.clone(), most.clone(), punctual.clone());
    let worker = Worker::builder(punctual.clone())
        .handler("x", move |_: Context| {
            let (now, peak, store) = (now.clone(), peak.clone(), store.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Unsettled jobs that have ended are held, too: at most as many again.
                assert!(count(&store, Status::Processing).await <= 8);
                now.fetch_sub(1, Ordering::SeqCst);
                Ok(None)
            }
        })
        .concurrency(4)
        .start()
        .await
        .unwrap();
    punctual.enqueue_all((0..100).map(|n| Draft::new("x", &n).max_attempts(1))).await.unwrap();
    worker.until_empty().await;
    worker.stop().await;
    assert!(most.load(Ordering::SeqCst) <= 4);
    assert_eq!(count(&punctual, Status::Succeeded).await, 100);
}

#[tokio::test]
async fn a_wait_without_end_is_a_long_one() {
    let (_test_store, punctual, done) = run(|_: Context| async { Ok(None) }, |draft| draft).await;
    assert_eq!(punctual.wait(done.id, Duration::MAX).await.unwrap(), done);
}

#[tokio::test]
async fn a_long_job_keeps_its_lease() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone())
        .handler("x", |ctx: Context| async move {
            let first = ctx.claim().job.lease_until;
            // Until the lease has been extended three times: longer than its initial duration.
            let mut moves = 0;
            let mut last = first;
            while moves < 4 {
                let now = ctx.punctual().job(ctx.id()).await?.lease_until;
                moves += usize::from(now != last);
                last = now;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(None)
        })
        .lease(Duration::from_millis(300))
        .start()
        .await
        .unwrap();
    let id = punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, done.crash_count), (Status::Succeeded, 0));
    worker.stop().await;
}

/// The store fails in every way at every step of the worker; no job is lost, none is left behind, none ends twice.
#[tokio::test]
async fn a_failing_store_delays_jobs_and_loses_none() {
    let test_store = TestStore::new();
    let inner = test_store.connect().await;
    let faulty = FaultyStore::new(inner.store().clone());
    let punctual = Punctual::new(Arc::new(faulty.clone()));
    for when in [When::Before, When::After] {
        for method in ["settle", "settle", "claim", "report_progress", "expired", "heartbeat"] {
            faulty.fail_next(method, when);
        }
    }
    let worker = Worker::builder(punctual.clone())
        .handler("x", |ctx: Context| async move {
            ctx.info("hello");
            if ctx.attempt() == 1 { Err(Failure::retry_after(Duration::ZERO, "may be retried")) } else { Ok(None) }
        })
        .lease(Duration::from_millis(600))
        .start()
        .await
        .unwrap();
    // Jobs of a claim whose answer was lost are claimed again when their lease expires, with one crash more.
    inner.enqueue_all((0..20).map(|n| Draft::new("x", &n).max_attempts(10))).await.unwrap();
    until("all jobs to succeed", async || count(&inner, Status::Succeeded).await == 20).await;
    until("every fault to happen", async || faulty.faults_left() == 0).await;
    worker.stop().await;
    assert_eq!(audit_store(&**inner.store()).await, 20);
}

#[tokio::test]
async fn a_job_with_one_attempt_survives_lost_answers_and_runs_once() {
    let test_store = TestStore::new();
    let inner = test_store.connect().await;
    let faulty = FaultyStore::new(inner.store().clone());
    // The claim is stored and its answer lost; so is the confirmation, which is then refused and repeated.
    faulty.fail_next("claim", When::After);
    faulty.fail_next("confirm", When::After);
    faulty.fail_next("confirm", When::Before);
    let id = inner.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    let starts = Arc::new(AtomicUsize::new(0));
    let started = starts.clone();
    let worker = Worker::builder(Punctual::new(Arc::new(faulty.clone())))
        .handler("x", move |_: Context| {
            started.fetch_add(1, Ordering::SeqCst);
            async { Ok(None) }
        })
        .lease(Duration::from_millis(600))
        .start()
        .await
        .unwrap();
    let done = inner.wait(id, LONG).await.unwrap();
    worker.stop().await;
    assert_eq!((done.status, done.attempt, done.crash_count), (Status::Succeeded, 1, 0), "nothing was spent");
    assert_eq!((starts.load(Ordering::SeqCst), faulty.faults_left()), (1, 0));
    audit_store(&**inner.store()).await;
}

/// The store refuses for longer than the grace period of a handler; the work is done, and must not be repeated.
#[tokio::test]
async fn a_stop_waits_for_a_store_that_refuses_outcomes_for_a_while() {
    let test_store = TestStore::new();
    let inner = test_store.connect().await;
    let faulty = FaultyStore::new(inner.store().clone());
    (0..5).for_each(|_| faulty.fail_next("settle", When::Before));
    let begun = Arc::new(tokio::sync::Notify::new());
    let begins = begun.clone();
    let worker = Worker::builder(Punctual::new(Arc::new(faulty.clone())))
        .handler("x", move |_: Context| {
            begins.notify_one();
            async { Ok(None) }
        })
        .grace(Duration::from_millis(10))
        .start()
        .await
        .unwrap();
    let id = inner.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    begun.notified().await;
    worker.stop().await;
    assert_eq!((inner.job(id).await.unwrap().status, faulty.faults_left()), (Status::Succeeded, 0));
    audit_store(&**inner.store()).await;
}

/// A trigger of another program refuses one job of a batch, until it is dropped.
#[tokio::test]
async fn an_end_that_the_store_refuses_holds_up_no_other_and_is_stored_when_it_may_be() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let database = Connection::open(test_store.folder.path().join("punctual.db")).unwrap();
    let refuse = "create trigger refuse before update of status on punctual_jobs when new.name = 'refused' and new.status = 'succeeded' \
                  begin select raise(abort, 'not while this trigger is there'); end";
    database.execute_batch(refuse).unwrap();
    let refused = punctual.enqueue(Draft::new("refused", &()).max_attempts(1)).await.unwrap().id;
    let others = punctual.enqueue_all((0..20).map(|n| Draft::new("x", &n))).await.unwrap();
    // All of them end at once.
    let all = Arc::new(Barrier::new(1 + others.len()));
    let handler = move |_: Context| {
        let all = all.clone();
        async move {
            all.wait().await;
            Ok(None)
        }
    };
    let worker = Worker::builder(punctual.clone())
        .handler("x", handler.clone())
        .handler("refused", handler)
        .concurrency(21)
        .start()
        .await
        .unwrap();
    for other in others {
        assert_eq!(punctual.wait(other.id, LONG).await.unwrap().status, Status::Succeeded);
    }
    assert_eq!(punctual.job(refused).await.unwrap().status, Status::Processing);
    database.execute_batch("drop trigger refuse").unwrap();
    let done = punctual.wait(refused, LONG).await.unwrap();
    assert_eq!((done.status, done.attempt, done.crash_count), (Status::Succeeded, 1, 0));
    worker.stop().await;
    assert_eq!(audit_store(&**punctual.store()).await, 21);
}

#[tokio::test]
async fn an_enqueue_that_is_repeated_after_a_lost_answer_makes_one_job() {
    let test_store = TestStore::new();
    let inner = test_store.connect().await;
    let faulty = FaultyStore::new(inner.store().clone());
    let punctual = Punctual::new(Arc::new(faulty.clone()));
    let jobs = punctual.check([Draft::new("x", &1)]).unwrap();
    faulty.fail_next("enqueue", When::After);
    assert!(punctual.store().enqueue(jobs.clone()).await.is_err());
    let again = punctual.store().enqueue(jobs).await.unwrap();
    assert!(again[0].existing);
    assert_eq!(audit_store(&**inner.store()).await, 1);
}

#[tokio::test]
async fn ephemeral_jobs_of_a_former_run_are_dropped_by_the_first_worker() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let gone = punctual.enqueue(Draft::new("x", &()).ephemeral(true)).await.unwrap().id;
    let first = start(&punctual, |_: Context| async { Ok(None) }).await;
    assert!(punctual.job(gone).await.is_err());
    let kept = punctual.enqueue(Draft::new("y", &()).ephemeral(true)).await.unwrap().id;
    let second = start(&punctual, |_: Context| async { Ok(None) }).await;
    assert!(punctual.job(kept).await.is_ok(), "a second worker beside the first is no restart");
    first.stop().await;
    second.stop().await;
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
