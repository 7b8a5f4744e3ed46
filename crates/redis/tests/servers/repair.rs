//! Repairs: what is repaired, and how it is reported.

use std::{collections::BTreeSet, time::Duration};

use punctual_core::{Heartbeat, Outcome, WorkerId};
use punctual_redis::Address;
use punctual_servers::Redis;
use punctual_testkit::Fixture;

use crate::common;

fn heartbeat(worker: WorkerId) -> Heartbeat {
    Heartbeat {
        id: worker,
        host: "host".into(),
        pid: 7,
        queues: vec![],
        names: vec![],
        concurrency: 4,
        running: 1,
        registered_by: None,
    }
}

fn own_redis() -> (Redis, Address) {
    let redis = Redis::start().unwrap();
    let address = redis.url().parse().unwrap();
    (redis, address)
}

async fn lost_jobs(fx: &Fixture) -> usize {
    fx.store.maintain().await.unwrap();
    fx.store.expired(10).await.unwrap().len()
}

async fn diagnostic(fx: &Fixture, check: &str) -> (bool, String) {
    let diagnostics = fx.store.check().await.unwrap();
    diagnostics.into_iter().find(|one| one.check == check).map(|one| (one.ok, one.message)).unwrap()
}

#[tokio::test]
async fn the_jobs_of_a_worker_without_a_heartbeat_are_free_before_their_leases_end() {
    let (redis, address) = own_redis();
    let fx = common::fixture(address).await;
    fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.store.heartbeat(heartbeat(claim.worker)).await.unwrap();
    let hour = Duration::from_secs(3_600);
    assert_eq!(fx.store.extend(claim.worker, hour, vec![claim.attempt_id()]).await.unwrap(), [true]);
    let key = &redis.execute("KEYS punctual:*:worker:*").unwrap()[0];
    let left: u64 = redis.execute(&format!("TTL {key}")).unwrap()[0].parse().unwrap();
    assert!((1..=30).contains(&left));
    assert_eq!(lost_jobs(&fx).await, 0, "it is there");
    // Redis has lost the heartbeat, but the primary store has a recent one.
    redis.execute("FLUSHALL").unwrap();
    fx.pass(10);
    assert_eq!(lost_jobs(&fx).await, 0, "it is there");
    // Now the heartbeat in the primary store is too old as well.
    fx.pass(31);
    assert_eq!(lost_jobs(&fx).await, 1);
    let (ok, actual) = diagnostic(&fx, "redis repairs").await;
    assert!(ok && actual.contains("leases of dead workers ended: 1"), "{actual}");
}

#[tokio::test]
async fn jobs_that_redis_has_lost_are_sent_again_and_counted() {
    let (redis, address) = own_redis();
    let fx = common::fixture(address).await;
    let (_, actual) = diagnostic(&fx, "redis queues").await;
    assert_eq!(actual, "none so far; a queue is opened with its first job");
    fx.enqueue(|_| ()).await;
    fx.claim_one(fx.worker()).await;
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(diagnostic(&fx, "redis queues").await, (true, "default (1 jobs dispatched, 0 just claimed)".to_owned()));
    redis.execute("FLUSHALL").unwrap();
    let claim = loop {
        // The claim waits until no process can be about to record the jobs that were handed out.
        if let Some(claim) = fx.claim(fx.worker(), 1).await.pop() {
            break claim;
        }
        fx.pass(1);
    };
    assert_eq!(claim.job.id, id);
    let (ok, actual) = diagnostic(&fx, "redis repairs").await;
    assert!(ok && actual.contains("queues reloaded that Redis had lost: 1"), "{actual}");
}

#[tokio::test]
async fn a_scheduled_job_that_redis_has_lost_starts_in_time() {
    let (redis, address) = own_redis();
    let fx = common::fixture(address).await;
    fx.enqueue(|_| ()).await;
    fx.claim_one(fx.worker()).await;
    let id = fx.enqueue(|_| ()).await;
    let later = fx.enqueue_in(10, |_| ()).await;
    redis.execute("FLUSHALL").unwrap();
    // Claims also dispatch jobs that start soon while the queue is not open again.
    let again = loop {
        if let Some(claim) = fx.claim(fx.worker(), 10).await.pop() {
            break claim;
        }
    };
    assert_eq!(again.job.id, id);
    fx.pass(10);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, later);
}

#[tokio::test]
async fn a_redis_that_throws_keys_away_is_complained_of() {
    let arguments = ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = Redis::start_with(&arguments).unwrap();
    let fx = common::fixture(redis.url().parse::<Address>().unwrap()).await;
    let (ok, message) = diagnostic(&fx, "redis memory").await;
    assert!(!ok && message.contains("set maxmemory-policy noeviction"), "{message}");
}

#[tokio::test]
async fn an_unrecorded_job_of_a_dead_worker_counts_as_a_crash_and_is_handed_out_again() {
    let (_redis, address) = own_redis();
    let schema = common::schema();
    let fx = Fixture::new(common::open(&schema, None, address.clone()).await, Fixture::start());
    fx.enqueue(|_| ()).await;
    fx.claim_one(fx.worker()).await;
    let ids = [fx.enqueue(|_| ()).await, fx.enqueue(|_| ()).await];
    let (dead, other) = (fx.worker(), fx.worker());
    // Like a process that dies: its executions are not recorded.
    let process = Fixture::new(common::open(&schema, None, address).await, Fixture::start());
    let [claim] = &process.claim(dead, 1).await[..] else { panic!("nothing was claimed") };
    let died_with = claim.job.id;
    drop(process);
    assert_eq!(fx.store.end_leases(dead).await.unwrap(), 1);
    assert_eq!(fx.store.end_leases(dead).await.unwrap(), 0);
    let lost = fx.store.expired(10).await.unwrap();
    assert_eq!(
        lost.iter().map(|claim| claim.job.id).collect::<Vec<_>>(),
        [died_with],
        "its worker may have died of it"
    );
    fx.settle(&lost[0], Outcome::Lost { evidence: None }).await;
    assert_eq!(fx.job(died_with).await.crash_count, 1);
    let again: BTreeSet<_> = fx.claim(other, 5).await.iter().map(|claim| claim.job.id).collect();
    assert_eq!(again, BTreeSet::from(ids), "what others have stays with them");
}
