//! Features that only PostgreSQL has: daily partitions, concurrent starts of several processes, a connection pooler,
//! transactions of applications, the server's time. And what all of its statements write, compared with core's
//! decisions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod days;
mod effects;
mod server_time;
mod tables;

use std::time::Duration;

use punctual_core::{
    Change, JobId, Limits, ManualClock, NewJob, Outcome, QueueSave, QueueSettings, RetentionPolicy, Settled, Status,
    Timestamp, Verb, dispatch::PrimaryStore, settle, store::ports::*,
};
use punctual_sql::postgres::{
    Options, PostgresStore,
    sqlx::{AssertSqlSafe, Connection, PgConnection, query_scalar, raw_sql},
};
use punctual_testkit::Fixture;

const DAY: u64 = 86_400;

fn options(clock: &ManualClock) -> Options {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
    let mut options: Options = url.parse().unwrap();
    options.schema = format!("test_{:016x}", fastrand::u64(..));
    options.days_ahead = 0;
    options.clock(clock.clone())
}

async fn open(options: &Options, clock: &ManualClock) -> Fixture {
    Fixture::new(PostgresStore::open(options.clone()).await.unwrap(), clock.clone())
}

/// The result of a counting query on the store's schema, on a connection of its own.
async fn count(options: &Options, sql: &str) -> i64 {
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let sql = sql.replace("{s}", &options.schema);
    query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn a_job_whose_row_is_corrupt_is_set_aside_and_the_others_run() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let ids = fx.enqueue_all((0..3).map(|_| fx.new_job(|_| ())).collect()).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut set = async |value: &str| {
        for table in ["jobs", "ready"] {
            let id = format!("{:032x}", ids[1].to_bits());
            let sql = format!("update {}.punctual_{table} set options = {value} where id = '{id}'", options.schema);
            raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        }
    };
    set("'{\"tags\": 5}'").await;
    let claims = fx.claim(fx.worker(), 10).await;
    assert_eq!(claims.iter().map(|claim| claim.job.id).collect::<Vec<_>>(), [ids[0], ids[2]]);
    let refused = fx.store.get(ids[1]).await.unwrap_err();
    assert!(!refused.is_transient() && refused.to_string().contains(&ids[1].to_string()), "{refused}");
    set("null").await;
    let job = fx.job(ids[1]).await;
    assert_eq!(job.status, Status::Dead);
    assert!(job.error.unwrap().message.starts_with("corrupt row"));
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
}

#[tokio::test]
async fn a_job_whose_row_is_corrupt_is_set_aside_when_it_becomes_due_and_when_its_worker_is_lost() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut set = async |id: JobId, value: &str| {
        let id = format!("{:032x}", id.to_bits());
        let sql = format!("update {}.punctual_jobs set options = {value} where id = '{id}'", options.schema);
        assert_eq!(raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap().rows_affected(), 1);
    };
    let due = [fx.enqueue_in(1, |_| ()).await, fx.enqueue_in(1, |_| ()).await];
    set(due[0], "'{'").await;
    fx.pass(2);
    let ids: Vec<JobId> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(ids, due[1..]);
    // The worker is lost.
    set(due[1], "'{\"tags\": 5}'").await;
    fx.pass(60);
    assert_eq!(fx.reap().await, 0);
    assert!(fx.store.expired(10).await.unwrap().is_empty());
    for id in due {
        set(id, "null").await;
        let job = fx.job(id).await;
        assert_eq!(job.status, Status::Dead);
        assert!(job.error.unwrap().message.starts_with("corrupt row"));
    }
}

/// The settings of a queue with this limit, saved after this revision.
fn limited(queue: &str, concurrency: Option<u32>, revision: u64) -> QueueSave {
    let limits = Limits { concurrency, ..Limits::default() };
    let settings = QueueSettings { limits, ..QueueSettings::default() };
    QueueSave { name: queue.into(), settings, revision, actor: "ada".into(), action: "limits changed".into() }
}

