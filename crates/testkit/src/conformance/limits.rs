use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{
    Change, Changed, Claim, ClaimRequest, Claimed, JobId, Limits, QueueSave, QueueSettings, Rate, Settled, Spec,
    Status, Verb,
};

use crate::{
    Fixture,
    fixture::{failure, success},
};

pub(super) async fn limit(fx: &Fixture, queue: &str, limits: Limits) {
    let known = fx.store.queues().await.unwrap().into_iter().find(|known| known.name == queue);
    let save = QueueSave {
        name: queue.into(),
        settings: QueueSettings { limits, ..QueueSettings::default() },
        revision: known.map_or(0, |known| known.revision),
        actor: "ada".into(),
        action: "limited".into(),
    };
    assert!(fx.store.save_queue(save).await.unwrap());
}

pub(super) fn keyed(key: &str) -> impl FnOnce(&mut Spec) {
    let key = key.to_owned();
    move |spec| spec.options.concurrency_key = Some(key)
}

pub(super) fn request(fx: &Fixture, limit: usize) -> ClaimRequest {
    fx.request(fx.worker(), limit)
}

pub(super) async fn claim(fx: &Fixture, limit: usize) -> Claimed {
    fx.store.claim(request(fx, limit)).await.unwrap()
}

pub(super) fn ids(claims: &[Claim]) -> Vec<JobId> {
    claims.iter().map(|claim| claim.job.id).collect()
}

pub(super) async fn cancel(fx: &Fixture, job: JobId) {
    let cancel = Change { job, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    assert_eq!(fx.store.change(vec![cancel]).await.unwrap(), [Changed::Done]);
}

/// Reports that the handler of a cancelled job has ended.
pub(super) async fn release_slot(fx: &Fixture, claim: &Claim) {
    fx.store.release_slots(claim.worker, vec![claim.attempt_id()]).await.unwrap();
}

pub(super) fn per(count: u32, seconds: u64) -> Option<Rate> {
    Some(Rate { count, period: Duration::from_secs(seconds) })
}

pub async fn jobs_of_one_key_run_one_at_a_time(fx: &Fixture) {
    let first = fx.enqueue(keyed("a")).await;
    let second = fx.enqueue(keyed("a")).await;
    let elsewhere = fx
        .enqueue(|spec| {
            spec.queue = "other".into();
            keyed("a")(spec);
        })
        .await;
    let claims = fx.claim(fx.worker(), 10).await;
    assert_eq!(ids(&claims), [first, elsewhere], "a key is a queue's own");
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
    fx.settle(&claims[0], success()).await;
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, second);
}

pub async fn jobs_with_and_without_a_key_in_one_batch_are_distinguished(fx: &Fixture) {
    for keyed_first in [true, false] {
        let of = |number: usize| {
            let has_key = number.is_multiple_of(2) == keyed_first;
            fx.new_job(move |spec| spec.options.concurrency_key = has_key.then(|| "a".to_owned()))
        };
        let jobs = fx.enqueue_all((0..4).map(of).collect()).await;
        let (keyed, plain) = if keyed_first { ([0, 2], [1, 3]) } else { ([1, 3], [0, 2]) };
        let claims = fx.claim(fx.worker(), 10).await;
        let expected: BTreeSet<JobId> = [keyed[0], plain[0], plain[1]].map(|index| jobs[index]).into();
        assert_eq!(ids(&claims).into_iter().collect::<BTreeSet<_>>(), expected);
        for claim in &claims {
            fx.settle(claim, success()).await;
        }
        let last = fx.claim_one(fx.worker()).await;
        assert_eq!(last.job.id, jobs[keyed[1]]);
        fx.settle(&last, success()).await;
    }
}

pub async fn a_full_key_does_not_block_jobs_behind_it(fx: &Fixture) {
    let mut jobs: Vec<_> = (0..60)
        .map(|_| {
            fx.new_job(|spec| {
                spec.priority = 9;
                keyed("busy")(spec);
            })
        })
        .collect();
    jobs.extend((0..3).map(|n| fx.new_job(keyed(&format!("calm-{n}")))));
    jobs.push(fx.new_job(|_| ()));
    let all = fx.enqueue_all(jobs).await;
    let claims = fx.claim(fx.worker(), 50).await;
    assert_eq!(ids(&claims), [&all[..1], &all[60..]].concat());
}

