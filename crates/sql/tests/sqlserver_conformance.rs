//! SQL Server passes the conformance suite, and agrees with the model on random operations. Runs if
//! `PUNCTUAL_TEST_SQLSERVER_URL` names a server; `cargo xtask test` reports whether it ran.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::{
    JobId, Outcome, Settled, Spec, Status, StoreError, settle,
    store::{ClaimStore as _, EngineStore as _, JobReader as _},
};
use punctual_sql::sqlserver::{Client, MIGRATIONS, Options, SqlServerStore};
use punctual_testkit::{Fixture, conformance, random};

/// The databases of this test run.
static DATABASES: Mutex<Databases> = Mutex::new(Databases { in_use: 0, idle: Vec::new() });

struct Databases {
    in_use: usize,
    idle: Vec<String>,
}

fn databases() -> MutexGuard<'static, Databases> {
    DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server() -> Options {
    let server = std::env::var("PUNCTUAL_TEST_SQLSERVER_URL")
        .expect("PUNCTUAL_TEST_SQLSERVER_URL names no server, such as sqlserver://sa:password@host?trust_server_certificate=true");
    server.parse().unwrap()
}

/// The statements that delete all rows except the list of applied migrations.
fn empty() -> String {
    let lines = MIGRATIONS.iter().flat_map(|migration| migration.sql.lines());
    let tables = lines.filter_map(|line| line.strip_prefix("create table ")?.split([' ', '(']).next());
    let removed: String = tables.map(|table| format!("delete from {table}\n")).collect();
    removed
        + "insert into punctual_event_numbers (only_one, last) values (1, 0)
        insert into punctual_notification_numbers (only_one, last) values (1, 0)"
}

static MAKING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A database that other tests may reuse after this value is dropped. When none is in use any more, all are dropped, so
/// that the server is left with none.
struct Database(String);

