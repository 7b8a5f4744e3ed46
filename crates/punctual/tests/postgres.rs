//! What users of PostgreSQL rely on: their own transactions, servers that crash and restart, many concurrent processes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{Process, TestStore, count, leases_compared, until};
use punctual::{
    Context, Draft, Failure, Filter, OnParentFailure, Overlap, Page, Punctual, Recurring, Settled, Status, Unique,
    Worker, Workflow,
    admin::Retention,
    core::{JobDefaults, Limits, Rate, RetentionPolicy},
    postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};
use punctual_servers::{Care, Postgres, Redis};
use punctual_testkit::conformance::audit_store;

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
    let kept = punctual.enqueue_in(&mut transaction, drafts).await.unwrap();
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
    let lost = punctual.enqueue_in(&mut transaction, [Draft::new("x", &3).unique_key("other")]).await.unwrap()[0];
    let existing = punctual.enqueue_in(&mut transaction, [Draft::new("x", &4).unique_key("k")]).await.unwrap()[0];
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
    let job = punctual.enqueue_in(&mut transaction, [Draft::new("x", &1).queue("mail")]).await.unwrap()[0];
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
    assert_eq!((stats.succeeded, stats.stale, stats.lost_leases), (1, 0, 0));
    let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(format!("select count(*) from {effects}")));
    assert_eq!(count.fetch_one(&mut connection).await.unwrap(), 1);
    audit_store(&**punctual.store()).await;
}