#[tokio::test]
async fn a_queue_whose_settings_cannot_be_read_starts_no_jobs_and_the_others_go_on() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    assert!(fx.store.save_queue(limited("a", Some(1), 0)).await.unwrap());
    let held = fx.enqueue(|spec| spec.queue = "a".into()).await;
    let other = fx.enqueue(|spec| spec.queue = "b".into()).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let corrupt = format!("update {}.punctual_queues set settings = '{{' where name = 'a'", options.schema);
    assert_eq!(raw_sql(AssertSqlSafe(corrupt)).execute(&mut connection).await.unwrap().rows_affected(), 1);
    // It can be opened, too.
    open(&options, &clock).await;
    // Claims read the settings again after a change.
    assert!(fx.store.save_queue(limited("b", None, 0)).await.unwrap());
    let claimed: Vec<JobId> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [other]);
    let queues = fx.store.queues().await.unwrap();
    let start: Vec<_> = queues.iter().map(|queue| (&*queue.name, queue.settings.starts_jobs())).collect();
    assert_eq!(start, [("a", false), ("b", true)]);
    let checked = async || fx.store.check().await.unwrap().into_iter().find(|one| one.check == "queues").unwrap();
    let found = checked().await;
    assert!(!found.ok && found.message.contains("settings of a cannot be read, and none of its jobs start"));
    assert!(fx.store.save_queue(limited("a", Some(2), 1)).await.unwrap());
    let claimed: Vec<JobId> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [held]);
    assert!(checked().await.ok);
}

/// The server ends a transaction by itself after errors of its own, but not after those that this process finds.
#[tokio::test]
async fn a_change_that_fails_releases_its_locks_at_once() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let job = fx.enqueue(|_| ()).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let (table, id) = (format!("{}.punctual_jobs", options.schema), format!("{:032x}", job.to_bits()));
    let corrupt = format!("update {table} set options = '{{\"tags\": 5}}' where id = '{id}'");
    raw_sql(AssertSqlSafe(corrupt)).execute(&mut connection).await.unwrap();
    let change = Change { job, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    fx.store.change(vec![change]).await.unwrap_err();
    let lock = format!("select from {table} where id = '{id}' for update nowait");
    raw_sql(AssertSqlSafe(lock)).execute(&mut connection).await.unwrap();
}

/// As a settlement of a parent does it; in the other order, each could wait for the other.
#[tokio::test]
async fn a_waiting_job_that_is_removed_is_locked_after_its_row_of_waiting_jobs() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let parents = vec![fx.enqueue(|_| ()).await];
    let child = fx.enqueue_all(vec![NewJob { parents, ..fx.new_job(|spec| spec.ephemeral = true) }]).await[0];
    let lock = |table: &str, how: &str| {
        let Options { schema, .. } = &options;
        let id = format!("{:032x}", child.to_bits());
        AssertSqlSafe(format!("select from {schema}.punctual_{table} where id = '{id}' for update {how}"))
    };
    let mut parent_ends = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut transaction = parent_ends.begin().await.unwrap();
    raw_sql(lock("waiting", "")).execute(&mut *transaction).await.unwrap();
    let pid: i32 = query_scalar("select pg_backend_pid()").fetch_one(&mut *transaction).await.unwrap();
    let then_job = async {
        let waits = format!("select count(*) from pg_stat_activity where {pid} = any (pg_blocking_pids(pid))");
        while count(&options, &waits).await == 0 {}
        raw_sql(lock("jobs", "nowait")).execute(&mut *transaction).await.unwrap();
        transaction.rollback().await.unwrap();
    };
    let (removed, ()) = tokio::join!(fx.store.drop_ephemeral(Timestamp::MAX, 10), then_job);
    assert_eq!(removed.unwrap(), 1);
}

