//! No job has two executions in one worker, even if the store hands out a claim twice.

use punctual::{Context, Draft, Status};
use punctual_testkit::{When, conformance::audit_store};
use punctual_tests::until;

use crate::bench::{Bench, Counter, LONG, stops_slowly};

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_handed_out_twice_ends_the_older_execution_first() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let counts = counter.clone();
    let handler = move |ctx: Context| {
        let counted = counts.begin();
        let first = counts.all() == 1;
        async move {
            let _counted = counted;
            if first { stops_slowly(ctx).await } else { Ok(None) }
        }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &())).await.unwrap().id;
    until("the job to run", async || counter.all() == 1).await;
    bench.network.repeat_claim();
    let done = bench.punctual.wait(id, LONG).await.unwrap();
    assert_eq!(done.status, Status::Succeeded);
    assert_eq!(done.run, 1);
    assert_eq!(counter.all(), 2);
    assert_eq!(counter.most(), 1);
    // A job that runs at most once does not start a second time.
    counter.restart();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    until("the job to run", async || counter.all() == 1).await;
    bench.network.repeat_claim();
    let done = bench.punctual.wait(id, LONG).await.unwrap();
    assert_eq!((done.status, counter.all()), (Status::Dead, 1));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_handed_out_again_after_its_execution_has_ended_is_not_run_again() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let (counts, network) = (counter.clone(), bench.network.clone());
    let handler = move |_: Context| {
        let counted = counts.begin();
        // The outcome is stored only after the job has been claimed again.
        (0..6).for_each(|_| network.fail_next("settle", When::Before));
        network.repeat_claim();
        async move {
            let _counted = counted;
            Ok(None)
        }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    until("the claim to come again", async || bench.network.faults_left() == 0).await;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    worker.stop().await;
    assert_eq!(counter.all(), 1);
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_runs_at_most_once_is_not_run_again_when_the_store_has_lost_its_claim_and_its_end() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    let counts = counter.clone();
    let handler = move |_: Context| {
        let _counted = counts.begin();
        async { Ok(None) }
    };
    let worker = bench.behind().handler("x", handler).start().await.unwrap();
    let id = bench.punctual.enqueue(Draft::new("x", &()).max_attempts(1)).await.unwrap().id;
    assert_eq!(bench.punctual.wait(id, LONG).await.unwrap().status, Status::Succeeded);
    until("the worker to detect the end", async || worker.stats().running == 0).await;
    bench.network.repeat_claim();
    until("the claim to come again and to be ended", async || worker.stats().stale == 1).await;
    worker.stop().await;
    assert_eq!(counter.all(), 1);
    audit_store(&**bench.punctual.store()).await;
}
