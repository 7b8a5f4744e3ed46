//! What only PostgreSQL has: days, several processes that start at once, a pooler in between.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use punctual_core::{Change, Changed, Fault, Keep, ManualClock, Outcome, Retry, Settled, Status, Store, Verb, settle};
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

/// What a statement finds in the store's schema, by a connection of our own.
async fn count(options: &Options, sql: &str) -> i64 {
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let sql = sql.replace("{s}", &options.schema);
    query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap()
}

#[tokio::test]
async fn a_job_for_a_distant_day_moves_to_it_when_the_day_comes() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let id = fx.enqueue_in(60 * DAY, |spec| spec.user_id = Some("ada".into())).await;
    let in_rest = "select count(*) from {s}.punctual_jobs_rest";
    assert_eq!(count(&options, in_rest).await, 1);
    let before = fx.job(id).await;
    fx.pass(60 * DAY);
    // Another process looks after the days; this one does not know of the new one yet.
    open(&options, &clock).await;
    assert_eq!(count(&options, in_rest).await, 0);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_20260430").await, 1);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_labels_20260430").await, 1);
    assert_eq!(fx.job(id).await, before);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: None }).await, Settled::Done);
    assert_eq!(fx.job(id).await.status, Status::Succeeded);
    assert_eq!(fx.story(id).await.len(), 4);
    for finding in fx.store.examine().await.unwrap() {
        assert!(finding.ok, "{}: {}", finding.check, finding.message);
    }
}

#[tokio::test]
async fn a_day_within_the_horizon_is_made_for_its_first_job() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    fx.enqueue_in(9 * DAY, |_| ()).await;
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_20260310").await, 1);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_rest").await, 0);
}

/// Plans name the partitions that they read.
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

/// Every transaction brings its own settings, and nothing is prepared for the next.
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
    fx.store.tend().await.unwrap();
    assert_eq!(fx.store.counts().await.unwrap()[0].count, 101);
}

/// What one process enqueues, another that waits gets at once, by a hint; a claim that waits needs no poll.
#[tokio::test]
async fn a_hint_crosses_from_one_process_to_another() {
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
    // The first hint may be that it listens from now on; the second can only have come from the other.
    let mut hints = 0;
    let heard = async {
        while hints < 2 {
            let id = run().await;
            let hint = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
            hints += usize::from(hint.is_ok());
            assert_eq!(two.job(id).await.status, Status::Succeeded);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard).await.expect("no hint came");
}

#[tokio::test]
async fn a_large_day_goes_as_a_whole_and_what_is_kept_of_it_stays() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let fx = open(&options, &clock).await;
    let day: String = fx.now().to_string().chars().take(10).filter(|c| *c != '-').collect();
    // Of the first day: many that succeeded, some with what is kept elsewhere too.
    let usual = fx.enqueue_all((0..40).map(|_| fx.new_job(|_| ())).collect()).await;
    let labelled = fx.enqueue(|spec| {
        spec.user_id = Some("ada".into());
        spec.unique_key = Some("once".into());
        spec.extras.tags = vec!["blue".into()];
    });
    let labelled = labelled.await;
    let kept = fx.enqueue(|spec| spec.keep_for = Some(Duration::from_secs(400 * DAY))).await;
    let dead = fx.enqueue(|spec| spec.user_id = Some("bob".into())).await;
    for claim in fx.claim(fx.worker(), 100).await {
        let outcome = if claim.job.id == dead {
            Outcome::Failed { fault: Fault::new("no"), retry: Retry::Never }
        } else {
            Outcome::Succeeded { result: None }
        };
        assert_eq!(fx.settle(&claim, outcome).await, Settled::Done);
    }
    // One is under way, and one was never claimed.
    let running = fx.enqueue(|_| ()).await;
    let mut held = fx.claim_one(fx.worker()).await;
    let queued = fx.enqueue(|spec| spec.queue = "slow".into()).await;
    let stories = [fx.story(dead).await, fx.story(kept).await];

    let keep = Keep::default();
    let (week, day_more) = (7 * DAY, Duration::from_secs(DAY));
    fx.pass(week);
    assert_eq!(fx.store.retire(keep, 1_000).await.unwrap(), 0, "one by one, though the day is to go as a whole");
    assert_eq!(fx.store.drop_days(keep, day_more).await.unwrap(), 0, "they have not been kept as deleted");
    fx.pass(3 * DAY);
    let in_day = format!("select count(*) from {{s}}.punctual_jobs_{day}");
    assert_eq!(count(&options, &in_day).await, 45);
    assert_eq!(fx.store.drop_days(keep, day_more).await.unwrap(), 41);
    assert_eq!(count(&options, &in_day).await, 4);
    assert_eq!(count(&options, &format!("select count(*) from {{s}}.punctual_labels_{day}")).await, 1);
    assert_eq!(count(&options, &format!("select count(*) from {{s}}.punctual_events_{day}")).await, 3);
    let left_over =
        "select count(*) from pg_class where relnamespace = '{s}'::regnamespace and relname ~ '_(gone|left)$'";
    assert_eq!(count(&options, left_over).await, 0);
    assert_healthy(&fx).await;

    for id in usual.iter().chain([&labelled]) {
        assert_eq!(fx.store.get(*id).await.unwrap(), None);
        assert!(fx.store.events(*id).await.unwrap().is_empty());
    }
    assert_eq!(stories, [fx.story(dead).await, fx.story(kept).await]);
    // The key is free again, and everybody who is left goes on.
    let again = fx.enqueue(|spec| spec.unique_key = Some("once".into())).await;
    assert_eq!(fx.job(again).await.status, Status::Queued);
    *held.job = fx.job(running).await;
    assert_eq!(fx.settle(&held, Outcome::Succeeded { result: None }).await, Settled::Done);
    let retry = Change { job: dead, verb: Verb::Retry, actor: "test".into(), reason: None };
    fx.store.change(vec![retry]).await.unwrap();
    let ids: Vec<_> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(ids.len(), 3);
    assert!([dead, queued, again].iter().all(|id| ids.contains(id)));
    assert_healthy(&fx).await;
}

