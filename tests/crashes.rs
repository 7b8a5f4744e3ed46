//! Worker processes that are killed, suspended, or many.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use punctual::{Draft, Status};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{Helper, Role, TestStore, count, helper, ids, on_each_engine, until};

const HELPER: Helper = helper!();

on_each_engine! {
    no_job_is_lost_or_ends_twice_when_workers_are_killed_at_full_speed
    every_acknowledged_job_is_there_when_enqueuers_are_killed
    two_and_four_processes_never_run_the_same_attempt_twice
    a_worker_frozen_past_its_lease_cannot_change_a_job_that_another_has_finished
    a_job_with_one_attempt_does_not_run_again_after_its_worker_was_killed
}

/// Jobs for the worker processes with a high crash limit.
fn fast_jobs(count: usize) -> impl Iterator<Item = Draft> {
    (0..count).map(|number| Draft::new("fast", &number).max_attempts(1_000).max_crashes(100))
}

/// Sixteen times: a process that works at full speed on thousands of queued jobs is killed, and another one takes over.
async fn no_job_is_lost_or_ends_twice_when_workers_are_killed_at_full_speed(new_store: fn() -> TestStore) {
    const QUEUED: usize = 4_000;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let mut enqueued = BTreeSet::new();
    for round in 0..16u64 {
        let missing = QUEUED - count(&punctual, Status::Queued).await as usize;
        enqueued.extend(punctual.enqueue_all(fast_jobs(missing)).await.unwrap().into_iter().map(|job| job.id));
        let before = count(&punctual, Status::Succeeded).await;
        let worker = HELPER.start_worker(&test_store, 1_000);
        // A different moment in each round, always in the middle of the work.
        let enough = before + 50 + 97 * round;
        until("the worker to work", async || count(&punctual, Status::Succeeded).await >= enough).await;
        worker.kill();
    }
    let _last = HELPER.start_worker(&test_store, 1_000);
    let all = enqueued.len() as u64;
    until("all jobs to succeed", async || count(&punctual, Status::Succeeded).await == all).await;
    assert_eq!(ids(&punctual, Status::Succeeded).await, enqueued);
    // The audit also checks that each job has one end.
    assert_eq!(audit_store(&**punctual.store()).await, enqueued.len());
}

async fn every_acknowledged_job_is_there_when_enqueuers_are_killed(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    for round in 1..=10 {
        let enqueuer = HELPER.start(Role::Enqueuer, &test_store);
        until("some jobs to be acknowledged", async || test_store.ledger_lines().len() >= 211 * round).await;
        enqueuer.kill();
    }
    let acknowledged = test_store.ledger_lines();
    let queued = ids(&punctual, Status::Queued).await;
    assert!(acknowledged.iter().all(|id| queued.contains(&id.parse().unwrap())));
    // Jobs that were stored at the moment of a kill were not acknowledged, but are complete.
    assert!(audit_store(&**punctual.store()).await >= acknowledged.len());
}

async fn two_and_four_processes_never_run_the_same_attempt_twice(new_store: fn() -> TestStore) {
    for processes in [2, 4] {
        let test_store = new_store();
        let punctual = test_store.connect().await;
        let workers: Vec<_> = (0..processes).map(|_| HELPER.start_worker(&test_store, 30_000)).collect();
        let (mut jobs, batch) = (0, 500);
        // Enqueued while they run, so that they compete for every batch.
        for _ in 0..10 {
            jobs += punctual.enqueue_all(fast_jobs(batch)).await.unwrap().len();
        }
        until("all jobs to succeed", async || count(&punctual, Status::Succeeded).await == jobs as u64).await;
        let lines = test_store.ledger_lines();
        let distinct: BTreeSet<_> = lines.iter().collect();
        assert_eq!((lines.len(), distinct.len()), (jobs, jobs), "an attempt was run twice by {processes} processes");
        assert!(lines.iter().all(|line| line.ends_with(" 1")), "no job needed a second run");
        drop(workers);
        assert_eq!(audit_store(&**punctual.store()).await, jobs);
    }
}

async fn a_job_with_one_attempt_does_not_run_again_after_its_worker_was_killed(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let draft = |name| Draft::new(name, &()).max_attempts(1);
    let once = punctual.enqueue(draft("held")).await.unwrap().id;
    let worker = HELPER.start_worker(&test_store, 500);
    until("the job to start", async || test_store.ledger_lines().len() == 1).await;
    worker.kill();
    let _other = HELPER.start_worker(&test_store, 500);
    until("the job to be dead", async || count(&punctual, Status::Dead).await == 1).await;
    let job = punctual.job(once).await.unwrap();
    assert_eq!((job.run, job.crash_count), (1, 1));
    assert!(job.error.unwrap().message.contains("max_attempts is 1"));
    // The other worker is alive and runs new jobs.
    punctual.enqueue(draft("fast")).await.unwrap();
    until("another job to succeed", async || count(&punctual, Status::Succeeded).await == 1).await;
    assert_eq!(test_store.ledger_lines().len(), 2, "one start each");
    audit_store(&**punctual.store()).await;
}

async fn a_worker_frozen_past_its_lease_cannot_change_a_job_that_another_has_finished(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let id = punctual.enqueue(Draft::new("held", &())).await.unwrap().id;
    let frozen = HELPER.start_worker(&test_store, 500);
    until("the first worker to take the job", async || count(&punctual, Status::Processing).await == 1).await;
    let first = punctual.job(id).await.unwrap().worker_id;
    frozen.freeze(&test_store);
    // Another worker finds the lease expired, claims the job and finishes it.
    let worker = punctual::Worker::builder(punctual.clone())
        .handler("held", |_: punctual::Context| async { Ok(Some(punctual::Json::of(&"second").unwrap())) })
        .start()
        .await
        .unwrap();
    until("the second worker to finish it", async || count(&punctual, Status::Succeeded).await == 1).await;
    let (finished, history) = (punctual.job(id).await.unwrap(), punctual.store().history(id).await.unwrap().events);
    // The first worker continues, detects that its lease is lost, and deregisters after it has handled that.
    frozen.signal(Signal::SIGCONT);
    let ours = worker.id();
    until("the frozen worker to be back", async || {
        let workers = punctual.store().workers().await.unwrap();
        let seen = workers.iter().find(|record| Some(record.heartbeat.id) == first && record.heartbeat.id != ours);
        seen.is_some_and(|record| record.seen_at > finished.finished_at.unwrap() && record.heartbeat.running == 0)
    })
    .await;
    assert_eq!(punctual.job(id).await.unwrap(), finished);
    assert_eq!(punctual.store().history(id).await.unwrap().events, history);
    assert_eq!((finished.crash_count, finished.attempt), (1, 1));
    worker.stop().await;
    audit_store(&**punctual.store()).await;
}