#[tokio::test]
async fn the_check_of_indexes_names_what_is_inconsistent() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    fx.enqueue(|_| ()).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let sql = format!("delete from {}.punctual_ready", options.schema);
    raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    let found = fx.store.check().await.unwrap().into_iter().find(|diagnostic| diagnostic.check == "indexes").unwrap();
    let expected = "inconsistent index entries: 1 (jobs wrongly in or missing from punctual_ready: 1)";
    assert_eq!((found.ok, found.message.as_str()), (false, expected));
}

/// Query plans name the partitions that they read.
#[tokio::test]
async fn a_look_up_by_id_touches_one_partition() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    for day in 1..5 {
        fx.enqueue_in(day * DAY, |_| ()).await;
    }
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let explain = format!(
        "explain select * from {}.punctual_jobs_now
         where scheduled_at = '2026-03-03 12:00Z' and id = '019ca945-f460-7000-9696-b0764dbfc48c'",
        options.schema
    );
    let plan: Vec<String> = query_scalar(AssertSqlSafe(explain)).fetch_all(&mut connection).await.unwrap();
    let read = plan.iter().filter(|line| line.contains(" on punctual_jobs")).count();
    assert_eq!(read, 1, "{plan:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_processes_may_start_on_an_empty_database_at_once() {
    let clock = Fixture::start();
    let options = options(&clock);
    let open = || PostgresStore::open(options.clone());
    let opened = tokio::join!(open(), open(), open(), open());
    let stores = [opened.0, opened.1, opened.2, opened.3].map(Result::unwrap);
    let fx = Fixture::new(stores[0].clone(), clock.clone());
    for store in stores {
        store.enqueue(vec![fx.new_job(|_| ())]).await.unwrap();
    }
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs").await, 4);
    let migrations = count(&options, "select count(*) from {s}.punctual_schema").await;
    assert_eq!(migrations as usize, punctual_sql::postgres::MIGRATIONS.len());
}

/// Every transaction sets its own settings, and no prepared statement outlives it.
#[tokio::test]
async fn it_works_behind_a_pooler_of_transactions() {
    let clock = Fixture::start();
    let mut options = options(&clock);
    options.transaction_pooler = true;
    let fx = open(&options, &clock).await;
    fx.enqueue_all((0..100).map(|_| fx.new_job(|_| ())).collect()).await;
    fx.enqueue_in(5, |_| ()).await;
    fx.pass(5);
    let mut done = 0;
    for claim in fx.claim(fx.worker(), 200).await {
        fx.settle(&claim, Outcome::Succeeded { result: None }).await;
        done += 1;
    }
    assert_eq!(done, 101);
    assert_eq!(
        count(&options, "select count(*) from {s}.punctual_attempts").await,
        101,
        "in the schema that was named"
    );
    fx.store.maintain().await.unwrap();
    assert_eq!(fx.store.counts().await.unwrap()[0].count, 101);
}

/// A job that one process enqueues reaches a waiting claim of another process at once, by a hint, without polling.
#[tokio::test]
async fn a_hint_reaches_another_process() {
    let clock = Fixture::start();
    let options = options(&clock);
    let (one, two) = (open(&options, &clock).await, open(&options, &clock).await);
    let mut changes = two.store.watch();
    let run = async || {
        let id = one.enqueue(|_| ()).await;
        let claim = one.claim_one(one.worker()).await;
        one.settle(&claim, Outcome::Succeeded { result: None }).await;
        id
    };
    // The first hint may announce that the listener has started; the second can only come from the other process.
    let mut hints = 0;
    let received = async {
        while hints < 2 {
            let id = run().await;
            let hint = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
            hints += usize::from(hint.is_ok());
            assert_eq!(two.job(id).await.status, Status::Succeeded);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), received).await.expect("no hint came");
}