impl Drop for Database {
    fn drop(&mut self) {
        let mut databases = databases();
        databases.idle.push(std::mem::take(&mut self.0));
        databases.in_use -= 1;
        let idle = if databases.in_use == 0 { std::mem::take(&mut databases.idle) } else { Vec::new() };
        drop(databases);
        if !idle.is_empty() {
            let dropped = std::thread::spawn(|| drop_all(idle)).join();
            assert!(dropped.is_ok() || std::thread::panicking(), "databases are left on the server");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn drop_all(names: Vec<String>) {
    for name in names {
        server().drop_database(&name).await.unwrap();
    }
}

impl Database {
    /// Takes or creates an empty database.
    async fn empty() -> (Self, Options) {
        let idle = {
            let mut databases = databases();
            databases.in_use += 1;
            databases.idle.pop()
        };
        if let Some(name) = idle {
            let database = Self(name);
            let options = server().in_database(&database.0);
            options.run(&empty()).await.unwrap();
            return (database, options);
        }
        let database = Self(format!("punctual_test_{:016x}", fastrand::u64(..)));
        // Some servers create only one database at a time.
        let _alone = MAKING.lock().await;
        server().run(&format!("create database {}", database.0)).await.unwrap();
        let options = server().in_database(&database.0);
        (database, options)
    }
}

async fn fixture() -> Fixture {
    let clock = Fixture::start();
    let (database, options) = Database::empty().await;
    Fixture::new(SqlServerStore::open(options.clock(clock.clone())).await.unwrap(), clock).keep(database)
}

conformance!(fixture);

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in random::seeds(1..=2) {
        random::replay(&fixture().await, seed, 400).await;
    }
}

#[tokio::test]
async fn transferred_data_behaves_as_in_the_original_store() {
    for seed in random::seeds(1..=2) {
        random::replay_transferred(&fixture().await, seed, 200).await;
    }
}

/// A store, a fixture for it, and an application's own connection to the same database.
async fn with_application() -> (SqlServerStore, Fixture, Client, Options) {
    let clock = Fixture::start();
    let (database, options) = Database::empty().await;
    let options = options.clock(clock.clone());
    let store = SqlServerStore::open(options.clone()).await.unwrap();
    let application = options.connect().await.unwrap();
    (store.clone(), Fixture::new(store, clock).keep(database), application, options)
}

#[tokio::test]
async fn jobs_of_a_transaction_exist_once_it_commits() {
    let (store, fx, mut application, _) = with_application().await;
    let of = |key: &'static str| fx.new_job(move |spec: &mut Spec| spec.unique_key = Some(key.to_owned()));
    application.begin_transaction().await.unwrap();
    let kept = store.enqueue_in(&mut application, vec![fx.new_job(|_| ()), of("a")]).await.unwrap();
    application.commit_transaction().await.unwrap();
    application.begin_transaction().await.unwrap();
    let lost = store.enqueue_in(&mut application, vec![fx.new_job(|_| ()), of("b")]).await.unwrap();
    application.rollback_transaction().await.unwrap();
    for enqueued in &kept {
        assert_eq!(fx.job(enqueued.id).await.status, Status::Queued);
    }
    for enqueued in &lost {
        assert_eq!(store.get(enqueued.id).await.unwrap(), None);
    }
    assert_eq!(store.counts().await.unwrap()[0].count, 2);
    assert_eq!(fx.claim(fx.worker(), 10).await.len(), 2);
}

#[tokio::test]
async fn a_call_that_fails_leaves_the_transaction_as_it_was() {
    let (store, fx, mut application, _) = with_application().await;
    let outside = store.enqueue_in(&mut application, vec![fx.new_job(|_| ())]).await;
    assert!(matches!(outside, Err(StoreError::Other(text)) if text.contains("begin one first")));
    application.begin_transaction().await.unwrap();
    let first = store.enqueue_in(&mut application, vec![fx.new_job(|_| ())]).await.unwrap();
    let mut orphan = fx.new_job(|_| ());
    orphan.parents = vec![JobId::from_bits(7)];
    let refused = store.enqueue_in(&mut application, vec![fx.new_job(|_| ()), orphan]).await;
    assert!(matches!(refused, Err(StoreError::UnknownParent(_))), "{refused:?}");
    application.commit_transaction().await.unwrap();
    assert_eq!(store.counts().await.unwrap()[0].count, 1);
    assert_eq!(fx.job(first[0].id).await.status, Status::Queued);
}

#[tokio::test]
async fn an_open_transaction_does_not_block_others() {
    let (store, fx, mut application, _) = with_application().await;
    application.begin_transaction().await.unwrap();
    let late = store.enqueue_in(&mut application, vec![fx.new_job(|_| ())]).await.unwrap()[0].id;
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.id, id);
    assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: None }).await, Settled::Done);
    application.commit_transaction().await.unwrap();
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, late);
}

#[tokio::test]
async fn events_that_are_committed_late_are_returned() {
    let (store, fx, mut application, _) = with_application().await;
    let start = store.changes(None, 100).await.unwrap().cursor;
    application.begin_transaction().await.unwrap();
    let late = store.enqueue_in(&mut application, vec![fx.new_job(|_| ())]).await.unwrap()[0].id;
    let soon = fx.enqueue(|_| ()).await;
    let first = store.changes(Some(start), 100).await.unwrap();
    let jobs_of = |changes: &punctual_core::Changes| changes.events.iter().map(|event| event.job).collect::<Vec<_>>();
    assert_eq!((jobs_of(&first), first.missed), (vec![soon], false));
    // A reader that starts now misses none of these events either.
    let newcomer = store.changes(None, 100).await.unwrap().cursor;
    application.commit_transaction().await.unwrap();
    for cursor in [first.cursor, newcomer] {
        let second = store.changes(Some(cursor), 100).await.unwrap();
        assert_eq!((jobs_of(&second), second.missed), (vec![late], false));
        assert!(store.changes(Some(second.cursor), 100).await.unwrap().events.is_empty());
    }
}