#[tokio::test]
async fn a_transaction_of_postgres_holds_no_jobs_of_another_engine() {
    let sqlite = TestStore::new().connect().await;
    let mut connection = own_connection(&TestStore::postgres()).await;
    let error = sqlite.enqueue_in(&mut connection, [Draft::new("x", &1)]).await.unwrap_err();
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

/// Duration of the mixed load with eight processes.
const MIXED_TIME: Duration = Duration::from_secs(60);

/// Finished jobs are removed at once.
const NOTHING_KEPT: RetentionPolicy =
    RetentionPolicy { succeeded: Duration::ZERO, dead: Duration::ZERO, cancelled: Duration::ZERO };

#[test]
#[ignore = "a process that other tests start"]
fn mixed_process() {
    common::in_process(async |url: String| {
        let punctual = Punctual::connect(&url).await.unwrap();
        let worker = Worker::builder(punctual.clone())
            .handler("x", |ctx: Context| async move {
                if fastrand::u8(..) < 50 {
                    Err(Failure::new("as it happens"))
                } else {
                    Ok(Some(ctx.claim().job.spec.payload.clone()))
                }
            })
            .concurrency(50)
            .retention(Some(Retention { keep: NOTHING_KEPT, ..Retention::default() }))
            .start()
            .await
            .unwrap();
        let end = tokio::time::Instant::now() + MIXED_TIME;
        let enqueue = until_then(end, || enqueue_mixed(&punctual));
        let operate = until_then(end, || operate(&punctual));
        let schedule = until_then(end, || schedule(&punctual));
        let flow = until_then(end, || flow(&punctual));
        let upkeep = until_then(end, || upkeep(&punctual));
        tokio::join!(enqueue, operate, schedule, flow, upkeep);
        worker.stop().await;
    });
}

async fn until_then<F: Future<Output = ()>>(end: tokio::time::Instant, mut work: impl FnMut() -> F) {
    while tokio::time::Instant::now() < end {
        work().await;
    }
}

/// Enqueues jobs for now, for soon and for other days, with and without both kinds of keys and users.
async fn enqueue_mixed(punctual: &Punctual) {
    let draft = |number: u32| {
        let draft = Draft::new("x", &number).queue(format!("q{}", number % 3)).priority((number % 2) as u8);
        let draft = if number.is_multiple_of(5) { draft.concurrency_key(format!("c{}", number % 7)) } else { draft };
        match number % 8 {
            0 => draft.delay(Duration::from_millis(u64::from(number % 500))),
            1 => draft.delay(Duration::from_secs(86_400 * u64::from(number % 40))),
            2 => draft.unique_key(format!("k{}", number % 50)),
            3 => draft.user("ada").tag("t"),
            4 => draft.keep_for(Duration::ZERO),
            5 => {
                let unique = Unique::key(format!("k{}", number % 50)).until_started().replace_payload().debounce();
                draft.delay(Duration::from_millis(u64::from(number % 500))).unique(unique)
            }
            _ => draft,
        }
    };
    let drafts: Vec<Draft> = (0..fastrand::usize(1..60)).map(|_| draft(fastrand::u32(..))).collect();
    punctual.enqueue_all(drafts).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// Lists some jobs and changes each of them.
async fn operate(punctual: &Punctual) {
    let admin = punctual.admin("operator");
    let statuses = [Status::Queued, Status::Scheduled, Status::Dead, Status::Processing, Status::Waiting];
    let status = statuses[fastrand::usize(..statuses.len())];
    let page = punctual.store().list(Filter::status(status), Page::first(20)).await.unwrap();
    for job in page.jobs {
        // A job whose status has changed meanwhile refuses the change.
        let _ = match fastrand::u8(..4) {
            0 => admin.cancel(job.id, None).await,
            1 => admin.retry(job.id).await,
            2 => admin.delete(job.id).await,
            _ => admin.run(job.id).await.map(drop),
        };
    }
}

/// Creates schedules that run every second, changes, triggers, backfills and deletes them. The workers tick.
async fn schedule(punctual: &Punctual) {
    let (admin, number) = (punctual.admin("scheduler"), fastrand::u32(..20));
    let name = format!("s{number}");
    let overlap = [Overlap::Allow, Overlap::Skip, Overlap::CancelPrevious][number as usize % 3];
    let job = Draft::new("x", &number).priority(fastrand::u8(..3));
    // A schedule that another process has deleted meanwhile is not found.
    let _ = match fastrand::u8(..8) {
        0 => admin.pause_schedule(&name).await,
        1 => admin.resume_schedule(&name).await,
        2 => admin.trigger_schedule(&name).await.map(drop),
        3 => {
            let now = punctual.store().now();
            admin.backfill_schedule(&name, now.before(Duration::from_secs(5)), now).await.map(drop)
        }
        4 => admin.delete_schedule(&name).await,
        _ => admin.put_schedule(Recurring::new(name, "* * * * * *", job).overlap(overlap)).await.map(drop),
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Submits, cancels and retries workflows, enqueues jobs with existing jobs as parents, pauses queues for a moment, and
/// limits them.
async fn flow(punctual: &Punctual) {
    let admin = punctual.admin("flow");
    let policy = || OnParentFailure::ALL[fastrand::usize(..4)];
    match fastrand::u8(..7) {
        0 => {
            let statuses = [Status::Queued, Status::Processing, Status::Waiting, Status::Dead, Status::Scheduled];
            let status = statuses[fastrand::usize(..statuses.len())];
            let page = punctual.store().list(Filter::status(status), Page::first(10)).await.unwrap();
            let draft = |_| Draft::new("x", &0).after(page.jobs.iter().map(|job| job.id)).on_parent_failure(policy());
            // One of the parents may have been removed meanwhile.
            let _ = punctual.enqueue_all((0..5).map(draft)).await;
        }
        1 => {
            for view in admin.workflows(None, 5).await.unwrap().workflows {
                let id = view.workflow.id;
                let _ = if fastrand::bool() {
                    admin.cancel_workflow(id, None).await.map(drop)
                } else {
                    admin.retry_workflow(id).await.map(drop)
                };
            }
        }
        2 => {
            admin.pause_queue("q0").await.unwrap();
            admin.resume_queue("q0").await.unwrap();
        }
        3 => {
            let rate = Rate { count: fastrand::u32(1..50), period: Duration::from_millis(fastrand::u64(1..500)) };
            let limits = Limits {
                concurrency: fastrand::bool().then(|| fastrand::u32(1..60)),
                rate: fastrand::bool().then_some(rate),
                key_concurrency: fastrand::bool().then(|| fastrand::u32(0..4)),
                key_rate: fastrand::bool().then_some(rate),
                fair: fastrand::bool(),
                ..Limits::default()
            };
            admin.set_queue_limits(["q1", "q2"][fastrand::usize(..2)], limits).await.unwrap();
        }
        _ => {
            let mut workflow = Workflow::new("mixed");
            for number in 0..fastrand::usize(1..12) {
                let parents: Vec<String> =
                    (0..number).filter(|_| fastrand::u8(..3) == 0).map(|parent| parent.to_string()).collect();
                workflow.job(number.to_string(), Draft::new("x", &number)).after(parents).on_parent_failure(policy());
            }
            workflow.on_complete(Draft::new("x", &0));
            punctual.submit(workflow).await.unwrap();
        }
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn upkeep(punctual: &Punctual) {
    let store = punctual.store();
    store.expire(NOTHING_KEPT, 500).await.unwrap();
    store.purge(Duration::ZERO, 500).await.unwrap();
    store.prune(Duration::from_secs(5), 1_000).await.unwrap();
    store.promote(100).await.unwrap();
    store.maintain().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
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
    let processes: Vec<Process> = (0..8).map(|_| test_store.start("mixed_process", 0)).collect();
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