/// A day of which nothing is kept goes with its partitions.
#[tokio::test]
async fn a_large_day_of_which_nothing_is_left_is_gone() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let fx = open(&options, &clock).await;
    let day: String = fx.now().to_string().chars().take(10).filter(|c| *c != '-').collect();
    fx.enqueue_all((0..10).map(|_| fx.new_job(|_| ())).collect()).await;
    run_all(&fx).await;
    fx.pass(5 * DAY);
    // Its labels and logs are empty, and go first.
    assert_eq!(fx.store.drop_days(Keep::default(), Duration::from_secs(DAY)).await.unwrap(), 0);
    fx.pass(5 * DAY);
    assert_eq!(fx.store.drop_days(Keep::default(), Duration::from_secs(DAY)).await.unwrap(), 10);
    let partitions =
        format!("select count(*) from pg_class where relnamespace = '{{s}}'::regnamespace and relname ~ '{day}'");
    assert_eq!(count(&options, &partitions).await, 0);
    assert_healthy(&fx).await;
    // A job may still be scheduled for that day, and another process may not know that it has gone.
    let late = fx.enqueue(|_| ()).await;
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, late);
}

/// Where most of a day stays, the rest goes job by job.
#[tokio::test]
async fn a_large_day_of_which_most_is_kept_goes_job_by_job() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let fx = open(&options, &clock).await;
    let keep_long = |number: i32| {
        let year = Duration::from_secs(365 * DAY);
        fx.new_job(move |spec| spec.keep_for = (number % 3 != 0).then_some(year))
    };
    let ids = fx.enqueue_all((0..30).map(keep_long).collect()).await;
    run_all(&fx).await;
    let (keep, day_more) = (Keep::default(), Duration::from_secs(DAY));
    fx.pass(10 * DAY);
    assert_eq!(fx.store.drop_days(keep, day_more).await.unwrap(), 0);
    assert_eq!(fx.store.retire(keep, 1_000).await.unwrap(), 10);
    fx.pass(2 * DAY);
    assert_eq!(fx.store.purge(day_more, 1_000).await.unwrap(), 10);
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(fx.store.get(id).await.unwrap().is_some(), number % 3 != 0);
    }
    assert_healthy(&fx).await;
}

/// An application's transaction that began before a day was exchanged sees the day as it was.
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
    assert_eq!(fx.store.drop_days(Keep::default(), Duration::from_secs(DAY)).await.unwrap(), 10);
    let done = settle(&claim, Outcome::Succeeded { result: None }, 0.5);
    let refused = store.settle_in(&mut transaction, &[done]).await.unwrap_err().to_string();
    assert!(refused.contains("READ COMMITTED"), "{refused}");
    transaction.rollback().await.unwrap();
    assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: None }).await, Settled::Done);
    assert_healthy(&fx).await;
}

