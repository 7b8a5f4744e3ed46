//! Daily partitions: how they are created, and how old ones are dropped.

use std::time::Duration;

use punctual_core::{Change, Changed, JobError, Outcome, RetentionPolicy, Retry, Settled, Status, Verb};
use punctual_sql::postgres::{
    Options,
    sqlx::{AssertSqlSafe, Connection, PgConnection, query_scalar, raw_sql},
};
use punctual_testkit::Fixture;

use super::{DAY, assert_healthy, count, in_whole_days, open, options, run_all};

#[tokio::test]
async fn a_job_for_a_distant_day_moves_to_its_partition_when_the_day_comes() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let id = fx.enqueue_in(60 * DAY, |spec| spec.user_id = Some("ada".into())).await;
    let in_rest = "select count(*) from {s}.punctual_jobs_rest";
    assert_eq!(count(&options, in_rest).await, 1);
    let before = fx.job(id).await;
    fx.pass(60 * DAY);
    // Another process maintains the partitions; this one does not know of the new one yet.
    open(&options, &clock).await;
    assert_eq!(count(&options, in_rest).await, 0);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_20260430").await, 1);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_labels_20260430").await, 1);
    assert_eq!(fx.job(id).await, before);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(fx.settle(&claim, Outcome::Succeeded { result: None }).await, Settled::Done);
    assert_eq!(fx.job(id).await.status, Status::Succeeded);
    assert_eq!(fx.history(id).await.len(), 4);
    for diagnostic in fx.store.check().await.unwrap() {
        assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
    }
}

#[tokio::test]
async fn a_partition_within_the_horizon_is_created_for_its_first_job() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    fx.enqueue_in(9 * DAY, |_| ()).await;
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_20260310").await, 1);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_rest").await, 0);
}

#[tokio::test]
async fn a_large_day_is_replaced_as_a_whole_and_its_kept_jobs_remain() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let fx = open(&options, &clock).await;
    let day: String = fx.now().to_string().chars().take(10).filter(|c| *c != '-').collect();
    // On the first day: many succeed, some of them with rows in other tables.
    let usual = fx.enqueue_all((0..40).map(|_| fx.new_job(|_| ())).collect()).await;
    let labelled = fx.enqueue(|spec| {
        spec.user_id = Some("ada".into());
        spec.unique_key = Some("once".into());
        spec.options.tags = vec!["blue".into()];
    });
    let labelled = labelled.await;
    let kept = fx.enqueue(|spec| spec.keep_for = Some(Duration::from_secs(400 * DAY))).await;
    let dead = fx.enqueue(|spec| spec.user_id = Some("bob".into())).await;
    for claim in fx.claim(fx.worker(), 100).await {
        let outcome = if claim.job.id == dead {
            Outcome::Failed { fault: JobError::new("no"), retry: Retry::Never }
        } else {
            Outcome::Succeeded { result: None }
        };
        assert_eq!(fx.settle(&claim, outcome).await, Settled::Done);
    }
    // One is running, and one was never claimed.
    let running = fx.enqueue(|_| ()).await;
    let mut held = fx.claim_one(fx.worker()).await;
    let queued = fx.enqueue(|spec| spec.queue = "slow".into()).await;
    let histories = [fx.history(dead).await, fx.history(kept).await];

    let keep = RetentionPolicy::default();
    let (week, day_more) = (7 * DAY, Duration::from_secs(DAY));
    fx.pass(week);
    assert_eq!(fx.store.expire(keep, 1_000).await.unwrap(), 0, "one by one, though the day is to go as a whole");
    assert_eq!(fx.store.drop_partitions(keep, day_more).await.unwrap(), 0, "they have not been kept as deleted");
    fx.pass(3 * DAY);
    let in_day = format!("select count(*) from {{s}}.punctual_jobs_{day}");
    assert_eq!(count(&options, &in_day).await, 45);
    assert_eq!(fx.store.drop_partitions(keep, day_more).await.unwrap(), 41);
    assert_eq!(count(&options, &in_day).await, 4);
    assert_eq!(count(&options, &format!("select count(*) from {{s}}.punctual_labels_{day}")).await, 1);
    assert_eq!(count(&options, &format!("select count(*) from {{s}}.punctual_events_{day}")).await, 3);
    let left_over =
        "select count(*) from pg_class where relnamespace = '{s}'::regnamespace and relname ~ '_(gone|left)$'";
    assert_eq!(count(&options, left_over).await, 0);
    assert_healthy(&fx).await;

    for id in usual.iter().chain([&labelled]) {
        assert_eq!(fx.store.get(*id).await.unwrap(), None);
        assert!(fx.store.history(*id).await.unwrap().events.is_empty());
    }
    assert_eq!(histories, [fx.history(dead).await, fx.history(kept).await]);
    // The key is free again, and the remaining jobs continue.
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

