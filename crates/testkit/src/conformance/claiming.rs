use std::{task::Poll, time::Duration};

use punctual_core::{AttemptStatus, ClaimRequest, JobId, Status};

use crate::{
    Fixture,
    fixture::{LEASE, success},
};

async fn claimed_ids(fx: &Fixture, limit: usize) -> Vec<JobId> {
    fx.claim(fx.worker(), limit).await.into_iter().map(|claim| claim.job.id).collect()
}

pub async fn claims_follow_priority_then_time_then_arrival(fx: &Fixture) {
    let batch = vec![
        fx.new_job(|spec| spec.priority = 5),
        fx.new_job(|spec| spec.priority = 0),
        fx.new_job(|spec| spec.priority = 10),
        fx.new_job(|spec| spec.priority = 5),
    ];
    let ids = fx.enqueue_all(batch).await;
    fx.pass(1);
    let newer = fx.enqueue(|spec| spec.priority = 5).await;
    let newest = fx.enqueue(|spec| spec.priority = 10).await;
    assert_eq!(claimed_ids(fx, 10).await, [ids[2], newest, ids[0], ids[3], newer, ids[1]]);
}

pub async fn a_claim_takes_only_the_queues_and_names_it_asks_for(fx: &Fixture) {
    let job = |queue: &str, name: &str| {
        let (queue, name) = (queue.to_owned(), name.to_owned());
        fx.new_job(|spec| (spec.queue, spec.name) = (queue, name))
    };
    let ids = fx.enqueue_all(vec![job("a", "x"), job("a", "y"), job("b", "x"), job("b", "y"), job("c", "x")]).await;
    let ask = |queues: &[&str], names: &[&str]| ClaimRequest {
        worker: fx.worker(),
        queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        limit: 10,
        lease: LEASE,
        wait: Duration::ZERO,
    };
    let got =
        |claimed: punctual_core::Claimed| claimed.claims.into_iter().map(|claim| claim.job.id).collect::<Vec<_>>();
    // Named twice is named once.
    assert_eq!(got(fx.store.claim(ask(&["a", "a"], &["y", "z", "y"])).await.unwrap()), [ids[1]]);
    assert_eq!(got(fx.store.claim(ask(&["b", "c"], &[])).await.unwrap()), [ids[2], ids[3], ids[4]]);
    assert_eq!(got(fx.store.claim(ask(&[], &["x"])).await.unwrap()), [ids[0]]);
}

pub async fn a_claim_of_many_lanes_keeps_the_order(fx: &Fixture) {
    let mut jobs = Vec::new();
    for round in 0..20 {
        for queue in ["a", "b", "c"] {
            for name in ["x", "y"] {
                jobs.push(fx.new_job(|spec| {
                    (spec.queue, spec.name) = (queue.into(), name.into());
                    spec.priority = [5, 3][round % 2];
                }));
            }
        }
    }
    let mut expected: Vec<_> = jobs.iter().map(|job| (10 - job.spec.priority, job.id)).collect();
    expected.sort_by_key(|(priority, _)| *priority);
    fx.enqueue_all(jobs).await;
    let mut got = Vec::new();
    while got.len() < expected.len() {
        got.extend(claimed_ids(fx, 7).await);
    }
    assert_eq!(got, expected.into_iter().map(|(_, id)| id).collect::<Vec<_>>());
}

pub async fn a_claim_takes_no_more_than_it_asks_for(fx: &Fixture) {
    fx.enqueue_all((0..5).map(|_| fx.new_job(|_| ())).collect()).await;
    assert_eq!(claimed_ids(fx, 2).await.len(), 2);
    assert_eq!(claimed_ids(fx, 2).await.len(), 2);
    assert_eq!(claimed_ids(fx, 2).await.len(), 1);
    assert_eq!(claimed_ids(fx, 2).await.len(), 0);
}

pub async fn a_claim_opens_an_attempt_and_an_event(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    fx.pass(2);
    let worker = fx.worker();
    let claim = fx.claim_one(worker).await;
    let job = fx.job(id).await;
    assert_eq!(claim.job, job, "a claim tells the job as it is");
    assert_eq!((job.status, job.attempt, job.run, job.worker_id), (Status::Processing, 1, 1, Some(worker)));
    assert_eq!((job.started_at, job.lease_until), (Some(fx.now()), Some(fx.now().after(LEASE))));
    let attempts = fx.store.attempts(id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].status, attempts[0].worker_id), (AttemptStatus::Running, worker));
    assert_eq!((attempts[0].id, attempts[0].attempt), (claim.attempt_id(), 1));
    let events = fx.store.events(id).await.unwrap();
    assert_eq!((events[1].status, events[1].run, events[1].at), (Status::Processing, Some(1), fx.now()));
    assert!(events[0].id < events[1].id);
}

