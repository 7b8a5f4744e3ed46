use std::time::Duration;

use punctual_core::{
    Change, Changed, Enqueued, Ids, JobId, JobOptions, Json, LogLevel, NewJob, Occurrence, OnParentFailure,
    ParentResults, RetryPolicy, Spec, Status, Unique, Verb, WorkflowId, limits,
};

use crate::{
    Fixture,
    fixture::{failure, success},
};

pub async fn an_enqueued_job_is_read_back_as_it_was_given(fx: &Fixture) {
    let new = fx.new_job(|spec| {
        spec.queue = "mail".into();
        spec.payload = Json::trusted(r#"{"to": "ada@example.com", "n": [1, 2.5e3, null, "\u0000"]}"#);
        spec.priority = 9;
        spec.max_attempts = 7;
        spec.timeout = Duration::from_millis(1_234);
        spec.user_id = Some("ada".into());
        spec.correlation_id = Some("order-7".into());
        spec.unique_key = Some("k".into());
        spec.workflow_id = Some(WorkflowId::from_bits(77));
        spec.keep_for = Some(Duration::from_secs(60));
        spec.ephemeral = true;
        spec.options = JobOptions {
            max_crashes: Some(5),
            retry: Some(RetryPolicy::list([1, 2].map(Duration::from_secs)).jitter(0.0)),
            tags: vec!["a".into(), "b".into()],
            created_by: Some("shop".into()),
            trace: Some("00-1-2-01".into()),
            trace_state: Some("vendor=1".into()),
            concurrency_key: Some("tenant-1".into()),
            metadata: Some(r#"{"x":{"y":1}}"#.parse::<Json>().unwrap().read().unwrap()),
            description: Some("says hello\nin two lines".into()),
            occurrence: Some(Occurrence { schedule: "nightly".into(), at: fx.now() }),
            rerun_of: Some(JobId::from_bits(5)),
            redact_keys: vec!["to".into()],
            unique: Some(Unique { per_queue: true, states: vec![Status::Queued], ..Unique::default() }),
            on_parent_failure: OnParentFailure::Wait,
            parent_results: ParentResults::Always,
            node: Some("first".into()),
            callback_of: Some(WorkflowId::from_bits(78)),
            log_level: Some(LogLevel::Debug),
        };
    });
    let id = fx.enqueue_all(vec![new.clone()]).await[0];
    let job = fx.job(id).await;
    assert_eq!(job.spec, new.spec);
    assert_eq!(job.id, new.id);
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.attempt, 0);
    assert_eq!(job.run, 0);
    assert_eq!(job.scheduled_at(), fx.now());
    assert_eq!(job.run_at, fx.now());
    assert_eq!(job.created_at, fx.now());
    assert_eq!(job.updated_at, fx.now());
    assert_eq!(job.started_at, None);
    assert_eq!(job.finished_at, None);
    assert_eq!(job.worker_id, None);
    assert_eq!(job.lease_until, None);
    assert_eq!(fx.history(id).await, [Status::Queued]);
}

pub async fn a_job_for_later_is_scheduled_and_one_for_now_is_queued(fx: &Fixture) {
    let later = fx.enqueue_in(60, |_| ()).await;
    let due = fx.enqueue_in(0, |_| ()).await;
    assert_eq!((fx.job(later).await.status, fx.history(later).await), (Status::Scheduled, vec![Status::Scheduled]));
    assert_eq!(fx.job(later).await.run_at, fx.now().after(Duration::from_secs(60)));
    assert_eq!((fx.job(due).await.status, fx.history(due).await), (Status::Queued, vec![Status::Queued]));
}

pub async fn a_client_whose_clock_is_ahead_does_not_delay_its_jobs(fx: &Fixture) {
    let ahead = fx.now().after(Duration::from_secs(5));
    let new = NewJob { id: JobId::from_bits(Ids::seeded(3).next(ahead)), ..fx.new_job(|_| ()) };
    let id = fx.enqueue_all(vec![new]).await[0];
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.run_at, fx.now());
    assert_eq!(job.scheduled_at(), ahead);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, id);
}