pub async fn the_first_of_a_key_is_the_most_urgent_then_the_oldest(fx: &Fixture) {
    let plain = fx.enqueue(keyed("a")).await;
    let urgent = fx
        .enqueue(|spec| {
            spec.priority = 8;
            keyed("a")(spec);
        })
        .await;
    let named = fx
        .enqueue(|spec| {
            spec.name = "other".into();
            keyed("a")(spec);
        })
        .await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let claim = fx.claim_one(fx.worker()).await;
        order.push(claim.job.id);
        fx.settle(&claim, success()).await;
    }
    assert_eq!(order, [urgent, plain, named]);
}

pub async fn a_key_waits_for_no_worker_that_is_not_there(fx: &Fixture) {
    fx.enqueue(|spec| {
        spec.name = "unknown".into();
        keyed("a")(spec);
    })
    .await;
    limit(fx, "narrow", Limits { concurrency: Some(1), ..Limits::default() }).await;
    fx.enqueue(|spec| (spec.name, spec.queue) = ("unknown".into(), "narrow".into())).await;
    let keyed = fx.enqueue(keyed("a")).await;
    let narrow = fx.enqueue(|spec| spec.queue = "narrow".into()).await;
    let claimed = fx.store.claim(ClaimRequest { names: vec!["test".into()], ..request(fx, 10) }).await.unwrap();
    assert_eq!(ids(&claimed.claims), [keyed, narrow]);
}

pub async fn every_way_to_be_queued_obeys_the_limits(fx: &Fixture) {
    let running = fx.enqueue(keyed("a")).await;
    let holder = fx.claim_one(fx.worker()).await;
    assert_eq!(holder.job.id, running);
    let later = fx.enqueue_in(5, keyed("a")).await;
    let parent = fx.enqueue(|_| ()).await;
    let mut child = fx.new_job(keyed("a"));
    child.parents = vec![parent];
    let child = fx.enqueue_all(vec![child]).await[0];
    let soon = fx.enqueue_in(500, keyed("a")).await;
    fx.settle(&fx.claim_one(fx.worker()).await, success()).await;
    let now = Change { job: soon, verb: Verb::RunNow, actor: "ada".into(), reason: None };
    fx.store.change(vec![now]).await.unwrap();
    fx.pass(10);
    assert_eq!(fx.store.promote(10).await.unwrap(), 1);
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
    for id in [later, child, soon] {
        assert_eq!(fx.job(id).await.status, Status::Queued);
    }
    fx.settle(&holder, success()).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        let claim = fx.claim_one(fx.worker()).await;
        order.push(claim.job.id);
        fx.settle(&claim, success()).await;
    }
    order.sort();
    let mut expected = [later, child, soon];
    expected.sort();
    assert_eq!(order, expected);
}

pub async fn a_queued_job_with_a_key_can_be_cancelled_and_listed(fx: &Fixture) {
    let first = fx.enqueue(keyed("a")).await;
    let second = fx.enqueue(keyed("a")).await;
    let filter = punctual_core::Filter::status(Status::Queued);
    let listed = fx.store.list(filter, punctual_core::Page::first(10)).await.unwrap();
    assert_eq!(listed.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [first, second]);
    let cancel = Change { job: first, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    fx.store.change(vec![cancel]).await.unwrap();
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, second, "the next one moves up");
}

pub async fn a_queue_runs_no_more_than_its_limit_with_concurrent_claims(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(3), ..Limits::default() }).await;
    let narrow = fx.enqueue_all((0..10).map(|_| fx.new_job(|spec| spec.queue = "narrow".into())).collect()).await;
    let wide = fx.enqueue_all((0..4).map(|_| fx.new_job(|_| ())).collect()).await;
    let first = fx.claim(fx.worker(), 2).await;
    assert_eq!(ids(&first), narrow[..2]);
    let second = fx.claim(fx.worker(), 10).await;
    assert_eq!(ids(&second), [&narrow[2..3], &wide[..]].concat());
    fx.settle(&first[0], success()).await;
    fx.settle(&first[1], failure("no")).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), narrow[3..5]);
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
}