/// The dispatcher's process and an operator lock rows in orders of their own; if either waited for the other, they
/// could deadlock.
#[tokio::test]
async fn a_job_that_another_transaction_has_locked_is_marked_as_dispatched_later() {
    let clock = Fixture::start();
    let options = Options { dispatched: true, ..options(&clock) };
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let fx = Fixture::new(store.clone(), clock.clone());
    let locked = [fx.enqueue(|_| ()).await, fx.enqueue_in(60, |_| ()).await];
    let free = [fx.enqueue(|_| ()).await, fx.enqueue_in(90, |_| ()).await];
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    for table in ["ready", "due"] {
        let sql = format!("update {}.punctual_{table} set dispatched = false", options.schema);
        raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    }
    let until = store.now().after(Duration::from_secs(100));
    let undispatched = async || store.undispatched(until, 10).await.unwrap();
    assert_eq!(undispatched().await.len(), 4);

    let mut transaction = connection.begin().await.unwrap();
    for (table, job) in ["ready", "due"].into_iter().zip(locked) {
        let (schema, id) = (&options.schema, job.to_bits());
        let sql = format!("select 1 from {schema}.punctual_{table} where id = '{id:032x}' for update");
        query_scalar::<_, i32>(AssertSqlSafe(sql)).fetch_one(&mut *transaction).await.unwrap();
    }
    assert_eq!(store.mark_dispatched(undispatched().await).await.unwrap(), free.len());
    let left = undispatched().await;
    assert_eq!(left.iter().map(|hint| hint.job).collect::<Vec<_>>(), locked);
    transaction.rollback().await.unwrap();
    assert_eq!(store.mark_dispatched(left).await.unwrap(), locked.len());
    assert_eq!(undispatched().await, []);
}

/// An application's transaction that began before a day's partitions were exchanged sees their old contents.
#[tokio::test]
async fn a_transaction_that_cannot_see_a_job_cannot_end_its_execution() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let fx = Fixture::new(store.clone(), clock.clone());
    fx.enqueue_all((0..10).map(|_| fx.new_job(|_| ())).collect()).await;
    run_all(&fx).await;
    fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.pass(10 * DAY);
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut transaction = connection.begin_with("begin isolation level repeatable read").await.unwrap();
    query_scalar::<_, i32>("select 1").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await.unwrap(), 10);
    let done = settle(&claim, Outcome::Succeeded { result: None }, 0.5);
    let refused = store.settle_in(&mut transaction, &[done]).await.unwrap_err().to_string();
    assert!(refused.contains("READ COMMITTED"), "{refused}");
    transaction.rollback().await.unwrap();
    assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: None }).await, Settled::Done);
    assert_healthy(&fx).await;
}

/// Treats every day as large enough to be dropped as a whole.
fn in_whole_days(options: Options) -> Options {
    Options { whole_day_min_bytes: 1, ..options }
}

/// Runs all queued jobs; each succeeds.
async fn run_all(fx: &Fixture) {
    for claim in fx.claim(fx.worker(), 1_000).await {
        assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: None }).await, Settled::Done);
    }
}

async fn assert_healthy(fx: &Fixture) {
    for diagnostic in fx.store.check().await.unwrap() {
        assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
    }
}

/// Events of a transaction carry the time at which it began, and become visible when it commits; its parts have numbers
/// of their own.
#[tokio::test]
async fn an_event_that_an_application_commits_late_is_returned_once() {
    let mut options = options(&ManualClock::at("2026-03-01T12:00:00Z".parse().unwrap()));
    // A read does not find what was stored by a transaction that is older than the last read.
    (options.clock, options.first_write_max) = (None, Duration::ZERO);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let read = async |cursor: &mut String| {
        let found = store.changes(Some(cursor.clone()), 100).await.unwrap();
        *cursor = found.cursor;
        assert!(!found.missed);
        found.events.into_iter().map(|event| event.job).collect::<Vec<_>>()
    };
    let mut first = store.changes(None, 100).await.unwrap().cursor;
    let ids = punctual_core::Ids::seeded(fastrand::u64(..));
    let job = |now| {
        let spec = punctual_core::Spec::new("test", punctual_core::Json::trusted("1"));
        punctual_core::NewJob::new(punctual_core::JobId::from_bits(ids.next(now)), spec)
    };
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    assert_eq!(read(&mut first).await, []);
    let late = [job(store.now()), job(store.now().before(Duration::from_secs(60)))];
    store.enqueue_in(&mut transaction, &late).await.unwrap();
    let mut second = first.clone();
    assert_eq!(read(&mut second).await, [], "it is not committed");
    let other = job(store.now());
    store.enqueue(vec![other.clone()]).await.unwrap();
    assert_eq!(read(&mut second).await, [other.id]);
    transaction.commit().await.unwrap();
    let mut found = read(&mut second).await;
    found.sort();
    let mut expected = late.map(|job| job.id);
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(read(&mut second).await, []);
    assert_eq!(read(&mut first).await.len(), 3, "a cursor from before all events returns all of them");
    assert_eq!(read(&mut first).await, []);
}

