//! A Redis that answers but cannot be used, and processes that see it differently.

use std::{sync::Arc, time::Duration};

use punctual_core::{Change, Changed, Claim, Diagnostic, Outcome, Settled, Verb};
use punctual_redis::{Address, DispatchStore};
use punctual_servers::{Direction, Fault, Proxy, Redis};
use punctual_sql::postgres::sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};
use punctual_testkit::Fixture;
use tokio::time::{Instant, sleep};

use crate::common;

/// Longer than PostgreSQL needs to take over handing out jobs, on a busy machine.
const GENEROUS: Duration = Duration::from_secs(90);
const LEASE: Duration = Duration::from_secs(30);

/// The store as one of several processes opens it.
async fn process(schema: &str, fx: &Fixture, redis: &str) -> Fixture {
    let address: Address = redis.parse().unwrap();
    Fixture::new(common::open(schema, Some(&fx.clock), address).await, fx.clock.clone())
}

/// Two processes with the same store.
async fn two_processes(first: &str, second: &str) -> (Fixture, Fixture) {
    let (schema, clock, address) = (common::schema(), Fixture::start(), first.parse::<Address>().unwrap());
    let one = Fixture::new(common::open(&schema, Some(&clock), address).await, clock);
    let other = process(&schema, &one, second).await;
    (one, other)
}