pub async fn a_changed_limit_counts_from_the_next_claim_on(fx: &Fixture) {
    let all = fx.enqueue_all((0..9).map(|_| fx.new_job(keyed("a"))).collect()).await;
    let mut held = fx.claim(fx.worker(), 10).await;
    assert_eq!(ids(&held), all[..1]);
    limit(fx, "default", Limits { key_concurrency: Some(3), ..Limits::default() }).await;
    held.extend(fx.claim(fx.worker(), 10).await);
    assert_eq!(ids(&held), all[..3]);
    limit(fx, "default", Limits { key_concurrency: Some(0), concurrency: Some(5), ..Limits::default() }).await;
    held.extend(fx.claim(fx.worker(), 10).await);
    assert_eq!(ids(&held), all[..5], "any number of the key, five of the queue");
    limit(fx, "default", Limits { key_concurrency: Some(2), ..Limits::default() }).await;
    for claim in held.drain(..4) {
        assert!(fx.claim(fx.worker(), 10).await.is_empty());
        assert_eq!(fx.settle(&claim, success()).await, Settled::Done);
    }
    held.extend(fx.claim(fx.worker(), 10).await);
    assert_eq!(ids(&held), all[4..6], "one runs still, so one more may start");
    limit(fx, "default", Limits { key_concurrency: Some(0), ..Limits::default() }).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[6..]);
}

pub async fn jobs_of_a_queue_start_in_time_when_its_limit_is_removed(fx: &Fixture) {
    let in_queue = |name: &'static str| move |spec: &mut Spec| spec.queue = name.into();
    fx.enqueue(in_queue("free")).await;
    fx.enqueue(in_queue("narrow")).await;
    assert_eq!(fx.claim(fx.worker(), 10).await.len(), 2);
    let before = fx.enqueue_in(9, in_queue("narrow")).await;
    limit(fx, "narrow", Limits { concurrency: Some(1), ..Limits::default() }).await;
    let during = fx.enqueue_in(9, in_queue("narrow")).await;
    limit(fx, "narrow", Limits::default()).await;
    // The first claim serves another queue.
    let elsewhere = ClaimRequest { queues: vec!["free".into()], ..request(fx, 10) };
    assert!(fx.store.claim(elsewhere).await.unwrap().claims.is_empty());
    fx.pass(9);
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), [before, during]);
}

pub async fn a_rate_lets_no_more_start_in_any_span(fx: &Fixture) {
    limit(fx, "default", Limits { rate: per(3, 10), ..Limits::default() }).await;
    let all = fx.enqueue_all((0..9).map(|_| fx.new_job(|_| ())).collect()).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 1).await), all[..1]);
    fx.pass(6);
    let claimed = claim(fx, 10).await;
    assert_eq!(ids(&claimed.claims), all[1..3]);
    let opens_at = claimed.opens_at.expect("the time at which more jobs may start");
    assert!(opens_at.since(fx.now()) >= Duration::from_secs(4) && opens_at.since(fx.now()) < Duration::from_secs(5));
    fx.clock.advance(Duration::from_millis(3_999));
    assert!(claim(fx, 10).await.claims.is_empty(), "the first start lies less than ten seconds back");
    fx.clock.advance(opens_at.since(fx.now()));
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[3..4]);
    fx.pass(60);
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[4..7], "what was not used is not saved up");
}