/// A day without retained jobs is dropped with its partitions.
#[tokio::test]
async fn a_large_day_without_remaining_jobs_is_dropped() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let fx = open(&options, &clock).await;
    let day: String = fx.now().to_string().chars().take(10).filter(|c| *c != '-').collect();
    fx.enqueue_all((0..10).map(|_| fx.new_job(|_| ())).collect()).await;
    run_all(&fx).await;
    fx.pass(5 * DAY);
    // Its label and log partitions are empty, and are dropped first.
    assert_eq!(fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await.unwrap(), 0);
    fx.pass(5 * DAY);
    assert_eq!(fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await.unwrap(), 10);
    let partitions =
        format!("select count(*) from pg_class where relnamespace = '{{s}}'::regnamespace and relname ~ '{day}'");
    assert_eq!(count(&options, &partitions).await, 0);
    assert_healthy(&fx).await;
    // A job may still be scheduled for that day by a process that does not know that its partitions were dropped.
    let late = fx.enqueue(|_| ()).await;
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, late);
}

/// Where most jobs of a day are retained, the others are removed one by one.
#[tokio::test]
async fn a_large_day_of_which_most_is_kept_is_removed_job_by_job() {
    let clock = Fixture::start();
    let options = in_whole_days(options(&clock));
    let fx = open(&options, &clock).await;
    let keep_long = |number: i32| {
        let year = Duration::from_secs(365 * DAY);
        fx.new_job(move |spec| spec.keep_for = (number % 3 != 0).then_some(year))
    };
    let ids = fx.enqueue_all((0..30).map(keep_long).collect()).await;
    run_all(&fx).await;
    let (keep, day_more) = (RetentionPolicy::default(), Duration::from_secs(DAY));
    fx.pass(10 * DAY);
    assert_eq!(fx.store.drop_partitions(keep, day_more).await.unwrap(), 0);
    assert_eq!(fx.store.expire(keep, 1_000).await.unwrap(), 10);
    fx.pass(2 * DAY);
    assert_eq!(fx.store.purge(day_more, 1_000).await.unwrap(), 10);
    for (number, id) in ids.into_iter().enumerate() {
        assert_eq!(fx.store.get(id).await.unwrap().is_some(), number % 3 != 0);
    }
    assert_healthy(&fx).await;
}

/// While a day's partitions are exchanged, some of its jobs end, some are cancelled, some are added.
#[tokio::test(flavor = "multi_thread")]
async fn changes_to_a_day_that_is_being_replaced_are_kept() {
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

    let exchange =
        async { fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await.unwrap() };
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
    // A concurrent operation may have prevented the exchange at that moment.
    let again = fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await.unwrap();
    assert_eq!(gone + again, 1_000);
    for (ids, status) in [(held, Status::Succeeded), (waiting, Status::Cancelled), (late_ids, Status::Queued)] {
        for id in ids {
            assert_eq!(other.job(id).await.status, status);
        }
    }
    assert_healthy(&fx).await;
}

/// A partition that a killed process had detached is dropped by the next process.
#[tokio::test]
async fn a_day_that_was_detached_and_not_dropped_is_dropped_by_the_next_call() {
    let clock = Fixture::start();
    let options = options(&clock);
    let fx = open(&options, &clock).await;
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let left_behind = format!("create table {}.punctual_jobs_20260101_gone (id uuid)", options.schema);
    raw_sql(AssertSqlSafe(left_behind)).execute(&mut connection).await.unwrap();
    fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await.unwrap();
    let behind = "select count(*) from pg_class where relnamespace = '{s}'::regnamespace and relname ~ '_gone$'";
    assert_eq!(count(&options, behind).await, 0);
}

/// A transaction of another program, which blocks others.
struct Blocker {
    connection: PgConnection,
    pid: i32,
}

