//! Queues: the effect of a pause, default options of jobs, and the order of queues.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use punctual::{Context, Draft, Job, ManualWorker, Punctual, RetryPolicy, Status, Worker, core::JobDefaults};
use punctual_tests::{TestStore, count, on_each_engine, until};
use serde::{Deserialize, Serialize};

on_each_engine! {
    a_pause_reaches_the_workers_of_other_processes_and_so_does_its_end
    jobs_without_options_have_the_defaults_of_their_queue
    a_strict_worker_takes_the_first_queue_first
    a_weighted_worker_gives_each_queue_its_share
}

async fn a_pause_reaches_the_workers_of_other_processes_and_so_does_its_end(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let (punctual, operator) = (test_store.connect().await, test_store.connect().await);
    let worker = Worker::builder(punctual.clone()).handler("x", |_: Context| async { Ok(None) }).start().await.unwrap();
    let admin = operator.admin("ada");
    admin.pause_queue("mail").await.unwrap();
    let paused = operator.enqueue(Draft::new("x", &()).queue("mail")).await.unwrap().id;
    let other = operator.enqueue(Draft::new("x", &()).queue("other")).await.unwrap().id;
    operator.wait(other, Duration::from_secs(60)).await.unwrap();
    assert_eq!(operator.job(paused).await.unwrap().status, Status::Queued);
    admin.resume_queue("mail").await.unwrap();
    operator.wait(paused, Duration::from_secs(60)).await.unwrap();
    let events = admin.queue("mail").await.unwrap().events;
    assert_eq!(events.iter().map(|event| event.action.as_str()).collect::<Vec<_>>(), ["resumed", "paused"]);
    // By pattern, among the existing queues.
    assert_eq!(admin.matching_queues("m*l").await.unwrap(), ["mail"]);
    assert_eq!(admin.matching_queues("*").await.unwrap(), ["mail", "other"]);
    worker.stop().await;
}

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail", max_attempts = 7)]
struct Typed;

async fn jobs_without_options_have_the_defaults_of_their_queue(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let retry = RetryPolicy::fixed(Duration::from_secs(3));
    let defaults = JobDefaults {
        priority: Some(8),
        max_attempts: Some(5),
        timeout: Some(Duration::from_secs(9)),
        retry: Some(retry.clone()),
        keep_for: Some(Duration::from_secs(60)),
    };
    punctual.admin("ada").set_queue_defaults("mail", defaults).await.unwrap();
    let spec = async |draft: Draft| {
        let id = punctual.enqueue(draft).await.unwrap().id;
        punctual.job(id).await.unwrap().spec
    };
    let silent = spec(Draft::new("x", &()).queue("mail")).await;
    assert_eq!(silent.priority, 8);
    assert_eq!(silent.max_attempts, 5);
    assert_eq!(silent.timeout, Duration::from_secs(9));
    assert_eq!((silent.options.retry, silent.keep_for), (Some(retry), Some(Duration::from_secs(60))));
    let outspoken = spec(Draft::new("x", &()).priority(5).max_attempts(3).queue("mail")).await;
    assert_eq!(
        (outspoken.priority, outspoken.max_attempts),
        (5, 3),
        "also if it sets the values that are defaults elsewhere"
    );
    let typed = spec(Typed.into()).await;
    assert_eq!((typed.priority, typed.max_attempts), (8, 7), "a definition comes before its queue");
    let elsewhere = spec(Draft::new("x", &())).await;
    assert_eq!((elsewhere.priority, elsewhere.max_attempts), (5, 10));
    let wrong = JobDefaults { max_attempts: Some(0), ..JobDefaults::default() };
    let refused = punctual.admin("ada").set_queue_defaults("mail", wrong).await.unwrap_err().to_string();
    assert_eq!(refused, "max_attempts: must be between 1 and 1000, not 0");
}

/// Fills two queues, `a` with jobs of low priority.
async fn fill(punctual: &Punctual, each: usize) {
    let draft = |queue: &str, priority| Draft::new("x", &()).queue(queue).priority(priority);
    punctual.enqueue_all((0..each).map(|_| draft("b", 9))).await.unwrap();
    punctual.enqueue_all((0..each).map(|_| draft("a", 1))).await.unwrap();
}

async fn a_strict_worker_takes_the_first_queue_first(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    fill(&punctual, 3).await;
    let handler = |_: Context| async { Ok(None) };
    let worker: ManualWorker =
        Worker::builder(punctual.clone()).handler("x", handler).strict_queues(["a", "b"]).manual().unwrap();
    let mut order = String::new();
    for ran in worker.run_all().await.unwrap() {
        order += &punctual.job(ran.id).await.unwrap().spec.queue;
    }
    assert_eq!(order, "aaabbb");
}

async fn a_weighted_worker_gives_each_queue_its_share(new_store: fn() -> TestStore) {
    const EACH: usize = 1_000;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    fill(&punctual, EACH).await;
    let seen = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let counter = Arc::clone(&seen);
    let worker = Worker::builder(punctual.clone())
        .handler("x", move |ctx: Context| {
            let mut seen = counter.lock().unwrap();
            // The remainder after one of them is empty does not count for the shares.
            if seen.values().all(|count| *count < EACH) {
                *seen.entry(ctx.claim().job.spec.queue.clone()).or_default() += 1;
            }
            async { Ok(None) }
        })
        .weighted_queues([("a", 3), ("b", 1)])
        .concurrency(4)
        .start()
        .await
        .unwrap();
    until("all to succeed", async || count(&punctual, Status::Succeeded).await == 2 * EACH as u64).await;
    worker.stop().await;
    let seen = seen.lock().unwrap();
    // Three quarters are expected; by chance alone the share is hardly ever outside of this range.
    let share = seen["a"] as f64 / (seen["a"] + seen["b"]) as f64;
    assert!((0.65..0.85).contains(&share), "{share}");
}