pub async fn each_key_has_the_rate_of_its_queue(fx: &Fixture) {
    let limits = Limits { key_concurrency: Some(0), key_rate: per(2, 10), ..Limits::default() };
    limit(fx, "default", limits).await;
    let a = fx.enqueue_all((0..5).map(|_| fx.new_job(keyed("a"))).collect()).await;
    let b = fx.enqueue(keyed("b")).await;
    let free = fx.enqueue(|_| ()).await;
    let claimed = claim(fx, 10).await;
    assert_eq!(ids(&claimed.claims), [a[0], a[1], b, free]);
    // The end of these executions does not change the count.
    for one in &claimed.claims {
        fx.settle(one, success()).await;
    }
    let claimed = claim(fx, 10).await;
    assert!(claimed.claims.is_empty());
    let opens_at = claimed.opens_at.expect("the time at which more jobs may start");
    assert!(opens_at.since(fx.now()) >= Duration::from_secs(10) && opens_at.since(fx.now()) < Duration::from_secs(11));
    fx.clock.advance(opens_at.since(fx.now()));
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), a[2..4]);
}

pub async fn keys_take_turns_where_a_queue_is_fair(fx: &Fixture) {
    let weights = BTreeMap::from([("paying".to_owned(), 2)]);
    limit(fx, "default", Limits { key_concurrency: Some(0), fair: true, weights, ..Limits::default() }).await;
    let busy = fx.enqueue_all((0..200).map(|_| fx.new_job(keyed("busy"))).collect()).await;
    fx.pass(60);
    let calm = fx.enqueue_all((0..3).map(|_| fx.new_job(keyed("calm"))).collect()).await;
    let paying = fx.enqueue_all((0..6).map(|_| fx.new_job(keyed("paying"))).collect()).await;
    let keyless = fx.enqueue_all((0..2).map(|_| fx.new_job(|_| ())).collect()).await;
    let mut order = Vec::new();
    // Independent of the number of jobs per claim.
    for wanted in [1, 2, 1, 4, 3, 5, 1] {
        order.extend(ids(&fx.claim(fx.worker(), wanted).await));
    }
    let of = |all: &[JobId]| order[..14].iter().filter(|id| all.contains(id)).count();
    assert_eq!(of(&busy), 3, "{order:?}");
    assert_eq!(of(&calm), 3, "{order:?}");
    assert_eq!(of(&paying), 6, "{order:?}");
    assert_eq!(of(&keyless), 2, "{order:?}");
    let later = ids(&fx.claim(fx.worker(), 20).await);
    assert_eq!(later, busy[order.iter().filter(|id| busy.contains(id)).count()..][..20], "alone, a key has all turns");
    // A key that becomes active again has neither saved up turns nor missed any.
    let again = fx.enqueue_all((0..10).map(|_| fx.new_job(keyed("calm"))).collect()).await;
    let shared = ids(&fx.claim(fx.worker(), 10).await);
    let calm = shared.iter().filter(|id| again.contains(id)).count();
    assert!((4..=6).contains(&calm), "{calm} of 10");
}

pub async fn limited_jobs_are_not_claimed_ahead(fx: &Fixture) {
    limit(fx, "narrow", Limits { concurrency: Some(5), ..Limits::default() }).await;
    fx.enqueue_in(3, keyed("a")).await;
    fx.enqueue_in(3, |spec| spec.queue = "narrow".into()).await;
    let free = fx.enqueue_in(3, |_| ()).await;
    let ahead = ClaimRequest { ahead: Duration::from_secs(5), ..request(fx, 10) };
    assert_eq!(ids(&fx.store.claim(ahead).await.unwrap().claims), [free]);
    fx.pass(3);
    assert_eq!(fx.claim(fx.worker(), 10).await.len(), 2);
}

pub async fn many_keys_are_all_served_and_none_twice_at_once(fx: &Fixture) {
    const KEYS: usize = 2_500;
    for part in 0..2 {
        let jobs = (0..KEYS).map(|number| fx.new_job(keyed(&format!("key-{number}")))).collect();
        fx.enqueue_all(jobs).await;
        fx.pass(part);
    }
    let mut done = 0;
    loop {
        let mut held = Vec::new();
        loop {
            let claims = fx.claim(fx.worker(), 700).await;
            if claims.is_empty() {
                break;
            }
            held.extend(claims);
        }
        let keys: std::collections::BTreeSet<_> =
            held.iter().map(|claim| claim.job.spec.options.concurrency_key.clone()).collect();
        assert_eq!(keys.len(), held.len(), "each of another key");
        if held.is_empty() {
            break;
        }
        done += held.len();
        let settled = held.iter().map(|claim| punctual_core::settle(claim, success(), 0.5)).collect();
        fx.store.settle(settled).await.unwrap();
    }
    assert_eq!(done, 2 * KEYS);
}

