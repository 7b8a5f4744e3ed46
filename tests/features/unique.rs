//! Unique keys under concurrent requests.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc, time::Duration};

use punctual::{Draft, Enqueued, JobId, Punctual, Status, Unique, Verb};
use punctual_testkit::conformance::audit_store;
use punctual_tests::{TestStore, on_each_engine};
use serde_json::json;
use tokio::sync::Barrier;

on_each_engine! {
    a_key_that_32_want_at_once_makes_one_job
    a_key_holds_for_jobs_of_different_days
    of_concurrent_replacements_of_a_payload_the_last_one_counts
    keys_change_hands_while_their_jobs_are_cancelled
    a_key_follows_from_the_payload_or_parts_of_it
}

/// Separate connections, as several processes have.
async fn connections(test_store: &TestStore) -> Vec<Punctual> {
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(test_store.connect().await);
    }
    all
}

/// Enqueues from 32 tasks at the same moment, each with its own draft.
async fn enqueue_at_once(all: &[Punctual], draft: impl Fn(usize) -> Draft) -> Vec<Enqueued> {
    let barrier = Arc::new(Barrier::new(32));
    let mut tasks = Vec::new();
    for number in 0..32 {
        let (punctual, barrier, draft) = (all[number % all.len()].clone(), Arc::clone(&barrier), draft(number));
        tasks.push(tokio::spawn(async move {
            barrier.wait().await;
            punctual.enqueue(draft).await.unwrap()
        }));
    }
    let mut enqueued = Vec::new();
    for task in tasks {
        enqueued.push(task.await.unwrap());
    }
    enqueued
}

fn ids(enqueued: &[Enqueued]) -> BTreeSet<JobId> {
    enqueued.iter().map(|one| one.id).collect()
}

async fn a_key_that_32_want_at_once_makes_one_job(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let all = connections(&test_store).await;
    for round in 0..20 {
        let enqueued =
            enqueue_at_once(&all, |_| Draft::new("charge", &round).unique_key(format!("order-{round}"))).await;
        assert_eq!(ids(&enqueued).len(), 1, "round {round}");
        assert_eq!(enqueued.iter().filter(|one| !one.existing).count(), 1, "round {round}");
    }
    assert_eq!(audit_store(&**all[0].store()).await, 20);
}

async fn a_key_holds_for_jobs_of_different_days(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let all = connections(&test_store).await;
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let enqueued =
        enqueue_at_once(&all, |number| Draft::new("report", &number).delay(DAY * number as u32).unique_key("k")).await;
    assert_eq!(ids(&enqueued).len(), 1);
    assert_eq!(audit_store(&**all[0].store()).await, 1);
}

async fn of_concurrent_replacements_of_a_payload_the_last_one_counts(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let all = connections(&test_store).await;
    let replacing = |number: usize| {
        let unique = Unique::key("document").until_started().replace_payload().debounce();
        Draft::new("index", &number).delay(Duration::from_secs(60 + number as u64)).unique(unique)
    };
    let enqueued = enqueue_at_once(&all, replacing).await;
    let id = *ids(&enqueued).first().unwrap();
    assert_eq!((ids(&enqueued).len(), enqueued.iter().filter(|one| one.updated).count()), (1, 31));
    let job = all[0].job(id).await.unwrap();
    assert!(job.run_at >= job.created_at.after(Duration::from_secs(90)), "it is as late as the latest of them");
    let events = all[0].store().history(id).await.unwrap().events;
    assert_eq!(events.len(), 32, "each left its mark");
    assert!(events.iter().all(|event| event.status == Status::Scheduled));
    audit_store(&**all[0].store()).await;
}

async fn keys_change_hands_while_their_jobs_are_cancelled(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let all = connections(&test_store).await;
    let (canceller, stop) = (all[3].clone(), Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let cancelling = tokio::spawn(async move {
        let filter = punctual::Filter { name: Some("charge".into()), ..punctual::Filter::default() };
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            canceller.admin("ada").bulk(Verb::Cancel, filter.clone(), |_| ControlFlow::Continue(())).await.unwrap();
        }
    });
    for round in 0..30 {
        let unique = || Unique::key("k").replace_payload();
        enqueue_at_once(&all[..3], |number| match number % 2 {
            0 => Draft::new("charge", &round).unique(unique()),
            _ => Draft::new("charge", &round).unique_key("k"),
        })
        .await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    cancelling.await.unwrap();
    let live = punctual::Filter { statuses: vec![Status::Queued], ..punctual::Filter::default() };
    let live = all[0].store().list(live, punctual::Page::first(10)).await.unwrap().jobs;
    assert!(live.len() <= 1, "{} jobs have the same key", live.len());
    audit_store(&**all[0].store()).await;
}

async fn a_key_follows_from_the_payload_or_parts_of_it(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let enqueue = async |payload: serde_json::Value, unique: Unique| {
        punctual.enqueue(Draft::new("confirm", &payload).unique(unique)).await.unwrap()
    };
    let first = enqueue(json!({"order": 7, "at": 1}), Unique::payload()).await;
    assert_eq!(enqueue(json!({"at": 1, "order": 7}), Unique::payload()).await.id, first.id);
    assert!(!enqueue(json!({"order": 7, "at": 2}), Unique::payload()).await.existing);
    let first = enqueue(json!({"order": 8, "at": 1}), Unique::parts(["/order"])).await;
    assert_eq!(enqueue(json!({"order": 8, "at": 2}), Unique::parts(["/order"])).await.id, first.id);
    let refused = punctual.enqueue(Draft::new("confirm", &1).unique(Unique::parts(["order"]))).await.unwrap_err();
    assert_eq!(refused.to_string(), "unique: invalid JSON pointer `order`: expected a path such as /order or /user/id");
    let refused = punctual.enqueue(Draft::new("x", &1).unique(Unique::key("k").states([Status::Deleted]))).await;
    assert_eq!(refused.unwrap_err().to_string(), "unique.states: a job that is deleted has released its key");
}