pub async fn due_jobs_become_queued_and_are_claimed_in_one_step(fx: &Fixture) {
    let scheduled = fx.enqueue_in(10, |_| ()).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty(), "never early");
    fx.clock.advance(Duration::from_micros(9_999_999));
    assert!(fx.claim(fx.worker(), 10).await.is_empty(), "not even a microsecond");
    fx.clock.advance(Duration::from_micros(1));
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, scheduled);
    assert_eq!(fx.story(scheduled).await, [Status::Scheduled, Status::Queued, Status::Processing]);
}

pub async fn a_claim_tells_when_the_next_job_is_due(fx: &Fixture) {
    fx.enqueue_in(60, |spec| spec.queue = "other".into()).await;
    fx.enqueue_in(30, |_| ()).await;
    fx.enqueue(|_| ()).await;
    let request = ClaimRequest {
        worker: fx.worker(),
        queues: vec![],
        names: vec![],
        limit: 10,
        lease: LEASE,
        wait: Duration::ZERO,
    };
    let claimed = fx.store.claim(request.clone()).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.next_run_at), (1, Some(fx.now().after(Duration::from_secs(30)))));
    fx.pass(60);
    let claimed = fx.store.claim(request).await.unwrap();
    assert_eq!((claimed.claims.len(), claimed.next_run_at), (2, None));
}

pub async fn a_clock_set_back_does_not_strand_queued_jobs(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    fx.clock.set(fx.now().before(Duration::from_secs(3_600)));
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.id, id);
    fx.settle(&claim, success()).await;
    assert_eq!(fx.job(id).await.status, Status::Succeeded);
}

pub async fn two_workers_never_hold_the_same_job(fx: &Fixture) {
    fx.enqueue_all((0..40).map(|_| fx.new_job(|_| ())).collect()).await;
    let mut all = Vec::new();
    for _ in 0..8 {
        let (first, second) = tokio::join!(fx.claim(fx.worker(), 3), fx.claim(fx.worker(), 3));
        all.extend(first.into_iter().chain(second).map(|claim| claim.job.id));
    }
    assert_eq!(all.len(), 40);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 40);
}

/// A claim that waits for longer than any test takes.
fn patient(fx: &Fixture) -> ClaimRequest {
    // Longer than any clock reaches: an absurd wish is a long one, not a crash.
    let wait = Duration::MAX;
    ClaimRequest { worker: fx.worker(), queues: vec![], names: vec![], limit: 5, lease: LEASE, wait }
}

pub async fn a_claim_that_waits_is_answered_by_the_next_enqueue(fx: &Fixture) {
    let enqueue = async {
        // Lets the claim come first; if it does not, it finds the job at once, which is as well.
        tokio::task::yield_now().await;
        fx.enqueue(|_| ()).await
    };
    let (claimed, id) = tokio::join!(fx.store.claim(patient(fx)), enqueue);
    let claims = claimed.unwrap().claims;
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].job.id, fx.job(id).await.status), (id, Status::Processing));
}

pub async fn a_claim_that_waits_is_answered_when_a_job_is_due(fx: &Fixture) {
    let id = fx.enqueue_in(60, |_| ()).await;
    let pass = async {
        tokio::task::yield_now().await;
        fx.pass(60);
    };
    let (claimed, ()) = tokio::join!(fx.store.claim(patient(fx)), pass);
    assert_eq!(claimed.unwrap().claims[0].job.id, id);
}

pub async fn a_claim_that_stops_waiting_holds_nothing(fx: &Fixture) {
    for _ in 0..20 {
        let waiting = tokio::time::timeout(Duration::from_millis(1), fx.store.claim(patient(fx)));
        let (gave_up, id) = tokio::join!(waiting, fx.enqueue(|_| ()));
        // Whether it got the job or gave up first, it is held by nobody who does not know.
        let claims = match gave_up {
            Ok(claimed) => claimed.unwrap().claims,
            Err(_) => fx.store.claim(patient(fx)).await.unwrap().claims,
        };
        assert_eq!(claims.len(), 1);
        assert_eq!((claims[0].job.id, claims[0].job.attempt), (id, 1));
        fx.settle(&claims[0], success()).await;
    }
}

/// The store has answered, but the caller goes before it looks.
pub async fn a_claim_whose_answer_nobody_takes_holds_nothing(fx: &Fixture) {
    let ask = |wait| ClaimRequest { worker: fx.worker(), queues: vec![], names: vec![], limit: 10, lease: LEASE, wait };
    let mut waiting = fx.store.claim(ask(Duration::from_secs(60)));
    // Polled once, it waits in the store.
    assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await.is_pending());
    let id = fx.enqueue(|_| ()).await;
    drop(waiting);
    let claims = fx.store.claim(ask(Duration::from_secs(60))).await.unwrap().claims;
    assert_eq!(claims.iter().map(|claim| (claim.job.id, claim.job.attempt)).collect::<Vec<_>>(), [(id, 1)]);
}