pub async fn a_shorter_period_counts_at_once(fx: &Fixture) {
    limit(fx, "default", Limits { rate: per(1, 86_400), ..Limits::default() }).await;
    let all = fx.enqueue_all((0..2).map(|_| fx.new_job(|_| ())).collect()).await;
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[..1]);
    fx.pass(1);
    limit(fx, "default", Limits { rate: per(1, 10), ..Limits::default() }).await;
    let claimed = claim(fx, 10).await;
    assert!(claimed.claims.is_empty(), "it is counted as of the change at the latest");
    let opens_at = claimed.opens_at.expect("the time at which more jobs may start");
    assert!(opens_at.since(fx.now()) <= Duration::from_secs(10));
    fx.pass(10);
    assert_eq!(ids(&fx.claim(fx.worker(), 10).await), all[1..]);
}

pub async fn a_claim_that_waits_is_answered_when_a_slot_is_free(fx: &Fixture) {
    fx.enqueue(keyed("a")).await;
    let holder = fx.claim_one(fx.worker()).await;
    let second = fx.enqueue(keyed("a")).await;
    let waiting = ClaimRequest { wait: Duration::from_secs(60), ..request(fx, 1) };
    let settle = async {
        tokio::task::yield_now().await;
        fx.settle(&holder, success()).await
    };
    let (claimed, settled) = tokio::join!(fx.store.claim(waiting), settle);
    assert_eq!((ids(&claimed.unwrap().claims), settled), (vec![second], Settled::Done));
}

pub async fn a_rate_is_used_up_and_nothing_comes_a_period_late(fx: &Fixture) {
    const COUNT: u32 = 3;
    let period = Duration::from_secs(10);
    limit(fx, "default", Limits { rate: per(COUNT, 10), ..Limits::default() }).await;
    // An odd time, so that nothing matches by coincidence.
    fx.clock.advance(Duration::from_micros(1_234_567));
    let (began, all) = (fx.now(), fx.enqueue_all((0..200).map(|_| fx.new_job(|_| ())).collect()).await);
    let mut starts = Vec::new();
    while starts.len() < all.len() {
        let claimed = claim(fx, 10).await;
        starts.extend(claimed.claims.iter().map(|_| fx.now()));
        let opens_at = claimed.opens_at.unwrap_or(fx.now());
        fx.clock.advance(opens_at.since(fx.now()));
    }
    for (number, at) in starts.iter().enumerate() {
        let ideal = began.after(period * (number as u32 / COUNT));
        assert!(at.since(ideal) < period, "start {number} is late by {:?}", at.since(ideal));
    }
    for span in starts.windows(COUNT as usize + 1) {
        assert!(span[COUNT as usize].since(span[0]) >= period);
    }
}

pub async fn the_longest_key_of_the_longest_queue_is_limited(fx: &Fixture) {
    // Four bytes per character, and no repetitions, so that nothing can be compressed.
    let odd = |count: u32, seed: u32| -> String {
        (0..count).filter_map(|n| char::from_u32(0x2_0000 + (n * 7_919 + seed) * 31 % 0xa000)).collect()
    };
    let (queue, key) = (odd(128, 1), odd(512, 2));
    limit(fx, &queue, Limits { key_rate: per(1, 10), fair: true, ..Limits::default() }).await;
    let job = || {
        fx.new_job(|spec| {
            spec.queue = queue.clone();
            spec.options.concurrency_key = Some(key.clone());
        })
    };
    let all = fx.enqueue_all(vec![job(), job()]).await;
    let first = fx.claim_one(fx.worker()).await;
    fx.settle(&first, success()).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
    fx.pass(11);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, all[1]);
}
