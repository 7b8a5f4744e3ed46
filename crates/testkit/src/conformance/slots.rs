//! When a slot in a limit becomes free again, including after its job was cancelled while it ran.

use std::{collections::BTreeSet, time::Duration};

use punctual_core::{
    AttemptId, AttemptStatus, Change, Claim, ClaimRequest, Limits, Outcome, Settled, Spec, Status, Verb,
};

use super::limits::{cancel, claim, ids, keyed, limit, per, release_slot, request};
use crate::{
    Fixture,
    fixture::{failure, success},
};

pub async fn a_slot_is_free_again_however_its_job_left_it(fx: &Fixture) {
    for number in 0..6 {
        let key = format!("key-{number}");
        let first = fx.enqueue(keyed(&key)).await;
        let claimed = fx.claim_one(fx.worker()).await;
        let second = fx.enqueue(keyed(&key)).await;
        assert!(fx.claim(fx.worker(), 10).await.is_empty());
        let mut next = second;
        match number {
            0 => drop(fx.settle(&claimed, success()).await),
            1 => drop(fx.settle(&claimed, failure("no")).await),
            2 => drop(fx.settle(&claimed, Outcome::Snoozed { after: Duration::from_secs(900) }).await),
            3 => {
                fx.settle(&claimed, Outcome::Released).await;
                // The job keeps its position.
                next = first;
            }
            4 => {
                cancel(fx, first).await;
                // Its handler has ended.
                release_slot(fx, &claimed).await;
            }
            _ => {
                fx.pass(31);
                assert_eq!(fx.reap().await, 1);
                next = first;
            }
        }
        let claim = fx.claim_one(fx.worker()).await;
        assert_eq!(claim.job.id, next, "{key}");
        fx.settle(&claim, success()).await;
        // Jobs that returned to their queue, or are retried, run now, too.
        for job in fx.claim(fx.worker(), 10).await {
            fx.settle(&job, success()).await;
        }
        for job in [first, second] {
            let cancel = Change { job, verb: Verb::Cancel, actor: "ada".into(), reason: None };
            fx.store.change(vec![cancel]).await.unwrap();
        }
    }
}

pub async fn a_cancelled_job_keeps_the_slot_of_its_key_until_its_handler_is_gone(fx: &Fixture) {
    for settles in [false, true] {
        let first = fx.enqueue(keyed("a")).await;
        let holder = fx.claim_one(fx.worker()).await;
        let second = fx.enqueue(keyed("a")).await;
        cancel(fx, first).await;
        assert_eq!(fx.job(first).await.status, Status::Cancelled, "it ends at once");
        assert_eq!(fx.store.check_leases(holder.worker, vec![holder.attempt_id()]).await.unwrap(), [false]);
        let history = fx.history(first).await;
        assert!(fx.claim(fx.worker(), 10).await.is_empty(), "its handler may still run");
        let elsewhere = fx.enqueue(keyed("b")).await;
        let other = fx.claim_one(fx.worker()).await;
        assert_eq!(other.job.id, elsewhere, "it does not block other jobs");
        if settles {
            assert_eq!(fx.settle(&holder, success()).await, Settled::Stale);
        } else {
            release_slot(fx, &holder).await;
        }
        let next = fx.claim_one(fx.worker()).await;
        assert_eq!(next.job.id, second);
        assert_eq!(fx.history(first).await, history, "that a slot is free is no event of the job");
        assert_eq!(fx.job(first).await.status, Status::Cancelled);
        for claim in [next, other] {
            fx.settle(&claim, success()).await;
        }
    }
}

pub async fn a_cancelled_job_keeps_the_slot_of_its_queue_until_its_handler_is_gone(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(2), ..Limits::default() }).await;
    let all = fx.enqueue_all((0..6).map(|_| fx.new_job(|spec| spec.queue = "narrow".into())).collect()).await;
    let held = fx.claim(fx.worker(), 10).await;
    assert_eq!(ids(&held), all[..2]);
    cancel(fx, all[0]).await;
    cancel(fx, all[1]).await;
    let plain = fx.enqueue(|_| ()).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), [plain]);
    assert_eq!(fx.store.limit_usage("narrow".into(), None).await.unwrap().running, 2);
    release_slot(fx, &held[0]).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[2..3]);
    assert_eq!(fx.settle(&held[1], failure("stopped")).await, Settled::Stale);
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[3..4]);
    assert_eq!(fx.store.limit_usage("narrow".into(), None).await.unwrap().running, 2);
}

