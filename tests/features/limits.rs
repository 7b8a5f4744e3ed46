//! Limits hold across many workers in many processes, even if these are killed.

use std::{collections::BTreeMap, time::Duration};

use punctual::{
    Draft, Filter, Punctual, Status, Timestamp,
    core::{Attempt, ClaimRequest, Claimed, Limits, Page, Rate, WorkerId},
    postgres::sqlx::{self, AssertSqlSafe, Connection, PgConnection},
};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{Helper, Role, TestStore, count, helper, on_each_engine, roles::limited::Guarded, until};

const HELPER: Helper = helper!();
const PROCESSES: usize = 4;

/// A connection of another program that uses the same schema.
async fn other_session(test_store: &TestStore) -> PgConnection {
    let (server, settings) = test_store.url.split_once('?').unwrap();
    let (_, schema) = settings.split_once("schema=").unwrap();
    let mut connection = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("set search_path to {schema}"))).execute(&mut connection).await.unwrap();
    connection
}

async fn claim(punctual: &Punctual) -> Claimed {
    let request = ClaimRequest::new(WorkerId::from_bits(7), 10, Duration::from_secs(30));
    punctual.store().claim(request).await.unwrap()
}

#[tokio::test]
async fn a_job_in_other_hands_counts_as_no_start_and_its_key_is_not_forgotten() {
    let test_store = TestStore::postgres();
    let punctual = test_store.connect().await;
    let rate = Some(Rate { count: 1, period: Duration::from_secs(3_600) });
    punctual.admin("test").set_queue_limits("default", Limits { rate, ..Limits::default() }).await.unwrap();
    let id = punctual.enqueue(Guarded { key: Some("a".into()) }).await.unwrap().id;
    let mut other = other_session(&test_store).await;
    let mut transaction = other.begin().await.unwrap();
    sqlx::raw_sql("select from punctual_ready for update").execute(&mut *transaction).await.unwrap();
    assert!(claim(&punctual).await.claims.is_empty());
    audit_store(&**punctual.store()).await;
    transaction.commit().await.unwrap();
    assert_eq!(claim(&punctual).await.claims[0].job.id, id);
}

#[tokio::test]
async fn a_claim_under_the_limits_of_one_queue_blocks_no_other() {
    let test_store = TestStore::postgres();
    let punctual = test_store.connect().await;
    let limits = Limits { concurrency: Some(1), ..Limits::default() };
    punctual.admin("test").set_queue_limits("narrow", limits).await.unwrap();
    let narrow = punctual.enqueue(Draft::new("x", &()).queue("narrow").priority(9)).await.unwrap().id;
    let plain = punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    let mut other = other_session(&test_store).await;
    let mut transaction = other.begin().await.unwrap();
    let at_the_limits =
        "select pg_advisory_xact_lock(hashtext('punctual limits ' || current_schema()), hashtext('narrow'))";
    sqlx::raw_sql(at_the_limits).execute(&mut *transaction).await.unwrap();
    let claimed = claim(&punctual).await;
    assert_eq!(claimed.claims.iter().map(|claim| claim.job.id).collect::<Vec<_>>(), [plain]);
    assert!(claimed.opens_at.is_some(), "it claims again soon");
    transaction.commit().await.unwrap();
    assert_eq!(claim(&punctual).await.claims[0].job.id, narrow);
}

on_each_engine! {
    of_one_key_never_two_run_at_once_and_none_waits_forever
    rates_hold_for_all_processes_together
}

/// Runs jobs to their end in several processes that are killed at random moments and restarted.
async fn run_and_kill(test_store: &TestStore, punctual: &Punctual, jobs: usize, kills: usize) {
    let start = || HELPER.start(Role::LimitedWorkers, test_store);
    let mut processes: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    for kill in 1..=kills {
        // Somewhere in the middle of the work.
        let enough = (jobs * kill / (kills + 2)) as u64;
        until("the workers to work", async || count(punctual, Status::Succeeded).await >= enough).await;
        processes.remove(fastrand::usize(..PROCESSES)).kill();
        processes.push(start());
    }
    until("all jobs to succeed", async || count(punctual, Status::Succeeded).await == jobs as u64).await;
}

/// All attempts of all jobs, by concurrency key.
async fn attempts(punctual: &Punctual) -> BTreeMap<Option<String>, Vec<Attempt>> {
    let (mut attempts, mut page) = (BTreeMap::<_, Vec<Attempt>>::new(), Page::first(1_000));
    loop {
        let found = punctual.store().list(Filter::default(), page.clone()).await.unwrap();
        let histories = punctual.store().histories(found.jobs.iter().map(|job| job.id).collect()).await.unwrap();
        for (job, history) in found.jobs.into_iter().zip(histories) {
            attempts.entry(job.spec.options.concurrency_key).or_default().extend(history.attempts);
        }
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    attempts.values_mut().for_each(|of_key| of_key.sort_by_key(|attempt| attempt.started_at));
    attempts
}

async fn of_one_key_never_two_run_at_once_and_none_waits_forever(new_store: fn() -> TestStore) {
    const JOBS: usize = 1_000;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let job = |number: usize| Guarded { key: Some(format!("key-{}", number % 20)) };
    punctual.enqueue_all((0..JOBS).map(job)).await.unwrap();
    run_and_kill(&test_store, &punctual, JOBS, 8).await;
    assert!(test_store.ledger_lines().is_empty(), "{:?}", test_store.ledger_lines());
    for (key, attempts) in attempts(&punctual).await {
        for pair in attempts.windows(2) {
            let ended = pair[0].finished_at.unwrap();
            assert!(ended <= pair[1].started_at, "{key:?}: {} and {}", pair[0].id, pair[1].id);
        }
    }
    assert_eq!(audit_store(&**punctual.store()).await, JOBS);
}

/// Asserts that no period has more starts than the rate allows.
fn assert_within(rate: Rate, mut starts: Vec<Timestamp>) {
    starts.sort();
    for span in starts.windows(rate.count as usize + 1) {
        let took = span[span.len() - 1].since(span[0]);
        assert!(took >= rate.period, "{} starts from {} on within {took:?}", span.len(), span[0]);
    }
}

async fn rates_hold_for_all_processes_together(new_store: fn() -> TestStore) {
    const JOBS: usize = 400;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let rate = |count| Rate { count, period: Duration::from_millis(400) };
    let (of_queue, of_key) = (rate(40), rate(6));
    let limits = Limits { rate: Some(of_queue), key_rate: Some(of_key), key_concurrency: Some(0), ..Limits::default() };
    punctual.admin("test").set_queue_limits("default", limits).await.unwrap();
    // A third of the jobs have no key.
    let job = |number: usize| Guarded { key: (!number.is_multiple_of(3)).then(|| format!("key-{}", number % 10)) };
    punctual.enqueue_all((0..JOBS).map(job)).await.unwrap();
    run_and_kill(&test_store, &punctual, JOBS, 3).await;
    let attempts = attempts(&punctual).await;
    let starts = |attempts: &[Attempt]| attempts.iter().map(|attempt| attempt.started_at).collect::<Vec<_>>();
    assert_within(of_queue, attempts.values().flat_map(|of_key| starts(of_key)).collect());
    for (_, of_one) in attempts.iter().filter(|(key, _)| key.is_some()) {
        assert_within(of_key, starts(of_one));
    }
    audit_store(&**punctual.store()).await;
}
