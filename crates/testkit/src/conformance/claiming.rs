use std::{task::Poll, time::Duration};

use punctual_core::{AttemptStatus, ClaimRequest, Claimed, JobError, JobId, Json, Outcome, Retry, Settled, Status};

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

pub async fn a_claim_takes_only_jobs_of_its_queues_and_names(fx: &Fixture) {
    let job = |queue: &str, name: &str| {
        let (queue, name) = (queue.to_owned(), name.to_owned());
        fx.new_job(|spec| (spec.queue, spec.name) = (queue, name))
    };
    let ids = fx.enqueue_all(vec![job("a", "x"), job("a", "y"), job("b", "x"), job("b", "y"), job("c", "x")]).await;
    let request = |queues: &[&str], names: &[&str]| ClaimRequest {
        queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..fx.request(fx.worker(), 10)
    };
    let got =
        |claimed: punctual_core::Claimed| claimed.claims.into_iter().map(|claim| claim.job.id).collect::<Vec<_>>();
    // Duplicate names have no effect.
    assert_eq!(got(fx.store.claim(request(&["a", "a"], &["y", "z", "y"])).await.unwrap()), [ids[1]]);
    assert_eq!(got(fx.store.claim(request(&["b", "c"], &[])).await.unwrap()), [ids[2], ids[3], ids[4]]);
    assert_eq!(got(fx.store.claim(request(&[], &["x"])).await.unwrap()), [ids[0]]);
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

pub async fn a_claim_takes_at_most_its_limit(fx: &Fixture) {
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
    assert_eq!(*claim.job, job, "a claim returns the job as it is");
    assert_eq!(job.status, Status::Processing);
    assert_eq!(job.attempt, 1);
    assert_eq!(job.run, 1);
    assert_eq!(job.worker_id, Some(worker));
    assert_eq!((job.started_at, job.lease_until), (Some(fx.now()), Some(fx.now().after(LEASE))));
    let attempts = fx.store.history(id).await.unwrap().attempts;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].status, attempts[0].worker_id), (AttemptStatus::Running, worker));
    assert_eq!((attempts[0].id, attempts[0].attempt), (claim.attempt_id(), 1));
    let events = fx.store.history(id).await.unwrap().events;
    assert_eq!(events[1].status, Status::Processing);
    assert_eq!(events[1].run, Some(1));
    assert_eq!(events[1].at, fx.now());
    assert!(events[0].id < events[1].id);
}

pub async fn due_jobs_become_queued_and_are_claimed_in_one_step(fx: &Fixture) {
    let scheduled = fx.enqueue_in(10, |_| ()).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty(), "never early");
    fx.clock.advance(Duration::from_micros(9_999_999));
    assert!(fx.claim(fx.worker(), 10).await.is_empty(), "not even a microsecond");
    fx.clock.advance(Duration::from_micros(1));
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, scheduled);
    assert_eq!(fx.history(scheduled).await, [Status::Scheduled, Status::Queued, Status::Processing]);
}

pub async fn a_worker_with_room_claims_ahead(fx: &Fixture) {
    let late = fx.enqueue_in(20, |_| ()).await;
    let (second, first) = (fx.enqueue_in(9, |_| ()).await, fx.enqueue_in(8, |_| ()).await);
    let other = fx.enqueue_in(7, |spec| spec.queue = "other".into()).await;
    let queued = fx.enqueue(|_| ()).await;
    let request = ClaimRequest {
        queues: vec![fx.job(queued).await.spec.queue],
        in_order: false,
        ahead: Duration::from_secs(10),
        ..request_for(fx, 2)
    };
    let jobs = |claimed: Claimed| claimed.claims.iter().map(|claim| claim.job.id).collect::<Vec<_>>();
    let claimed = fx.store.claim(request.clone()).await.unwrap();
    assert_eq!(jobs(claimed), [queued, first], "what is queued comes first, then what is due first");
    assert_eq!(jobs(fx.store.claim(request.clone()).await.unwrap()), [second]);
    let claimed = fx.store.claim(request).await.unwrap();
    assert_eq!(claimed.next_run_at, Some(fx.now().after(Duration::from_secs(7))), "the other queue's is left alone");
    assert!(claimed.claims.is_empty(), "and so is the late one");
    for (id, status) in [(late, Status::Scheduled), (other, Status::Scheduled), (second, Status::Processing)] {
        assert_eq!(fx.job(id).await.status, status);
    }
}