#[tokio::test]
async fn a_handlers_writes_and_the_end_of_its_job_are_atomic() {
    let (store, fx, mut application, _) = with_application().await;
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let success = || vec![settle(&claim, Outcome::Succeeded { result: None }, 0.5)];
    application.begin_transaction().await.unwrap();
    assert_eq!(store.settle_in(&mut application, success()).await.unwrap(), [Settled::Done]);
    application.rollback_transaction().await.unwrap();
    assert_eq!(fx.job(id).await.status, Status::Processing);
    application.begin_transaction().await.unwrap();
    assert_eq!(store.settle_in(&mut application, success()).await.unwrap(), [Settled::Done]);
    application.commit_transaction().await.unwrap();
    assert_eq!(fx.job(id).await.status, Status::Succeeded);
    application.begin_transaction().await.unwrap();
    assert_eq!(store.settle_in(&mut application, success()).await.unwrap(), [Settled::Stale]);
}

/// The number that a query returns on an application's own connection.
async fn number(application: &mut Client, question: &str) -> i32 {
    let rows = application.simple_query(question).await.unwrap().into_first_result().await.unwrap();
    rows[0].get(0).unwrap()
}

#[tokio::test]
async fn an_application_with_nocount_can_end_its_jobs() {
    let (store, fx, mut application, _) = with_application().await;
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    application.simple_query("set nocount on").await.unwrap().into_results().await.unwrap();
    application.begin_transaction().await.unwrap();
    let success = vec![settle(&claim, Outcome::Succeeded { result: None }, 0.5)];
    assert_eq!(store.settle_in(&mut application, success).await.unwrap(), [Settled::Done]);
    application.commit_transaction().await.unwrap();
    assert_eq!(fx.job(id).await.status, Status::Succeeded);
    assert_eq!(number(&mut application, "select @@options & 512").await, 512, "it is left as it was");
}

#[tokio::test]
async fn a_failure_reports_whether_the_transaction_is_over() {
    let (store, fx, mut application, _) = with_application().await;
    application.begin_transaction().await.unwrap();
    // Until the transaction ends, a table that enqueue writes to does not exist.
    application.simple_query("drop table punctual_ready").await.unwrap().into_results().await.unwrap();
    let error = store.enqueue_in(&mut application, vec![fx.new_job(|_| ())]).await.unwrap_err().to_string();
    let is_over = number(&mut application, "select @@trancount").await == 0;
    assert_eq!(error.contains("the transaction is over"), is_over, "{error}");
    application.simple_query("if @@trancount > 0 rollback").await.unwrap().into_results().await.unwrap();
    fx.enqueue(|_| ()).await;
    assert_eq!(store.counts().await.unwrap()[0].count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_of_many_processes_get_every_job_once() {
    const JOBS: usize = 120;
    let (store, fx, _, options) = with_application().await;
    let all = fx.enqueue_all((0..JOBS).map(|_| fx.new_job(|_| ())).collect()).await;
    let mut processes = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (options, request) = (options.clone(), fx.request(fx.worker(), 7));
        processes.spawn(async move {
            let store = SqlServerStore::open(options).await.unwrap();
            let mut done = Vec::new();
            loop {
                let claims = store.claim(request.clone()).await.unwrap().claims;
                if claims.is_empty() {
                    return done;
                }
                let ends = claims.iter().map(|claim| settle(claim, Outcome::Succeeded { result: None }, 0.5));
                assert!(store.settle(ends.collect()).await.unwrap().iter().all(|settled| *settled == Settled::Done));
                done.extend(claims.iter().map(|claim| claim.job.id));
            }
        });
    }
    let mut done: Vec<JobId> = processes.join_all().await.concat();
    // A claim may find all jobs locked for a moment, and return nothing; after all processes have ended, none is left.
    done.extend(fx.claim(fx.worker(), JOBS).await.iter().map(|claim| claim.job.id));
    done.sort_unstable();
    let mut expected = all;
    expected.sort_unstable();
    assert_eq!(done, expected);
    let before = store.counts().await.unwrap();
    for _ in 0..60 {
        store.maintain().await.unwrap();
    }
    assert_eq!(store.counts().await.unwrap(), before, "added up, it is the same");
    for diagnostic in store.check().await.unwrap() {
        assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
    }
}