/// All settings of a session, as its current transaction sees them.
async fn settings(connection: &mut PgConnection) -> Vec<(String, String)> {
    let all = "select name, coalesce(setting, '') from pg_settings order by name";
    sqlx::query_as(all).fetch_all(connection).await.unwrap()
}

/// Whether the call succeeds or fails, the caller's transaction continues with its own settings.
#[tokio::test]
async fn a_call_in_the_callers_transaction_restores_settings_and_savepoints() {
    let clock = Fixture::start();
    let options = options(&clock);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let fx = Fixture::new(store.clone(), clock.clone());
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    raw_sql("create temporary table orders (id int)").execute(&mut connection).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    raw_sql("set local lock_timeout = '100ms'; insert into orders values (1)")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let before = settings(&mut transaction).await;

    let known = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    let orphan = punctual_core::NewJob { parents: vec![fx.new_job(|_| ()).id], ..fx.new_job(|_| ()) };
    let refused = store.enqueue_in(&mut transaction, &[fx.new_job(|_| ()), orphan]).await.unwrap_err();
    assert!(refused.to_string().starts_with("parents: "), "{refused}");
    assert_eq!(settings(&mut transaction).await, before, "after a refusal");

    let mut other = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut blocker = other.begin().await.unwrap();
    let lock = format!("lock table {}.punctual_running, {0}.punctual_ready in access exclusive mode", options.schema);
    raw_sql(AssertSqlSafe(lock)).execute(&mut *blocker).await.unwrap();
    store.enqueue_in(&mut transaction, &[fx.new_job(|_| ())]).await.unwrap_err();
    assert_eq!(settings(&mut transaction).await, before, "after an error of the server");
    let done = settle(&claim, Outcome::Succeeded { result: None }, 0.5);
    store.settle_in(&mut transaction, std::slice::from_ref(&done)).await.unwrap_err();
    assert_eq!(settings(&mut transaction).await, before, "after an error of the server");
    blocker.rollback().await.unwrap();

    let kept = store.enqueue_in(&mut transaction, &[fx.new_job(|_| ())]).await.unwrap()[0];
    assert_eq!(store.settle_in(&mut transaction, &[done]).await.unwrap(), [Settled::Done]);
    assert_eq!(settings(&mut transaction).await, before, "after a success");
    raw_sql("savepoint last").execute(&mut *transaction).await.unwrap();
    let left = raw_sql("release savepoint punctual").execute(&mut *transaction).await.unwrap_err();
    assert!(left.to_string().contains("does not exist"), "{left}");
    raw_sql("rollback to savepoint last").execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    let orders: i64 = query_scalar("select count(*) from orders").fetch_one(&mut connection).await.unwrap();
    assert_eq!(orders, 1, "the caller's own work is there");
    assert_eq!((fx.job(known).await.status, fx.job(kept.id).await.status), (Status::Succeeded, Status::Queued));
    assert_eq!(punctual_testkit::conformance::audit_store(&store).await, 2, "and nothing of what failed");
}