pub async fn a_job_claimed_ahead_starts_at_its_time(fx: &Fixture) {
    let id = fx.enqueue_in(8, |_| ()).await;
    let due = fx.now().after(Duration::from_secs(8));
    let request = ClaimRequest { ahead: Duration::from_secs(10), ..request_for(fx, 1) };
    let claim = fx.store.claim(request).await.unwrap().claims.remove(0);
    assert_eq!(claim.job.id, id);
    assert_eq!(claim.job.run_at, due);
    assert_eq!(claim.job.started_at, Some(due));
    assert_eq!(claim.job.lease_until, Some(due.after(LEASE)));
    assert_eq!(fx.job(id).await, *claim.job);
    assert_eq!(fx.history(id).await, [Status::Scheduled, Status::Queued, Status::Processing]);
    let events = fx.store.history(id).await.unwrap().events;
    assert_eq!(events[1..].iter().map(|event| event.at).collect::<Vec<_>>(), [due, due]);
    fx.pass(9);
    fx.settle(&claim, success()).await;
    let attempt = fx.store.history(id).await.unwrap().attempts.remove(0);
    assert_eq!((attempt.started_at, attempt.finished_at), (due, Some(fx.now())));
    super::audit(fx).await;
}

pub async fn a_claim_returns_when_the_next_job_is_due(fx: &Fixture) {
    fx.enqueue_in(60, |spec| spec.queue = "other".into()).await;
    fx.enqueue_in(30, |_| ()).await;
    fx.enqueue(|_| ()).await;
    let request = request_for(fx, 10);
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

/// A claim that waits longer than any test takes.
fn patient(fx: &Fixture) -> ClaimRequest {
    // Longer than any clock can represent: an excessive wait is a long one, not a crash.
    let wait = Duration::MAX;
    ClaimRequest { wait, ..fx.request(fx.worker(), 5) }
}

pub async fn a_claim_that_waits_is_answered_by_the_next_enqueue(fx: &Fixture) {
    let enqueue = async {
        // Lets the claim start first; otherwise it finds the job at once, which is correct, too.
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
        // Whether the claim received the job or was abandoned first, no unknown claim holds the job.
        let claims = match gave_up {
            Ok(claimed) => claimed.unwrap().claims,
            Err(_) => fx.store.claim(patient(fx)).await.unwrap().claims,
        };
        assert_eq!(claims.len(), 1);
        assert_eq!((claims[0].job.id, claims[0].job.attempt), (id, 1));
        fx.settle(&claims[0], success()).await;
    }
}

/// The store has answered, but the caller is dropped before it receives the answer.
pub async fn a_claim_that_is_dropped_holds_nothing(fx: &Fixture) {
    let request = |wait| ClaimRequest { wait, ..request_for(fx, 10) };
    let mut waiting = fx.store.claim(request(Duration::from_secs(60)));
    // After one poll, it waits in the store.
    assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await.is_pending());
    let id = fx.enqueue(|_| ()).await;
    drop(waiting);
    let claims = fx.store.claim(request(Duration::from_secs(60))).await.unwrap().claims;
    assert_eq!(claims.iter().map(|claim| (claim.job.id, claim.job.attempt)).collect::<Vec<_>>(), [(id, 1)]);
}

/// The answer was sent, but is never received.
pub async fn an_answer_that_is_never_polled_holds_nothing(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let mut claim = fx.store.claim(request_for(fx, 10));
    if std::future::poll_fn(|cx| Poll::Ready(claim.as_mut().poll(cx))).await.is_ready() {
        // A store that answers immediately has no answers in flight.
        return;
    }
    // Other claims find nothing: the job is taken, and the answer is in flight or has arrived.
    while fx.job(id).await.status == Status::Queued {}
    drop(claim);
    let patient = ClaimRequest { wait: Duration::from_secs(60), ..request_for(fx, 10) };
    let claims = fx.store.claim(patient).await.unwrap().claims;
    assert_eq!(claims.iter().map(|claim| (claim.job.id, claim.job.attempt)).collect::<Vec<_>>(), [(id, 1)]);
}