/// Claims until there is a job.
async fn claim_soon(fx: &Fixture) -> Claim {
    let deadline = Instant::now() + GENEROUS;
    loop {
        if let Some(claim) = fx.claim(fx.worker(), 1).await.pop() {
            return claim;
        }
        assert!(Instant::now() < deadline, "nothing hands out the job");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn succeed(fx: &Fixture, claim: &Claim) -> Settled {
    fx.settle(claim, Outcome::Succeeded { result: None }).await
}

async fn writes(fx: &Fixture) -> (bool, String) {
    let diagnostics = fx.store.check().await.unwrap();
    // If Redis does not answer at all, doctor reports nothing about writes.
    let of_writes = |one: &&Diagnostic| one.check == "redis writes" || (one.check == "redis" && !one.ok);
    diagnostics.iter().find(of_writes).map(|one| (one.ok, one.message.clone())).unwrap()
}

/// Waits until Redis can be used, or until it cannot.
async fn writes_are(fx: &Fixture, ok: bool) -> String {
    let deadline = Instant::now() + GENEROUS;
    loop {
        match writes(fx).await {
            (found, actual) if found == ok => return actual,
            (_, actual) => assert!(Instant::now() < deadline, "{actual}"),
        }
    }
}

#[tokio::test]
async fn postgresql_hands_out_jobs_while_redis_refuses_writes_and_doctor_reports_why() {
    let redis = Redis::start().unwrap();
    let fx = common::fixture(redis.url().parse::<Address>().unwrap()).await;
    fail_to_save(&redis).await;
    let refusals = [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
        (
            "CONFIG SET stop-writes-on-bgsave-error yes",
            "CONFIG SET stop-writes-on-bgsave-error no",
            "STOP-WRITES-ON-BGSAVE-ERROR",
        ),
    ];
    for (refuse, accept, why) in refusals {
        fx.enqueue(|_| ()).await;
        let claim = claim_soon(&fx).await;
        assert_eq!(succeed(&fx, &claim).await, Settled::Done);
        redis.execute(refuse).unwrap();
        let id = fx.enqueue(|_| ()).await;
        let claim = claim_soon(&fx).await;
        assert_eq!(claim.job.id, id);
        assert_eq!(succeed(&fx, &claim).await, Settled::Done);
        let actual = writes_are(&fx, false).await;
        assert!(actual.to_uppercase().contains(why) || actual.contains("read only"), "{actual}");
        let metrics = fx.store.metrics().await.unwrap();
        assert!(metrics.iter().any(|metric| metric.name == "punctual_dispatch_up" && metric.value == 0.0));
        redis.execute(accept).unwrap();
        writes_are(&fx, true).await;
    }
}

/// Makes the last snapshot of a server fail. At first, the server still accepts writes.
async fn fail_to_save(redis: &Redis) {
    redis.execute("CONFIG SET stop-writes-on-bgsave-error no").unwrap();
    redis.execute("CONFIG SET save \"3600 1\"").unwrap();
    let folder = redis.execute("CONFIG GET dir").unwrap().pop().unwrap();
    std::fs::create_dir(std::path::Path::new(&folder).join("dump.rdb")).unwrap();
    redis.execute("BGSAVE").unwrap();
    let deadline = Instant::now() + GENEROUS;
    while !redis.execute("INFO persistence").unwrap().concat().contains("rdb_last_bgsave_status:err") {
        assert!(Instant::now() < deadline, "a snapshot can be stored");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn postgresql_hands_out_jobs_while_redis_loads_its_data_and_doctor_reports_it() {
    // While it loads, it serves its clients after every few keys, and loads each key slowly.
    let mut redis =
        Redis::start_with(&["--loading-process-events-interval-bytes", "1024", "--key-load-delay", "30000"]).unwrap();
    let fx = common::fixture(redis.url().parse::<Address>().unwrap()).await;
    fx.enqueue(|_| ()).await;
    let claim = claim_soon(&fx).await;
    assert_eq!(succeed(&fx, &claim).await, Settled::Done);
    for number in 0..1_000 {
        redis.execute(&format!("SET key{number} {number}{}", "x".repeat(512))).unwrap();
    }
    redis.execute("SAVE").unwrap();
    redis.kill().unwrap();
    redis.start_again().unwrap();
    let id = fx.enqueue(|_| ()).await;
    let claim = claim_soon(&fx).await;
    assert_eq!(claim.job.id, id);
    assert_eq!(succeed(&fx, &claim).await, Settled::Done);
    let actual = writes_are(&fx, false).await;
    assert!(actual.to_lowercase().contains("loading"), "{actual}");
    redis.execute("CONFIG SET key-load-delay 0").unwrap();
    writes_are(&fx, true).await;
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(claim_soon(&fx).await.job.id, id);
}

#[tokio::test]
async fn jobs_are_not_cached_in_a_redis_that_is_nearly_full() {
    let redis = Redis::start().unwrap();
    let fx = common::fixture(redis.url().parse::<Address>().unwrap()).await;
    fx.enqueue(|_| ()).await;
    let claim = claim_soon(&fx).await;
    assert_eq!(succeed(&fx, &claim).await, Settled::Done);
    let used = redis.execute("INFO memory").unwrap().concat();
    let used: u64 = used.lines().find_map(|line| line.trim().strip_prefix("used_memory:")?.parse().ok()).unwrap();
    redis.execute(&format!("CONFIG SET maxmemory {}", used * 3 / 2)).unwrap();
    fx.store.check().await.unwrap();
    let id = fx.enqueue(|_| ()).await;
    assert!(redis.execute("KEYS *:jobs:*").unwrap().is_empty());
    assert_eq!(claim_soon(&fx).await.job.id, id);
}

#[tokio::test]
async fn workers_that_cannot_reach_redis_get_jobs_though_other_processes_reach_it() {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::before(&redis.url()).unwrap();
    for fault in [Fault::Refuse, Fault::Swallow(Direction::Both)] {
        let (server, worker) = two_processes(&redis.url(), &proxy.url_of(&redis.url()).unwrap()).await;
        server.enqueue(|_| ()).await;
        let claim = claim_soon(&worker).await;
        assert_eq!(succeed(&worker, &claim).await, Settled::Done);
        proxy.set(fault);
        proxy.reset();
        let id = server.enqueue(|_| ()).await;
        let deadline = Instant::now() + GENEROUS;
        let claim = loop {
            // The server continues as before, and sends its jobs to Redis.
            server.enqueue(|spec| spec.priority = 0).await;
            if let Some(claim) = worker.claim(worker.worker(), 1).await.pop() {
                break claim;
            }
            assert!(Instant::now() < deadline, "nothing hands out the job");
        };
        assert_eq!(claim.job.id, id);
        worker.claim(worker.worker(), 1).await;
        let actual = writes_are(&server, false).await;
        assert!(actual.starts_with("a worker could not use Redis"), "{actual}");
        proxy.heal();
    }
}

#[tokio::test]
async fn a_claim_that_is_shared_is_extended_and_settled_by_another_process() {
    let redis = Redis::start().unwrap();
    let (one, other) = two_processes(&redis.url(), &redis.url()).await;
    one.enqueue(|_| ()).await;
    let claim = claim_soon(&one).await;
    assert_eq!(succeed(&one, &claim).await, Settled::Done);
    for _ in 0..20 {
        one.enqueue(|_| ()).await;
        let claim = claim_soon(&one).await;
        let attempts = vec![claim.attempt_id()];
        one.store.share_claims(attempts.clone()).await.unwrap();
        assert_eq!(other.store.check_leases(claim.worker, attempts.clone()).await.unwrap(), [true]);
        assert_eq!(other.store.extend(claim.worker, LEASE, attempts).await.unwrap(), [true]);
        assert_eq!(succeed(&other, &claim).await, Settled::Done);
        assert_eq!(succeed(&one, &claim).await, Settled::Stale);
    }
}

#[tokio::test]
async fn a_database_that_is_a_copy_is_not_handed_the_jobs_of_its_origin() {
    let redis = Redis::start().unwrap();
    let (schema, clock) = (common::schema(), Fixture::start());
    let address: Address = redis.url().parse().unwrap();
    let origin = Fixture::new(common::open(&schema, Some(&clock), address.clone()).await, clock.clone());
    let url = common::url("PUNCTUAL_TEST_POSTGRES_URL");
    let mut server = PgConnection::connect(&url).await.unwrap();
    raw_sql(AssertSqlSafe(format!("create database {schema}"))).execute(&mut server).await.unwrap();
    let (server_url, _) = url.rsplit_once('/').unwrap();
    let copy_url = format!("{server_url}/{schema}");
    let copy = common::primary_at(&copy_url, &schema, Some(&clock)).await;
    let primary: String = punctual_sql::postgres::sqlx::query_scalar(AssertSqlSafe(format!(
        "select store_id::text from {schema}.punctual_dispatch"
    )))
    .fetch_one(&mut server)
    .await
    .unwrap();
    let mut copied = PgConnection::connect(&copy_url).await.unwrap();
    let same = format!("update {schema}.punctual_dispatch set store_id = '{primary}'");
    raw_sql(AssertSqlSafe(same)).execute(&mut copied).await.unwrap();
    let copy = Fixture::new(DispatchStore::open(Arc::new(copy), address).await.unwrap(), clock);
    // Both stores know the queue, in the same epoch.
    for fx in [&origin, &copy] {
        fx.enqueue(|_| ()).await;
        let claim = claim_soon(fx).await;
        assert_eq!(succeed(fx, &claim).await, Settled::Done);
    }
    let id = origin.enqueue(|_| ()).await;
    assert_eq!(copy.claim(copy.worker(), 1).await, []);
    assert_eq!(claim_soon(&origin).await.job.id, id);
}

#[tokio::test]
async fn a_copy_of_a_whole_server_continues_without_redis_and_reports_it() {
    let redis = Redis::start().unwrap();
    let fx = common::fixture(redis.url().parse::<Address>().unwrap()).await;
    fx.enqueue(|_| ()).await;
    let claim = claim_soon(&fx).await;
    assert_eq!(succeed(&fx, &claim).await, Settled::Done);
    // The processes of the original server do the same periodically.
    let owner = &redis.execute("KEYS *:owner").unwrap()[0];
    redis.execute(&format!("SET {owner} origin")).unwrap();
    let actual = writes_are(&fx, false).await;
    assert!(actual.contains("jobs are of another PostgreSQL server"), "{actual}");
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(claim_soon(&fx).await.job.id, id);
    redis.execute(&format!("DEL {owner}")).unwrap();
    writes_are(&fx, true).await;
}

/// A process that cancels a job may not know that another process has just started it.
#[tokio::test]
async fn an_execution_of_a_job_that_was_cancelled_before_its_start_was_recorded_is_in_its_log() {
    let redis = common::url("PUNCTUAL_TEST_REDIS_URL");
    let (one, other) = two_processes(&redis, &redis).await;
    one.enqueue(|_| ()).await;
    succeed(&one, &claim_soon(&one).await).await;
    let deadline = Instant::now() + GENEROUS;
    loop {
        assert!(Instant::now() < deadline, "every start is recorded before the job can be cancelled");
        let job = one.enqueue(|_| ()).await;
        let claim = claim_soon(&one).await;
        let cancel = Change { job, verb: Verb::Cancel, actor: "ada".into(), reason: None };
        assert_eq!(other.store.change(vec![cancel]).await.unwrap(), [Changed::Done]);
        let recorded = other.store.history(job).await.unwrap().attempts.len();
        assert_eq!(succeed(&one, &claim).await, Settled::Stale);
        let log = other.store.logs(job, 10).await.unwrap();
        if recorded == 0 {
            assert_eq!(log.len(), 1, "{log:?}");
            let line = &log[0].message;
            assert!(line.starts_with(&claim.worker.to_string()) && line.contains("(it is now cancelled)"), "{line}");
            break;
        }
        assert!(log.is_empty(), "{log:?}");
    }
    let known = one.enqueue(|_| ()).await;
    assert_eq!(succeed(&one, &claim_soon(&one).await).await, Settled::Done);
    assert!(other.store.logs(known, 10).await.unwrap().is_empty());
    punctual_testkit::conformance::audit(&other).await;
}