/// What happens to a day's jobs while it is exchanged: some end, some are cancelled or retried, some come.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_of_a_day_that_is_exchanged_under_way() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let (fx, other) = (open(&options, &clock).await, open(&options, &clock).await);
    let of_day = |queue: &'static str| fx.new_job(move |spec| spec.queue = queue.into());
    fx.enqueue_all((0..1_000).map(|_| of_day("done")).collect()).await;
    run_all(&fx).await;
    let held: Vec<_> = fx.enqueue_all((0..100).map(|_| of_day("held")).collect()).await;
    let claims = fx.claim(fx.worker(), 100).await;
    let waiting = fx.enqueue_all((0..100).map(|_| of_day("waits")).collect()).await;
    let late: Vec<_> = (0..100).map(|_| of_day("late")).collect();
    let late_ids: Vec<_> = late.iter().map(|job| job.id).collect();
    fx.pass(10 * DAY);

    let exchange = async { fx.store.drop_days(Keep::default(), Duration::from_secs(DAY)).await.unwrap() };
    let end = async {
        for claim in &claims {
            assert_eq!(other.settle(claim, Outcome::Succeeded { result: None }).await, Settled::Done);
        }
    };
    let cancel = async {
        for id in &waiting {
            let cancel = Change { job: *id, verb: Verb::Cancel, actor: "test".into(), reason: None };
            assert_eq!(other.store.change(vec![cancel]).await.unwrap(), [Changed::Done]);
        }
    };
    let come = async {
        for job in late {
            other.store.enqueue(vec![job]).await.unwrap();
        }
    };
    let (gone, (), (), ()) = tokio::join!(exchange, end, cancel, come);
    // Somebody at work may have kept it from being exchanged at that moment.
    let again = fx.store.drop_days(Keep::default(), Duration::from_secs(DAY)).await.unwrap();
    assert_eq!(gone + again, 1_000);
    for (ids, status) in [(held, Status::Succeeded), (waiting, Status::Cancelled), (late_ids, Status::Queued)] {
        for id in ids {
            assert_eq!(other.job(id).await.status, status);
        }
    }
    assert_healthy(&fx).await;
}

/// What a process that was killed had detached is dropped by the next.
#[tokio::test]
async fn a_day_that_was_detached_and_not_dropped_is_dropped_by_the_next() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let left_behind = format!("create table {}.punctual_jobs_20260101_gone (id uuid)", options.schema);
    raw_sql(AssertSqlSafe(left_behind)).execute(&mut connection).await.unwrap();
    fx.store.drop_days(Keep::default(), Duration::from_secs(DAY)).await.unwrap();
    let behind = "select count(*) from pg_class where relnamespace = '{s}'::regnamespace and relname ~ '_gone$'";
    assert_eq!(count(&options, behind).await, 0);
}

/// Every day is large enough to go as a whole.
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
    for finding in fx.store.examine().await.unwrap() {
        assert!(finding.ok, "{}: {}", finding.check, finding.message);
    }
}

/// What a transaction stores bears the time at which it began, and can be seen when it has ended; its parts have numbers of their own.
#[tokio::test]
async fn what_an_application_commits_late_is_told_once() {
    let mut options = options(&ManualClock::at("2026-03-01T12:00:00Z".parse().unwrap()));
    options.clock = None;
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let look = async |cursor: &mut String| {
        let found = store.changes(Some(cursor.clone()), 100).await.unwrap();
        *cursor = found.cursor;
        assert!(!found.missed);
        found.events.into_iter().map(|told| told.job).collect::<Vec<_>>()
    };
    let mut first = store.changes(None, 100).await.unwrap().cursor;
    let ids = punctual_core::Ids::seeded(fastrand::u64(..));
    let job = |now| {
        let spec = punctual_core::Spec::new("test", punctual_core::Json::trusted("1"));
        punctual_core::NewJob::new(punctual_core::JobId::from_bits(ids.next(now)), spec)
    };
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    // Longer than others take from their beginning to what they store first.
    raw_sql("select pg_sleep(6)").execute(&mut *transaction).await.unwrap();
    assert_eq!(look(&mut first).await, []);
    let late = [job(store.now()), job(store.now().before(Duration::from_secs(60)))];
    store.enqueue_in(&mut transaction, &late).await.unwrap();
    let mut second = first.clone();
    assert_eq!(look(&mut second).await, [], "it is not committed");
    let other = job(store.now());
    store.enqueue(vec![other.clone()]).await.unwrap();
    assert_eq!(look(&mut second).await, [other.id]);
    transaction.commit().await.unwrap();
    let mut heard = look(&mut second).await;
    heard.sort();
    let mut wanted = late.map(|job| job.id);
    wanted.sort();
    assert_eq!(heard, wanted);
    assert_eq!(look(&mut second).await, []);
    assert_eq!(look(&mut first).await.len(), 3, "who looked last before all of it is told all of it");
    assert_eq!(look(&mut first).await, []);
}