pub async fn the_slot_of_a_cancelled_job_is_free_when_its_lease_ends(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(2), ..Limits::default() }).await;
    let in_narrow = |spec: &mut Spec| spec.queue = "narrow".into();
    let keyed_job = fx.enqueue(keyed("a")).await;
    let queue_job = fx.enqueue(in_narrow).await;
    let held = fx.claim(fx.worker(), 10).await;
    assert_eq!(held.len(), 2);
    fx.pass(5);
    // A running execution with a longer lease.
    let running = fx.enqueue(in_narrow).await;
    let still = fx.claim_one(fx.worker()).await;
    assert_eq!(still.job.id, running);
    let after_key = fx.enqueue(keyed("a")).await;
    let after_queue = fx.enqueue(in_narrow).await;
    cancel(fx, keyed_job).await;
    cancel(fx, queue_job).await;
    let attempts: Vec<AttemptId> = held.iter().map(Claim::attempt_id).collect();
    let lease = Duration::from_secs(300);
    assert_eq!(fx.store.extend(held[0].worker, lease, attempts).await.unwrap(), [false; 2], "it cannot be extended");
    fx.clock.advance(Duration::from_millis(24_999));
    let claimed = claim(fx, 10).await;
    assert!(claimed.claims.is_empty(), "a millisecond is left");
    let opens_at = claimed.opens_at.expect("the time at which the slots are free");
    assert_eq!(opens_at.since(fx.now()), Duration::from_millis(1));
    fx.clock.advance(Duration::from_millis(1));
    assert!(fx.store.expired(10).await.unwrap().is_empty(), "no execution is lost");
    let claims = fx.claim(fx.worker(), 10).await;
    let (claimed, expected): (BTreeSet<_>, BTreeSet<_>) =
        (ids(&claims).into_iter().collect(), [after_key, after_queue].into());
    assert_eq!(claimed, expected);
    for job in [keyed_job, queue_job] {
        assert_eq!(fx.history(job).await, [Status::Queued, Status::Processing, Status::Cancelled]);
        let attempts = fx.store.history(job).await.unwrap().attempts;
        assert_eq!((attempts.len(), attempts[0].status), (1, AttemptStatus::Cancelled));
        assert_eq!(fx.job(job).await.crash_count, 0);
    }
    // Later reports about the execution change nothing.
    for one in &held {
        assert_eq!(fx.settle(one, success()).await, Settled::Stale);
        release_slot(fx, one).await;
    }
    fx.enqueue(keyed("a")).await;
    fx.enqueue(in_narrow).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
}

pub async fn only_its_worker_frees_the_slot_of_a_cancelled_job_and_once(fx: &Fixture) {
    let first = fx.enqueue(keyed("a")).await;
    let holder = fx.claim_one(fx.worker()).await;
    let all = fx.enqueue_all((0..2).map(|_| fx.new_job(keyed("a"))).collect()).await;
    // While the job runs, there is no slot to release.
    release_slot(fx, &holder).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
    cancel(fx, first).await;
    let attempt = holder.attempt_id();
    fx.store.release_slots(fx.worker(), vec![attempt]).await.unwrap();
    let other_run = AttemptId { run: attempt.run + 1, ..attempt };
    fx.store.release_slots(holder.worker, vec![other_run]).await.unwrap();
    let mut settlement = punctual_core::settle(&holder, success(), 0.5);
    settlement.worker = fx.worker();
    assert_eq!(fx.apply(settlement).await, Settled::Stale);
    let mut lost = punctual_core::settle(&holder, success(), 0.5);
    lost.only_if_expired = true;
    assert_eq!(fx.apply(lost).await, Settled::Stale);
    assert!(fx.claim(fx.worker(), 10).await.is_empty(), "none of these knows that the handler is gone");
    release_slot(fx, &holder).await;
    release_slot(fx, &holder).await;
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, all[0]);
    release_slot(fx, &holder).await;
    assert_eq!(fx.settle(&holder, success()).await, Settled::Stale);
    assert!(fx.claim(fx.worker(), 10).await.is_empty(), "one slot, once");
}

pub async fn jobs_that_are_cancelled_together_leave_their_slots_one_by_one(fx: &Fixture) {
    let limits = Limits { key_concurrency: Some(2), ..Limits::default() };
    limit(fx, "default", limits).await;
    let all = fx.enqueue_all((0..4).map(|_| fx.new_job(keyed("a"))).collect()).await;
    let held = fx.claim(fx.worker(), 10).await;
    assert_eq!(ids(&held), all[..2]);
    cancel(fx, all[0]).await;
    cancel(fx, all[1]).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
    // The leases of both end at the same time, but one handler ends earlier.
    release_slot(fx, &held[0]).await;
    let third = fx.claim_one(fx.worker()).await;
    assert_eq!(third.job.id, all[2]);
    fx.store.extend(third.worker, Duration::from_secs(300), vec![third.attempt_id()]).await.unwrap();
    fx.pass(30);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, all[3]);
}

pub async fn a_cancelled_job_counts_as_one_start(fx: &Fixture) {
    limit(fx, "default", Limits { rate: per(2, 10), concurrency: Some(5), ..Limits::default() }).await;
    let all = fx.enqueue_all((0..4).map(|_| fx.new_job(|_| ())).collect()).await;
    let held = fx.claim(fx.worker(), 1).await;
    cancel(fx, all[0]).await;
    release_slot(fx, &held[0]).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[1..2], "neither more nor fewer may start");
    fx.pass(11);
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[2..]);
}

