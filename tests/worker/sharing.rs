//! A file that other programs use, too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use punctual::{
    Context, Draft, Status, Worker,
    sqlite::rusqlite::{Connection, TransactionBehavior},
};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{Holder, TestStore};

#[tokio::test(flavor = "multi_thread")]
async fn a_long_write_of_another_program_delays_and_fails_nothing() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap();
    let holder = Holder::start(&test_store);
    let client = punctual.clone();
    let enqueue = tokio::spawn(async move { client.enqueue(Draft::new("x", &())).await });
    // Reads continue: the write-ahead log keeps the last committed state for them.
    for _ in 0..100 {
        punctual.admin("test").overview().await.unwrap();
    }
    assert!(!enqueue.is_finished(), "it waits for the lock");
    holder.release();
    let id = enqueue.await.unwrap().unwrap().id;
    let done = punctual.wait(id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(done.status, Status::Succeeded);
    worker.stop().await;
    audit_store(&**punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_enqueued_in_the_callers_transaction_exists_if_and_only_if_it_commits() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let mut connection = Connection::open(test_store.file()).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let kept =
        punctual.enqueue_all_in(&transaction, [Draft::new("x", &1), Draft::new("x", &2).unique_key("k")]).unwrap();
    for job in &kept {
        assert!(punctual.job(job.id).await.is_err(), "not before the commit");
    }
    transaction.commit().unwrap();
    for job in &kept {
        assert_eq!(punctual.job(job.id).await.unwrap().status, Status::Queued);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let lost = punctual.enqueue_in(&transaction, Draft::new("x", &3).unique_key("other")).unwrap();
    let existing = punctual.enqueue_in(&transaction, Draft::new("x", &4).unique_key("k")).unwrap();
    assert_eq!((existing.id, existing.existing), (kept[1].id, true));
    transaction.rollback().unwrap();
    assert!(punctual.job(lost.id).await.is_err());
    assert!(!punctual.enqueue(Draft::new("x", &3).unique_key("other")).await.unwrap().existing, "its key is free");
    assert_eq!(audit_store(&**punctual.store()).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completed_in_the_handlers_transaction_has_its_effect_exactly_once() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    Connection::open(test_store.file()).unwrap().execute("create table effects (job text)", []).unwrap();
    let path = test_store.file();
    let worker = Worker::builder(punctual.clone())
        .handler("x", move |ctx: Context| {
            let path = path.clone();
            async move {
                let mut connection = Connection::open(path)?;
                connection.busy_timeout(Duration::from_secs(10))?;
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction.execute("insert into effects values (?1)", [ctx.id().to_string()])?;
                ctx.complete_in(&transaction, &"done")?;
                if ctx.attempt() == 1 {
                    // A crash before the commit: neither the effect nor the end of the job is stored.
                    return Err(punctual::Failure::retry_after(Duration::ZERO, "crashed before the commit"));
                }
                transaction.commit()?;
                Ok(None)
            }
        })
        .start()
        .await
        .unwrap();
    let id = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    let done = punctual.wait(id, Duration::from_secs(60)).await.unwrap();
    assert_eq!((done.status, done.attempt), (Status::Succeeded, 2));
    assert_eq!(done.result.unwrap().as_str(), "\"done\"");
    let stats = worker.stop().await;
    assert_eq!(stats.succeeded, 1);
    assert_eq!(stats.stale, 0);
    assert_eq!(stats.lost_leases, 0);
    let effects: i64 = Connection::open(test_store.file())
        .unwrap()
        .query_row("select count(*) from effects", [], |row| row.get(0))
        .unwrap();
    assert_eq!(effects, 1);
    audit_store(&**punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_examination_beside_a_busy_worker_finds_nothing_wrong() {
    let test_store = TestStore::new();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap();
    let (client, stop) = (punctual.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let enqueuer = tokio::spawn(async move {
        while !stopped.load(Ordering::SeqCst) {
            client.enqueue_all((0..50).map(|n| Draft::new("x", &n).user("u"))).await.unwrap();
        }
    });
    for _ in 0..30 {
        for diagnostic in punctual.store().check().await.unwrap() {
            assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
        }
    }
    stop.store(true, Ordering::SeqCst);
    enqueuer.await.unwrap();
    worker.stop().await;
}

/// A job that another process enqueues is noticed by its commit, long before the next poll.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_another_connection_wakes_an_idle_worker() {
    let test_store = TestStore::new();
    let (punctual, other) = (test_store.connect().await, test_store.connect().await);
    let worker = Worker::builder(punctual.clone())
        .handler("x", |_: Context| async { Ok(None) })
        .poll_period(Duration::from_secs(3_600))
        .start()
        .await
        .unwrap();
    worker.until_empty().await;
    let id = other.enqueue(Draft::new("x", &())).await.unwrap().id;
    let done = other.wait(id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(done.status, Status::Succeeded);
    worker.stop().await;
}