pub async fn the_same_id_is_stored_once(fx: &Fixture) {
    let new = fx.new_job(|_| ());
    let first = fx.store.enqueue(vec![new.clone()]).await.unwrap();
    let again = fx.store.enqueue(vec![new.clone(), new.clone()]).await.unwrap();
    assert!(!first[0].existing);
    assert!(again.iter().all(|enqueued| enqueued.existing && enqueued.id == new.id));
    assert_eq!(fx.history(new.id).await, [Status::Queued]);
    assert_eq!(fx.store.counts().await.unwrap()[0].count, 1);
}

pub async fn a_unique_key_returns_the_job_that_holds_it(fx: &Fixture) {
    let keyed = |name: &str| {
        let name = name.to_owned();
        fx.new_job(|spec| (spec.name, spec.unique_key) = (name, Some("order-1".into())))
    };
    let first = fx.enqueue_all(vec![keyed("charge")]).await[0];
    let again = fx.store.enqueue(vec![keyed("charge")]).await.unwrap()[0];
    assert_eq!((again.id, again.existing), (first, true));
    let other = fx.store.enqueue(vec![keyed("ship")]).await.unwrap()[0];
    assert!(!other.existing, "the key of another name is another key");
    // Also once the first job has succeeded: its work is done.
    for claim in fx.claim(fx.worker(), 10).await {
        fx.settle(&claim, success()).await;
    }
    assert_eq!(fx.store.enqueue(vec![keyed("charge")]).await.unwrap()[0].id, first);
}

pub async fn a_unique_key_is_free_again_once_its_job_is_cancelled_or_deleted(fx: &Fixture) {
    let keyed = || fx.new_job(|spec| spec.unique_key = Some("k".into()));
    for verb in [Verb::Cancel, Verb::Delete] {
        let first = fx.enqueue_all(vec![keyed()]).await[0];
        let change = Change { job: first, verb, actor: "ada".into(), reason: None };
        fx.store.change(vec![change]).await.unwrap();
        let second = fx.store.enqueue(vec![keyed()]).await.unwrap()[0];
        assert!(!second.existing, "{verb}");
        let change = Change { job: second.id, verb: Verb::Cancel, actor: "ada".into(), reason: None };
        fx.store.change(vec![change]).await.unwrap();
    }
}

