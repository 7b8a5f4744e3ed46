//! What a worker that stops does with its jobs.

use std::{sync::Arc, time::Duration};

use punctual::{Context, Draft, Punctual, Status, Worker};
use punctual_testkit::{FaultyStore, When, conformance::audit_store};
use punctual_tests::TestStore;
use tokio::sync::Barrier;

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
        // Enough for one of them to end on a busy machine; the other one takes all of it.
        .drain_timeout(Duration::from_secs(2))
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