impl Blocker {
    async fn new(options: &Options, statement: &str) -> Self {
        let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
        let pid = query_scalar("select pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
        let statement = format!("begin; {}", statement.replace("{s}", &options.schema));
        raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        Self { connection, pid }
    }

    /// Waits until another transaction waits for this one.
    async fn is_waited_for(&self, options: &Options) {
        let waits = format!("select count(*) from pg_stat_activity where {} = any (pg_blocking_pids(pid))", self.pid);
        let waiting = async {
            while count(options, &waits).await == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("no transaction waits");
    }

    async fn end(mut self) {
        raw_sql("commit").execute(&mut self.connection).await.unwrap();
    }
}

/// Makes the default partition count as slow to scan.
fn with_large_rest(options: Options) -> Options {
    Options { default_scan_max_bytes: 0, ..options }
}

const CONSTRAINTS: &str =
    "select count(*) from pg_constraint where connamespace = '{s}'::regnamespace and conname ~ '^punctual_not_of_'";

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_is_created_beside_a_large_default_partition_without_blocking_others() {
    let clock = Fixture::start();
    let options = with_large_rest(options(&clock));
    let fx = open(&options, &clock).await;
    let moved = fx.enqueue_in(40 * DAY, |spec| spec.user_id = Some("ada".into())).await;
    fx.enqueue_in(41 * DAY, |_| ()).await;
    fx.pass(40 * DAY);
    let locked = "select from {s}.punctual_jobs_rest where scheduled_at < '2026-04-11' for update";
    let blocker = Blocker::new(&options, locked).await;
    let maker = open(&options, &clock).await;
    let made = tokio::spawn(async move { maker.store.maintain().await });
    blocker.is_waited_for(&options).await;
    // One job for another day, and one for the day whose partition is being created.
    let other = fx.enqueue_in(DAY, |_| ()).await;
    let late = fx.new_job(|_| ());
    let (late_id, store) = (late.id, fx.store.clone());
    let late = tokio::spawn(async move { store.enqueue(vec![late]).await });
    assert_eq!(fx.job(moved).await.status, Status::Scheduled);
    blocker.end().await;
    made.await.unwrap().unwrap();
    late.await.unwrap().unwrap();

    let of_day =
        "select count(*) from {s}.punctual_jobs_20260410 union all select count(*) from {s}.punctual_labels_20260410";
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let of_day = AssertSqlSafe(of_day.replace("{s}", &options.schema));
    assert_eq!(query_scalar::<_, i64>(of_day).fetch_all(&mut connection).await.unwrap(), [2, 1]);
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_rest").await, 2);
    assert_eq!(count(&options, CONSTRAINTS).await, 0);
    let claimed: Vec<_> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [moved, late_id]);
    assert_eq!(fx.job(other).await.status, Status::Scheduled);
    assert_healthy(&fx).await;
}

/// A process may be killed while it creates a day's partitions.
#[tokio::test]
async fn a_partition_that_was_left_incomplete_is_created_by_the_next_enqueue() {
    let clock = Fixture::start();
    let options = with_large_rest(options(&clock));
    let fx = open(&options, &clock).await;
    let before = fx.enqueue_in(40 * DAY, |_| ()).await;
    fx.pass(39 * DAY);
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    for (table, column) in [("events", "at"), ("logs", "at"), ("labels", "scheduled_at"), ("jobs", "scheduled_at")] {
        let closed = format!(
            "alter table {}.punctual_{table}_rest add constraint punctual_not_of_20260410
                 check ({column} < '2026-04-10T00:00:00Z' or {column} >= '2026-04-11T00:00:00Z') not valid",
            options.schema
        );
        raw_sql(AssertSqlSafe(closed)).execute(&mut connection).await.unwrap();
    }
    let id = fx.enqueue_in(DAY, |_| ()).await;
    assert_eq!(count(&options, "select count(*) from {s}.punctual_jobs_20260410").await, 2);
    assert_eq!(count(&options, CONSTRAINTS).await, 0);
    fx.pass(DAY);
    let claimed: Vec<_> = fx.claim(fx.worker(), 10).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [before, id]);
    assert_healthy(&fx).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_do_not_wait_for_a_day_that_is_copied() {
    let clock = Fixture::start();
    let options = with_large_rest(in_whole_days(options(&clock)));
    let (fx, other) = (open(&options, &clock).await, open(&options, &clock).await);
    fx.enqueue_in(60 * DAY, |_| ()).await;
    fx.enqueue(|spec| spec.keep_for = Some(Duration::from_secs(DAY))).await;
    fx.enqueue_all((0..9).map(|_| fx.new_job(|_| ())).collect()).await;
    run_all(&fx).await;
    let dead = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, Outcome::Failed { fault: JobError::new("no"), retry: Retry::Never }).await;
    fx.pass(10 * DAY);
    // The copy exists, and the day's rows in other tables are about to be deleted.
    let blocker = Blocker::new(&options, "select from {s}.punctual_expiries for update").await;
    let exchange =
        tokio::spawn(
            async move { fx.store.drop_partitions(RetentionPolicy::default(), Duration::from_secs(DAY)).await },
        );
    blocker.is_waited_for(&options).await;
    let retry = Change { job: dead, verb: Verb::Retry, actor: "test".into(), reason: None };
    assert_eq!(other.store.change(vec![retry]).await.unwrap(), [Changed::Done]);
    blocker.end().await;
    assert_eq!(exchange.await.unwrap().unwrap(), 10);
    assert_eq!(other.job(dead).await.status, Status::Queued);
    assert_eq!(count(&options, CONSTRAINTS).await, 0);
    assert_healthy(&other).await;
}