pub async fn a_job_that_is_run_again_waits_for_the_handler_of_the_cancelled_one(fx: &Fixture) {
    let first = fx
        .enqueue(|spec| {
            spec.unique_key = Some("u".into());
            keyed("a")(spec);
        })
        .await;
    let holder = fx.claim_one(fx.worker()).await;
    cancel(fx, first).await;
    // The same work as a new job; the unique key is free.
    let again = fx
        .enqueue(|spec| {
            spec.unique_key = Some("u".into());
            spec.options.rerun_of = Some(first);
            keyed("a")(spec);
        })
        .await;
    assert_ne!(again, first);
    assert!(fx.claim(holder.worker, 10).await.is_empty());
    assert_eq!(fx.settle(&holder, success()).await, Settled::Stale);
    let claimed = fx.claim_one(holder.worker).await;
    assert_eq!(claimed.job.id, again);
    assert_eq!(fx.settle(&claimed, success()).await, Settled::Done);
}

pub async fn a_worker_that_is_known_to_be_dead_occupies_no_slot(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(1), ..Limits::default() }).await;
    let in_narrow = |spec: &mut Spec| spec.queue = "narrow".into();
    let (of_key, of_queue) = (fx.enqueue(keyed("a")).await, fx.enqueue(in_narrow).await);
    let (dead, other) = (fx.worker(), fx.worker());
    assert_eq!(fx.claim(dead, 10).await.len(), 2);
    let (next_of_key, next_of_queue) = (fx.enqueue(keyed("a")).await, fx.enqueue(in_narrow).await);
    cancel(fx, of_key).await;
    cancel(fx, of_queue).await;
    fx.store.end_leases(other).await.unwrap();
    assert!(fx.claim(other, 10).await.is_empty());
    assert_eq!(fx.store.end_leases(dead).await.unwrap(), 0, "slots are no leases");
    let claimed: BTreeSet<_> = ids(&fx.claim(other, 10).await).into_iter().collect();
    assert_eq!(claimed, [next_of_key, next_of_queue].into());
}

pub async fn a_claim_that_waits_is_answered_when_the_handler_of_a_cancelled_job_is_gone(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(1), ..Limits::default() }).await;
    let in_narrow = |spec: &mut Spec| spec.queue = "narrow".into();
    for has_key in [true, false] {
        let job = || fx.new_job(|spec| if has_key { keyed("a")(spec) } else { in_narrow(spec) });
        let jobs = fx.enqueue_all(vec![job(), job()]).await;
        let holder = fx.claim_one(fx.worker()).await;
        cancel(fx, jobs[0]).await;
        let waiting = ClaimRequest { wait: Duration::from_secs(60), ..request(fx, 1) };
        let release = async {
            tokio::task::yield_now().await;
            release_slot(fx, &holder).await;
        };
        let (claimed, ()) = tokio::join!(fx.store.claim(waiting), release);
        let claimed = claimed.unwrap().claims;
        assert_eq!(ids(&claimed), jobs[1..]);
        fx.settle(&claimed[0], success()).await;
    }
}

pub async fn occupied_slots_are_returned_with_their_executions(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(5), ..Limits::default() }).await;
    let plain = fx.enqueue(|_| ()).await;
    let of_key = fx
        .enqueue(|spec| {
            spec.queue = "narrow".into();
            keyed("a")(spec);
        })
        .await;
    let of_queue = fx.enqueue(|spec| spec.queue = "narrow".into()).await;
    let held = fx.claim(fx.worker(), 10).await;
    assert_eq!(held.len(), 3);
    for job in [plain, of_key, of_queue] {
        cancel(fx, job).await;
    }
    assert!(fx.store.occupied_slots("default".into()).await.unwrap().is_empty(), "without a limit there is no slot");
    let occupied = fx.store.occupied_slots("narrow".into()).await.unwrap();
    let actual: Vec<_> = occupied.iter().map(|slot| (slot.attempt.job, slot.key.as_deref(), slot.worker)).collect();
    assert_eq!(actual, [(of_key, Some("a"), held[0].worker), (of_queue, None, held[0].worker)]);
    assert!(occupied.iter().all(|slot| slot.until == fx.now().after(Duration::from_secs(30))));
    assert_eq!(fx.store.limit_usage("narrow".into(), Some("a".into())).await.unwrap().running, 1);
    // Removing the job itself changes nothing: its handler may still run.
    let delete = Change { job: of_key, verb: Verb::Delete, actor: "ada".into(), reason: None };
    fx.store.change(vec![delete]).await.unwrap();
    fx.pass(1);
    assert_eq!(fx.store.purge(Duration::ZERO, 10).await.unwrap(), 1);
    assert_eq!(fx.store.occupied_slots("narrow".into()).await.unwrap(), occupied);
    fx.pass(29);
    assert!(fx.store.occupied_slots("narrow".into()).await.unwrap().is_empty());
    fx.store.prune(Duration::from_secs(3_600), 100).await.unwrap();
}
