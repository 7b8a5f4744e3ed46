//! Jobs that were running at a crash are kept apart from others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use punctual::{
    Context, Draft, HandlerResult, Punctual,
    core::{ClaimRequest, JobId, Outcome, Settled, WorkerId, settle},
};
use punctual_testkit::conformance::audit_store;

use crate::bench::{Bench, Counted, Counter};

/// Crashes this number of workers while they run a job. The job is queued afterwards.
async fn crash(punctual: &Punctual, job: JobId, times: u32) {
    let (store, lease) = (punctual.store(), Duration::from_secs(30));
    for crashes in 0..times {
        let worker = WorkerId::from_bits(u128::from(crashes) + 1);
        let request = ClaimRequest { suspects: crashes > 0, ..ClaimRequest::new(worker, 1, lease) };
        let claim = store.claim(request).await.unwrap().claims.remove(0);
        assert_eq!(claim.job.id, job);
        assert_eq!(store.confirm(worker, vec![claim.attempt_id()]).await.unwrap(), [true]);
        store.end_leases(worker).await.unwrap();
        let lost = settle(&claim, Outcome::Lost { evidence: None }, 0.5);
        assert_eq!(store.settle(vec![lost]).await.unwrap(), [Settled::Done]);
        if crashes > 0 {
            punctual.admin("test").run(job).await.unwrap();
        }
    }
}

/// Stores suspects with this number of crashes each.
async fn enqueue_suspects(punctual: &Punctual, count: usize, crashes: u32) {
    for _ in 0..count {
        let job = punctual.enqueue(Draft::new("suspect", &())).await.unwrap().id;
        crash(punctual, job, crashes).await;
    }
}

/// Runs for a moment, so that others can start beside it.
async fn takes_a_moment(counted: Counted) -> HandlerResult {
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(counted);
    Ok(None)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_suspects_run_in_one_process() {
    let bench = Bench::new().await;
    let (suspects, others) = (Counter::default(), Counter::default());
    enqueue_suspects(&bench.punctual, 5, 1).await;
    bench.punctual.enqueue_all((0..20).map(|_| Draft::new("x", &()))).await.unwrap();
    let (of_suspects, of_others) = (suspects.clone(), others.clone());
    let worker = bench
        .behind()
        .handler("suspect", move |_: Context| takes_a_moment(of_suspects.begin()))
        .handler("x", move |_: Context| takes_a_moment(of_others.begin()))
        .start()
        .await
        .unwrap();
    worker.until_empty().await;
    assert_eq!(suspects.all(), 5);
    assert_eq!(suspects.most(), 1);
    assert_eq!(others.all(), 20);
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_its_second_crash_on_a_suspect_runs_alone() {
    let bench = Bench::new().await;
    let counter = Counter::default();
    enqueue_suspects(&bench.punctual, 1, 2).await;
    bench.punctual.enqueue_all((0..40).map(|_| Draft::new("x", &()))).await.unwrap();
    let (of_suspect, of_others) = (counter.clone(), counter.clone());
    let alone = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&alone);
    let suspect = move |_: Context| {
        let (counter, seen, before) = (of_suspect.clone(), Arc::clone(&seen), of_suspect.now());
        let (counted, all) = (counter.begin(), counter.all());
        async move {
            let result = takes_a_moment(counted).await;
            seen.store(usize::from(before == 0 && counter.all() == all) + 1, Ordering::SeqCst);
            result
        }
    };
    let worker = bench
        .behind()
        .concurrency(4)
        .handler("suspect", suspect)
        .handler("x", move |_: Context| takes_a_moment(of_others.begin()))
        .start()
        .await
        .unwrap();
    worker.until_empty().await;
    assert_eq!(alone.load(Ordering::SeqCst), 2, "others ran beside it");
    assert_eq!((counter.all(), counter.most()), (41, 4));
    worker.stop().await;
    audit_store(&**bench.punctual.store()).await;
}
