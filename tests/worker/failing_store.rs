//! A store that fails or refuses, at every step of a worker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use punctual::{Context, Draft, Failure, Punctual, Status, Worker, sqlite::rusqlite::Connection};
use punctual_testkit::{FaultyStore, When, conformance::audit_store};
use punctual_tests::{TestStore, count, until};
use tokio::sync::Barrier;

use crate::bench::LONG;

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
    assert_eq!(done.status, Status::Succeeded, "nothing was spent");
    assert_eq!(done.attempt, 1, "nothing was spent");
    assert_eq!(done.crash_count, 0, "nothing was spent");
    assert_eq!((starts.load(Ordering::SeqCst), faulty.faults_left()), (1, 0));
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
    assert_eq!(done.status, Status::Succeeded);
    assert_eq!(done.attempt, 1);
    assert_eq!(done.crash_count, 0);
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
