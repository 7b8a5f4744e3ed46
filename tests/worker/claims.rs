//! Jobs that a worker holds: how many, how long, and ahead of their time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use punctual::{Context, Draft, Status, Worker, core};
use punctual_tests::{TestStore, count, until};

use crate::{bench::LONG, one_job::start};

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
