//! What users of PostgreSQL rely on: their own transactions, servers that crash and restart, many concurrent processes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use punctual::{
    Context, Draft, Failure, Punctual, Settled, Status, Worker,
    core::JobDefaults,
    postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};
use punctual_servers::{Care, Postgres, Redis};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{Helper, Process, Role, TestStore, count, helper, leases_compared, until};

const HELPER: Helper = helper!();
const LONG: Duration = Duration::from_secs(120);

/// A connection of the caller, as an application has one, without Punctual's settings.
async fn own_connection(test_store: &TestStore) -> PgConnection {
    PgConnection::connect(test_store.url.split('?').next().unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_job_enqueued_in_the_callers_transaction_exists_if_and_only_if_it_commits() {
    let test_store = TestStore::postgres();
    let punctual = test_store.connect().await;
    let mut connection = own_connection(&test_store).await;
    let mut transaction = connection.begin().await.unwrap();
    let drafts = [Draft::new("x", &1), Draft::new("x", &2).unique_key("k")];
    let kept = punctual.enqueue_all_in(&mut transaction, drafts).await.unwrap();
    for job in &kept {
        assert!(punctual.job(job.id).await.is_err(), "not before the commit");
    }
    let path: String = sqlx::query_scalar("show search_path").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(path, "\"$user\", public", "the caller's settings are as they were");
    transaction.commit().await.unwrap();
    for job in &kept {
        assert_eq!(punctual.job(job.id).await.unwrap().status, Status::Queued);
    }
    let mut transaction = connection.begin().await.unwrap();
    let lost = punctual.enqueue_in(&mut transaction, Draft::new("x", &3).unique_key("other")).await.unwrap();
    let existing = punctual.enqueue_in(&mut transaction, Draft::new("x", &4).unique_key("k")).await.unwrap();
    assert_eq!((existing.id, existing.existing), (kept[1].id, true));
    transaction.rollback().await.unwrap();
    assert!(punctual.job(lost.id).await.is_err());
    assert!(!punctual.enqueue(Draft::new("x", &3).unique_key("other")).await.unwrap().existing, "its key is free");
    assert_eq!(audit_store(&**punctual.store()).await, 3);
}

#[tokio::test]
async fn the_first_job_of_a_process_in_the_callers_transaction_has_the_defaults_of_its_queue() {
    let test_store = TestStore::postgres();
    let defaults = JobDefaults { max_attempts: Some(11), ..JobDefaults::default() };
    test_store.connect().await.admin("ada").set_queue_defaults("mail", defaults).await.unwrap();
    let punctual = test_store.connect().await;
    let mut connection = own_connection(&test_store).await;
    let mut transaction = connection.begin().await.unwrap();
    let job = punctual.enqueue_in(&mut transaction, Draft::new("x", &1).queue("mail")).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(punctual.job(job.id).await.unwrap().spec.max_attempts, 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_completed_in_the_handlers_transaction_has_its_effect_exactly_once() {
    let test_store = TestStore::postgres();
    let punctual = test_store.connect().await;
    let effects = format!("effects_{:016x}", fastrand::u64(..));
    let mut connection = own_connection(&test_store).await;
    sqlx::query(AssertSqlSafe(format!("create table {effects} (job text)"))).execute(&mut connection).await.unwrap();
    let (server, table) = (test_store.url.split('?').next().unwrap().to_owned(), effects.clone());
    let worker = Worker::builder(punctual.clone())
        .handler("x", move |ctx: Context| {
            let (server, insert) = (server.clone(), AssertSqlSafe(format!("insert into {table} values ($1)")));
            async move {
                let mut connection = PgConnection::connect(&server).await?;
                let mut transaction = connection.begin().await?;
                sqlx::query(insert).bind(ctx.id().to_string()).execute(&mut *transaction).await?;
                assert_eq!(ctx.complete_in(&mut transaction, &"done").await?, Settled::Done);
                if ctx.attempt() == 1 {
                    // A crash before the commit: neither the effect nor the end of the job is stored.
                    transaction.rollback().await?;
                    return Err(Failure::retry_after(Duration::ZERO, "crashed before the commit"));
                }
                // The open transaction blocks the renewal of this lease only, and the job is not taken for lost when
                // the lease has expired.
                until("the lease to run out", async || {
                    let lease = ctx.punctual().job(ctx.id()).await.unwrap().lease_until;
                    lease.unwrap() < ctx.punctual().store().now()
                })
                .await;
                transaction.commit().await?;
                // The job is no longer held; its handler may continue nevertheless.
                leases_compared(ctx.punctual()).await;
                Ok(None)
            }
        })
        .lease(Duration::from_millis(500))
        .start()
        .await
        .unwrap();
    let id = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    let done = punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, done.attempt), (Status::Succeeded, 2));
    assert_eq!(done.result.unwrap().as_str(), "\"done\"");
    let stats = worker.stop().await;
    assert_eq!(stats.succeeded, 1);
    assert_eq!(stats.stale, 0);
    assert_eq!(stats.lost_leases, 0);
    let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(format!("select count(*) from {effects}")));
    assert_eq!(count.fetch_one(&mut connection).await.unwrap(), 1);
    audit_store(&**punctual.store()).await;
}

#[tokio::test]
async fn a_transaction_of_postgres_holds_no_jobs_of_another_engine() {
    let sqlite = TestStore::new().connect().await;
    let mut connection = own_connection(&TestStore::postgres()).await;
    let error = sqlite.enqueue_in(&mut connection, Draft::new("x", &1)).await.unwrap_err();
    assert!(error.to_string().contains("connect Punctual to the same database"), "{error}");
}

/// Three times: the server is killed under full load, and restarted a moment later.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_and_no_worker_dies_when_the_server_crashes() {
    let mut server = Postgres::start(Care::Durable).unwrap();
    let test_store = TestStore::on(&server.url());
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone())
        .handler("x", |_: Context| async { Ok(None) })
        .concurrency(200)
        .lease(Duration::from_secs(2))
        .start()
        .await
        .unwrap();
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let enqueuers: Vec<_> = (0..8).map(|_| tokio::spawn(enqueue_on(punctual.clone(), acknowledged.clone()))).collect();
    let known = || acknowledged.lock().unwrap().len();
    for _ in 0..3 {
        let enough = known() + 500;
        until("work to be done", async || known() >= enough && worker.stats().succeeded as usize >= enough / 2).await;
        server.crash().unwrap();
        server.start_again().unwrap();
    }
    let enough = known() + 500;
    until("work to be done after the last crash", async || known() >= enough).await;
    for enqueuer in enqueuers {
        enqueuer.abort();
        let _ = enqueuer.await;
    }
    until("all jobs to come to an end", async || {
        count(&punctual, Status::Queued).await + count(&punctual, Status::Processing).await == 0
    })
    .await;
    let acknowledged = acknowledged.lock().unwrap().clone();
    for id in acknowledged {
        let (job, events) = (punctual.job(id).await.unwrap(), punctual.store().history(id).await.unwrap().events);
        let ends = events.iter().filter(|event| event.status.is_finished()).count();
        assert_eq!((job.status, ends), (Status::Succeeded, 1), "{id}");
    }
    worker.stop().await;
    audit_store(&**punctual.store()).await;
}