pub async fn a_unique_key_twice_in_one_batch_makes_one_job(fx: &Fixture) {
    let keyed = || fx.new_job(|spec| spec.unique_key = Some("k".into()));
    let enqueued = fx.store.enqueue(vec![keyed(), keyed(), fx.new_job(|_| ())]).await.unwrap();
    assert_eq!(enqueued.iter().map(|one| one.existing).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(enqueued[0].id, enqueued[1].id);
}

/// A job with the key `k` in the scope of `unique`.
fn keyed(fx: &Fixture, unique: Unique, adjust: impl FnOnce(&mut Spec)) -> NewJob {
    fx.new_job(|spec| {
        (spec.unique_key, spec.options.unique) = (Some("k".into()), Some(unique));
        adjust(spec);
    })
}

async fn enqueue_one(fx: &Fixture, job: NewJob) -> Enqueued {
    fx.store.enqueue(vec![job]).await.unwrap()[0]
}

/// A caller that did not receive the answer enqueues the same job again.
pub async fn a_repeated_enqueue_keeps_its_unique_key(fx: &Fixture) {
    for in_batch in [false, true] {
        let of_key = || fx.new_job(|spec| spec.unique_key = Some(format!("k-{in_batch}")));
        let first = of_key();
        let repeat = async || {
            let plain = fx.new_job(|_| ());
            let batch = if in_batch { vec![plain, first.clone(), first.clone()] } else { vec![first.clone()] };
            fx.store.enqueue(batch).await.unwrap().split_off(usize::from(in_batch))
        };
        assert_eq!(repeat().await[0], Enqueued::new(first.id));
        assert!(repeat().await.iter().all(|one| *one == Enqueued::existing(first.id)));
        assert_eq!(enqueue_one(fx, of_key()).await, Enqueued::existing(first.id));
        for claim in fx.claim(fx.worker(), 10).await {
            fx.settle(&claim, success()).await;
        }
        assert_eq!(repeat().await[0], Enqueued::existing(first.id));
        assert_eq!(enqueue_one(fx, of_key()).await, Enqueued::existing(first.id), "also once it has succeeded");
        assert_eq!(fx.history(first.id).await, [Status::Queued, Status::Processing, Status::Succeeded]);
    }
}

pub async fn a_repeated_enqueue_takes_no_unique_key_from_another_job(fx: &Fixture) {
    // The second one is in a batch that is stored one job after the other.
    for replace_payload in [false, true] {
        let unique = || Unique { replace_payload, ..Unique::default() };
        let of_key = || keyed(fx, unique(), |spec| spec.name = format!("replace {replace_payload}"));
        let (first, second) = (of_key(), of_key());
        assert_eq!(enqueue_one(fx, first.clone()).await, Enqueued::new(first.id));
        assert_eq!(enqueue_one(fx, first.clone()).await, Enqueued::existing(first.id), "it does not update itself");
        let cancel = Change { job: first.id, verb: Verb::Cancel, actor: "ada".into(), reason: None };
        fx.store.change(vec![cancel]).await.unwrap();
        assert_eq!(enqueue_one(fx, first.clone()).await, Enqueued::existing(first.id));
        assert_eq!(enqueue_one(fx, second.clone()).await, Enqueued::new(second.id), "a cancelled job has no key");
        assert_eq!(
            enqueue_one(fx, first.clone()).await,
            Enqueued::existing(first.id),
            "it is stored, so it is returned"
        );
        let both = fx.store.enqueue(vec![first.clone(), second.clone()]).await.unwrap();
        assert_eq!(both, [Enqueued::existing(first.id), Enqueued::existing(second.id)]);
        assert_eq!(enqueue_one(fx, of_key()).await.id, second.id, "and the second keeps its key");
    }
}

pub async fn a_unique_key_may_reach_a_queue_or_all_names(fx: &Fixture) {
    let per_queue = || Unique { per_queue: true, ..Unique::default() };
    let first = enqueue_one(fx, keyed(fx, per_queue(), |spec| spec.queue = "a".into())).await;
    let same = enqueue_one(fx, keyed(fx, per_queue(), |spec| spec.queue = "a".into())).await;
    let other = enqueue_one(fx, keyed(fx, per_queue(), |spec| spec.queue = "b".into())).await;
    assert_eq!(same.id, first.id);
    assert!(same.existing);
    assert!(!other.existing);
    let any = || Unique { any_name: true, ..Unique::default() };
    let first = enqueue_one(fx, keyed(fx, any(), |spec| spec.name = "x".into())).await;
    let same = enqueue_one(fx, keyed(fx, any(), |spec| spec.name = "y".into())).await;
    assert!(!first.existing);
    assert_eq!(same.id, first.id);
    assert!(same.existing);
    // A released key is released in its own scope.
    let cancel = Change { job: first.id, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    fx.store.change(vec![cancel]).await.unwrap();
    assert!(!enqueue_one(fx, keyed(fx, any(), |spec| spec.name = "y".into())).await.existing);
}

pub async fn a_unique_key_is_in_force_for_its_period(fx: &Fixture) {
    let minute = || Unique { period: Some(Duration::from_secs(60)), ..Unique::default() };
    let first = enqueue_one(fx, keyed(fx, minute(), |_| ())).await;
    fx.pass(59);
    assert_eq!(enqueue_one(fx, keyed(fx, minute(), |_| ())).await.id, first.id);
    fx.pass(1);
    let second = enqueue_one(fx, keyed(fx, minute(), |_| ())).await;
    assert!(!second.existing, "the period began with the first, and is over");
    fx.pass(59);
    assert_eq!(enqueue_one(fx, keyed(fx, minute(), |_| ())).await.id, second.id);
    // The first job does not release the key of the second.
    let cancel = Change { job: first.id, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    fx.store.change(vec![cancel]).await.unwrap();
    assert_eq!(enqueue_one(fx, keyed(fx, minute(), |_| ())).await.id, second.id);
}

pub async fn a_unique_key_counts_only_in_the_states_it_names(fx: &Fixture) {
    let unstarted = || Unique { states: vec![Status::Scheduled, Status::Queued], ..Unique::default() };
    let first = enqueue_one(fx, keyed(fx, unstarted(), |_| ())).await;
    assert!(enqueue_one(fx, keyed(fx, unstarted(), |_| ())).await.existing);
    let claim = fx.claim_one(fx.worker()).await;
    let second = enqueue_one(fx, keyed(fx, unstarted(), |_| ())).await;
    assert_eq!((claim.job.id, second.existing), (first.id, false), "the first runs, so it is not in the way");
    assert_eq!(enqueue_one(fx, keyed(fx, unstarted(), |_| ())).await.id, second.id);
    fx.settle(&claim, success()).await;
    assert_eq!(enqueue_one(fx, keyed(fx, unstarted(), |_| ())).await.id, second.id);
}

pub async fn a_retried_job_takes_its_unique_key_again_unless_another_job_holds_it(fx: &Fixture) {
    let unfinished = || {
        let states = Status::ALL.into_iter().filter(|status| status.is_active()).collect();
        keyed(fx, Unique { states, ..Unique::default() }, |spec| spec.max_attempts = 1)
    };
    let mut dead = Vec::new();
    for _ in 0..2 {
        dead.push(enqueue_one(fx, unfinished()).await.id);
        let claim = fx.claim_one(fx.worker()).await;
        fx.settle(&claim, failure("no")).await;
    }
    let retry = async |jobs: &[JobId]| {
        let retry = |job: &JobId| Change { job: *job, verb: Verb::Retry, actor: "ada".into(), reason: None };
        fx.store.change(jobs.iter().map(retry).collect()).await.unwrap()
    };
    let holder = |changed: &Changed| if let Changed::Refused(refused) = changed { refused.holder } else { None };
    let active = enqueue_one(fx, unfinished()).await;
    assert!(!active.existing, "neither of the dead is in its way");
    let refused = retry(&dead).await;
    assert_eq!(refused.iter().map(holder).collect::<Vec<_>>(), [Some(active.id); 2]);
    assert_eq!(fx.job(dead[0]).await.status, Status::Dead);
    assert_eq!(fx.history(dead[0]).await.last(), Some(&Status::Dead), "a refusal adds no event");
    // When the key is free, the first of two jobs gets it.
    let cancel = Change { job: active.id, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    fx.store.change(vec![cancel]).await.unwrap();
    let both = retry(&dead).await;
    assert_eq!((&both[0], holder(&both[1])), (&Changed::Done, Some(dead[0])));
    assert_eq!(enqueue_one(fx, unfinished()).await.id, dead[0], "it is in the way of others again");
    // A job that kept its key does not need another one.
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("no")).await;
    assert_eq!(retry(&dead[..1]).await, [Changed::Done]);
}

pub async fn a_retried_job_has_its_unique_key_only_for_what_is_left_of_its_period(fx: &Fixture) {
    let minute = || {
        let unique = Unique { period: Some(Duration::from_secs(60)), ..Unique::default() };
        keyed(fx, unique, |spec| spec.max_attempts = 1)
    };
    let first = enqueue_one(fx, minute()).await.id;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("no")).await;
    fx.pass(60);
    let second = enqueue_one(fx, minute()).await.id;
    let retry = Change { job: first, verb: Verb::Retry, actor: "ada".into(), reason: None };
    let refused = fx.store.change(vec![retry.clone()]).await.unwrap();
    assert!(matches!(&refused[..], [Changed::Refused(refused)] if refused.holder == Some(second)));
    fx.pass(60);
    assert_eq!(fx.store.change(vec![retry]).await.unwrap(), [Changed::Done], "the second's period is over as well");
    assert!(!enqueue_one(fx, minute()).await.existing, "its own period has long been over");
}

pub async fn each_job_of_a_batch_is_checked_against_those_before_it(fx: &Fixture) {
    let running = || Unique { states: vec![Status::Processing], ..Unique::default() };
    let batch = vec![keyed(fx, running(), |_| ()), keyed(fx, running(), |_| ()), keyed(fx, Unique::default(), |_| ())];
    let enqueued = fx.store.enqueue(batch).await.unwrap();
    let existing: Vec<bool> = enqueued.iter().map(|one| one.existing).collect();
    assert_eq!(existing, [false, false, true], "a queued job is only in the way of those who mind");
    assert_eq!(enqueued[2].id, enqueued[1].id, "the last one to come has the key");
}

pub async fn a_conflict_may_replace_the_payload_of_a_job_that_has_not_started(fx: &Fixture) {
    let replacing = |text: &str| {
        let unique = Unique { replace_payload: true, ..Unique::default() };
        keyed(fx, unique, |spec| spec.payload = Json::trusted(text))
    };
    let first = enqueue_one(fx, replacing("1")).await;
    fx.pass(1);
    let second = enqueue_one(fx, replacing("2")).await;
    assert_eq!(second.id, first.id);
    assert!(second.existing);
    assert!(second.updated);
    let both = fx.store.enqueue(vec![replacing("3"), replacing("4")]).await.unwrap();
    assert!(both.iter().all(|one| one.id == first.id && one.updated));
    assert_eq!(fx.job(first.id).await.spec.payload.as_str(), "4", "the last one counts");
    assert_eq!(fx.history(first.id).await, [Status::Queued; 4]);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.spec.payload.as_str(), "4");
    let late = enqueue_one(fx, replacing("5")).await;
    assert_eq!(late.id, first.id, "it runs already");
    assert!(late.existing, "it runs already");
    assert!(!late.updated, "it runs already");
    assert_eq!(fx.job(first.id).await.spec.payload.as_str(), "4");
    fx.settle(&claim, success()).await;
    let events = fx.store.history(first.id).await.unwrap().events;
    assert_eq!(events[1].detail.as_deref(), Some("another enqueue replaced the payload"));
    // In one batch with the first job of its kind, and for a job that waits for its parents.
    let name = |mut job: NewJob| {
        job.spec.name = "other".into();
        job
    };
    let parent = fx.enqueue(|_| ()).await;
    let child = NewJob { parents: vec![parent], ..name(replacing("6")) };
    let both = fx.store.enqueue(vec![child, name(replacing("7"))]).await.unwrap();
    assert!(!both[0].existing);
    assert_eq!(both[1].id, both[0].id);
    assert!(both[1].updated);
    let waiting = fx.job(both[0].id).await;
    assert_eq!((waiting.status, waiting.spec.payload.as_str()), (Status::Waiting, "7"));
}

pub async fn a_conflict_may_postpone_a_scheduled_job(fx: &Fixture) {
    let unique = || Unique { debounce: true, ..Unique::default() };
    let debounced = |seconds| {
        let job = keyed(fx, unique(), |_| ());
        NewJob { id: fx.new_job_in(seconds, |_| ()).id, delay: Some(Duration::ZERO), ..job }
    };
    let first = enqueue_one(fx, debounced(10)).await;
    fx.pass(6);
    let second = enqueue_one(fx, debounced(10)).await;
    assert_eq!((second.id, second.updated), (first.id, true));
    let due = fx.now().after(Duration::from_secs(10));
    assert_eq!((fx.job(first.id).await.run_at, fx.history(first.id).await), (due, vec![Status::Scheduled; 2]));
    // A job is never moved to an earlier time.
    assert!(!enqueue_one(fx, debounced(1)).await.updated);
    fx.pass(9);
    assert!(fx.claim(fx.worker(), 1).await.is_empty());
    fx.pass(1);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.id, first.id);
    assert!(!enqueue_one(fx, debounced(10)).await.updated, "it runs already");
}