/// Waiting claims are requested to return, and no job that they have received is released without their knowledge.
pub async fn a_woken_claim_answers_at_once(fx: &Fixture) {
    let mut waiting = fx.store.claim(patient(fx));
    assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await.is_pending());
    fx.store.wake_claims();
    assert_eq!(waiting.await.unwrap().claims, []);
    let mut waiting = fx.store.claim(patient(fx));
    assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await.is_pending());
    let id = fx.enqueue(|_| ()).await;
    fx.store.wake_claims();
    let claims = match waiting.await.unwrap().claims {
        claims if claims.is_empty() => fx.claim(fx.worker(), 1).await,
        claims => claims,
    };
    assert_eq!(claims[0].job.id, id);
    assert_eq!(fx.store.history(id).await.unwrap().attempts.len(), 1);
}

fn request_for(fx: &Fixture, limit: usize) -> ClaimRequest {
    fx.request(fx.worker(), limit)
}

/// An engine may process large claims differently from small ones; the results must be the same.
pub async fn a_large_claim_brings_every_job_whole_and_in_order(fx: &Fixture) {
    let job = |n: u32| {
        fx.new_job(|spec| {
            spec.payload = Json::trusted(format!(r#"{{"n":{n}}}"#));
            spec.priority = (n % 3) as u8;
            spec.user_id = n.is_multiple_of(2).then(|| format!("user {n}"));
            spec.options.tags = vec![format!("tag {n}")];
        })
    };
    fx.enqueue_all((0..300).map(job).collect()).await;
    // Some of the jobs have run before.
    for claim in fx.claim(fx.worker(), 50).await {
        let failed = Outcome::Failed { fault: JobError::new("no"), retry: Retry::After(Duration::ZERO) };
        fx.settle(&claim, failed).await;
    }
    let claimed = fx.store.claim(request_for(fx, 1_000)).await.unwrap().claims;
    assert_eq!(claimed.len(), 300);
    assert!(claimed.is_sorted_by_key(|claim| (u8::MAX - claim.job.spec.priority, claim.job.run_at)));
    for claim in claimed {
        assert_eq!(fx.job(claim.job.id).await, *claim.job);
        assert_eq!(fx.settle(&claim, success()).await, Settled::Done);
    }
}

/// The caller of a large claim is dropped at each possible moment.
pub async fn a_large_claim_that_is_given_up_holds_nothing(fx: &Fixture) {
    fx.enqueue_all((0..200).map(|_| fx.new_job(|_| ())).collect()).await;
    for patience in 1..=4 {
        let (mut claim, mut polls) = (fx.store.claim(request_for(fx, 1_000)), 0);
        let given_up = std::future::poll_fn(|cx| {
            polls += 1;
            match claim.as_mut().poll(cx) {
                Poll::Ready(claimed) => Poll::Ready(Some(claimed)),
                Poll::Pending if polls == patience => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        });
        let claimed = given_up.await;
        drop(claim);
        let mut claims = claimed.map_or_else(Vec::new, |claimed| claimed.unwrap().claims);
        // The abandoned claim may still be in progress: the next one receives the jobs that it left, and then those
        // that it releases.
        while claims.len() < 200 {
            let request = ClaimRequest { wait: Duration::from_secs(10), ..request_for(fx, 1_000) };
            let more = fx.store.claim(request).await.unwrap().claims;
            assert!(!more.is_empty(), "patience {patience}: {} of 200 came back", claims.len());
            claims.extend(more);
        }
        assert_eq!(claims.len(), 200, "patience {patience}");
        for claim in claims {
            assert_eq!(claim.job.attempt, 1);
            assert_eq!(fx.settle(&claim, Outcome::Released).await, Settled::Done);
        }
    }
}