/// Enqueues jobs one after the other, and records the acknowledged ones. Retries while the server is unavailable.
async fn enqueue_on(punctual: Punctual, acknowledged: Arc<Mutex<BTreeSet<punctual::JobId>>>) {
    loop {
        match punctual.enqueue(Draft::new("x", &()).max_attempts(100)).await {
            Ok(job) => drop(acknowledged.lock().unwrap().insert(job.id)),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_with_all_operations_never_deadlock() {
    let server = Postgres::start(Care::None).unwrap();
    do_everything_at_once(&server, TestStore::on(&server.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_do_they_with_redis_in_front() {
    let (server, redis) = (Postgres::start(Care::None).unwrap(), Redis::start().unwrap());
    do_everything_at_once(&server, TestStore::on(&server.url()).dispatched_by(&redis.url())).await;
}

async fn do_everything_at_once(server: &Postgres, test_store: TestStore) {
    let started = server.log().len();
    let punctual = test_store.connect().await;
    let processes: Vec<Process> = (0..8).map(|_| HELPER.start(Role::Mixed, &test_store)).collect();
    let failed = processes.into_iter().map(Process::wait).filter(|status| !status.success()).count();
    let log = server.log().split_off(started);
    let is_bad = |line: &&str| ["ERROR:", "PANIC:", "deadlock"].iter().any(|level| line.contains(level));
    if let Some(first) = log.lines().position(|line| is_bad(&line)) {
        let bad = log.lines().filter(is_bad).count();
        let actual: Vec<&str> = log.lines().skip(first).take(400).collect();
        panic!("{bad} complaints, the first:\n{}", actual.join("\n"));
    }
    assert_eq!(failed, 0, "processes failed; see above");
    assert!(count(&punctual, Status::Scheduled).await > 0, "jobs of other days are there");
    audit_store(&**punctual.store()).await;
}