pub async fn the_longest_allowed_texts_and_odd_characters_are_kept(fx: &Fixture) {
    let new = fx.new_job(|spec| {
        spec.name = "🦀".repeat(limits::NAME_MAX_CHARS);
        spec.queue = "'; drop table punctual_jobs; --".into();
        spec.user_id = Some("%_\\\"'`$1?1:x@x".into());
        spec.unique_key = Some("é".repeat(limits::KEY_MAX_CHARS));
        spec.payload = Json::trusted(format!("\"{}\"", "x".repeat(limits::PAYLOAD_MAX_BYTES - 2)));
        spec.options.description = Some("\u{202e}rtl\u{1f468}\u{200d}\u{1f4bb}\r\n\t".into());
    });
    assert_eq!(new.spec.check(), Ok(()));
    fx.enqueue_all(vec![new.clone()]).await;
    assert_eq!(fx.job(new.id).await.spec, new.spec);
    assert_eq!(fx.claim_one(fx.worker()).await.job.spec, new.spec);
}

pub async fn an_empty_batch_is_nothing(fx: &Fixture) {
    assert!(fx.store.enqueue(Vec::new()).await.unwrap().is_empty());
    assert!(fx.store.settle(Vec::new()).await.unwrap().is_empty());
    assert!(fx.store.change(Vec::new()).await.unwrap().is_empty());
    assert!(fx.store.extend(fx.worker(), Duration::from_secs(1), Vec::new()).await.unwrap().is_empty());
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
}
