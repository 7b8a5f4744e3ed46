use std::time::Duration;

use punctual_core::{
    Change, Extras, Ids, JobId, Json, NewJob, Occurrence, OnParentFailure, ParentResults, RetryPolicy, Status, Verb,
    WorkflowId, limits,
};

use crate::{Fixture, fixture::success};

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
        spec.extras = Extras {
            retry: Some(RetryPolicy::list([1, 2].map(Duration::from_secs)).jitter(0.0)),
            tags: vec!["a".into(), "b".into()],
            created_by: Some("shop".into()),
            trace: Some("00-1-2-01".into()),
            concurrency_key: Some("tenant-1".into()),
            metadata: Some(r#"{"x":{"y":1}}"#.parse::<Json>().unwrap().read().unwrap()),
            description: Some("says hello\nin two lines".into()),
            occurrence: Some(Occurrence { schedule: "nightly".into(), at: fx.now() }),
            rerun_of: Some(JobId::from_bits(5)),
            redact_keys: vec!["to".into()],
            on_parent_failure: OnParentFailure::Wait,
            parent_results: ParentResults::Always,
            node: Some("first".into()),
            callback_of: Some(WorkflowId::from_bits(78)),
        };
    });
    let id = fx.enqueue_all(vec![new.clone()]).await[0];
    let job = fx.job(id).await;
    assert_eq!(job.spec, new.spec);
    assert_eq!((job.id, job.status, job.attempt, job.run), (new.id, Status::Queued, 0, 0));
    assert_eq!(
        (job.scheduled_at(), job.run_at, job.created_at, job.updated_at),
        (fx.now(), fx.now(), fx.now(), fx.now())
    );
    assert_eq!((job.started_at, job.finished_at, job.worker_id, job.lease_until), (None, None, None, None));
    assert_eq!(fx.story(id).await, [Status::Queued]);
}

pub async fn a_job_for_later_is_scheduled_and_one_for_now_is_queued(fx: &Fixture) {
    let later = fx.enqueue_in(60, |_| ()).await;
    let due = fx.enqueue_in(0, |_| ()).await;
    assert_eq!((fx.job(later).await.status, fx.story(later).await), (Status::Scheduled, vec![Status::Scheduled]));
    assert_eq!(fx.job(later).await.run_at, fx.now().after(Duration::from_secs(60)));
    assert_eq!((fx.job(due).await.status, fx.story(due).await), (Status::Queued, vec![Status::Queued]));
}

pub async fn a_client_whose_clock_is_ahead_does_not_delay_its_jobs(fx: &Fixture) {
    let ahead = fx.now().after(Duration::from_secs(5));
    let new = NewJob { id: JobId::from_bits(Ids::seeded(3).next(ahead)), ..fx.new_job(|_| ()) };
    let id = fx.enqueue_all(vec![new]).await[0];
    let job = fx.job(id).await;
    assert_eq!((job.status, job.run_at, job.scheduled_at()), (Status::Queued, fx.now(), ahead));
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, id);
}

pub async fn the_same_id_is_stored_once(fx: &Fixture) {
    let new = fx.new_job(|_| ());
    let first = fx.store.enqueue(vec![new.clone()]).await.unwrap();
    let again = fx.store.enqueue(vec![new.clone(), new.clone()]).await.unwrap();
    assert!(!first[0].existing);
    assert!(again.iter().all(|enqueued| enqueued.existing && enqueued.id == new.id));
    assert_eq!(fx.story(new.id).await, [Status::Queued]);
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
    // Also once it has succeeded: the work was done.
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

pub async fn the_longest_allowed_texts_and_odd_characters_are_kept(fx: &Fixture) {
    let new = fx.new_job(|spec| {
        spec.name = "🦀".repeat(limits::NAME_MAX_CHARS);
        spec.queue = "'; drop table punctual_jobs; --".into();
        spec.user_id = Some("%_\\\"'`$1?1:x@x".into());
        spec.unique_key = Some("é".repeat(limits::KEY_MAX_CHARS));
        spec.payload = Json::trusted(format!("\"{}\"", "x".repeat(limits::PAYLOAD_MAX_BYTES - 2)));
        spec.extras.description = Some("\u{202e}rtl\u{1f468}\u{200d}\u{1f4bb}\r\n\t".into());
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
