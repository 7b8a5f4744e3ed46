use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::join_all;
use punctual_core::{
    Change, Changes, JobEvent, JobId, NewJob, Occurrence, Progress, ProgressReport, Status, StoreError, Verb, limits,
};

use crate::{
    Fixture,
    fixture::{failure, success},
};

/// A consumer that reads events, each time from the cursor of its previous read.
struct Follower<'a> {
    fx: &'a Fixture,
    cursor: String,
}

impl<'a> Follower<'a> {
    async fn new(fx: &'a Fixture) -> Self {
        let first = fx.store.changes(None, 100).await.unwrap();
        assert_eq!((first.events.len(), first.missed), (0, false), "the first read only returns a cursor");
        Self { fx, cursor: first.cursor }
    }

    async fn read(&mut self) -> Vec<JobEvent> {
        let Changes { events, cursor, missed } = self.fx.store.changes(Some(self.cursor.clone()), 1_000).await.unwrap();
        assert!(!missed);
        self.cursor = cursor;
        events
    }

    async fn statuses(&mut self) -> Vec<(JobId, Status)> {
        self.read().await.into_iter().map(|actual| (actual.job, actual.event.status)).collect()
    }
}

async fn change(fx: &Fixture, job: JobId, verb: Verb) {
    let change = Change { job, verb, actor: "ada".into(), reason: Some("so".into()) };
    fx.store.change(vec![change]).await.unwrap();
}

pub async fn events_are_returned_from_the_first_read_on(fx: &Fixture) {
    fx.enqueue(|_| ()).await;
    let mut follower = Follower::new(fx).await;
    assert_eq!(follower.read().await, []);
    let occurrence = Occurrence { schedule: "nightly".into(), at: fx.now() };
    let id = fx
        .enqueue(|spec| {
            spec.queue = "mail".into();
            spec.user_id = Some("ada ✓".into());
            spec.correlation_id = Some("order-7".into());
            spec.options.tags = vec!["a".into(), "b".into()];
            spec.options.occurrence = Some(occurrence);
        })
        .await;
    let actual = follower.read().await;
    let (job, history) = (fx.job(id).await, fx.store.history(id).await.unwrap().events);
    assert_eq!(actual, [JobEvent::of(id, &job.spec, history[0].clone())]);
    assert_eq!((actual[0].schedule.as_deref(), actual[0].tags.len()), (Some("nightly"), 2));
    assert_eq!(follower.read().await, []);
}

pub async fn reads_from_a_cursor_return_each_event_once(fx: &Fixture) {
    let mut follower = Follower::new(fx).await;
    let id = fx.enqueue(|spec| spec.max_attempts = 1).await;
    assert_eq!(follower.statuses().await, [(id, Status::Queued)]);
    let claim = fx.claim_one(fx.worker()).await;
    // Forces the record of the start in a store that hands out jobs before it records their starts.
    fx.store.get(id).await.unwrap();
    assert_eq!(follower.statuses().await, [(id, Status::Processing)]);
    let kept = follower.cursor.clone();
    fx.pass(1);
    fx.settle(&claim, failure("no")).await;
    let actual = follower.read().await;
    assert_eq!(actual.iter().map(|actual| actual.event.status).collect::<Vec<_>>(), [Status::Failed, Status::Dead]);
    let history = fx.store.history(id).await.unwrap().events;
    assert_eq!(actual.into_iter().map(|actual| actual.event).collect::<Vec<_>>(), history[2..]);
    assert_eq!(follower.read().await, []);
    // A retry changes the job's end, but the end was reported already.
    change(fx, id, Verb::Retry).await;
    assert_eq!(follower.statuses().await, [(id, Status::Queued)]);
    assert_eq!(follower.read().await, []);
    // A consumer with an older cursor receives all events that it has missed, except intermediate ones of the past.
    let mut again = Follower { fx, cursor: kept };
    let actual = again.statuses().await;
    assert_eq!((actual.first(), actual.last()), (Some(&(id, Status::Failed)), Some(&(id, Status::Queued))));
}

pub async fn a_job_that_is_written_without_a_change_has_no_new_event(fx: &Fixture) {
    let mut follower = Follower::new(fx).await;
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(follower.statuses().await, [(id, Status::Queued)]);
    let child = NewJob { parents: vec![id], ..fx.new_job(|_| ()) };
    let child = fx.enqueue_all(vec![child]).await[0];
    assert_eq!(follower.statuses().await, [(child, Status::Waiting)]);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(follower.statuses().await, [(id, Status::Processing)]);
    let progress = Some(Progress { percent: 50.0, message: None });
    let note = ProgressReport { attempt: claim.attempt_id(), worker: claim.worker, progress, lines: Vec::new() };
    fx.store.report_progress(vec![note]).await.unwrap();
    assert_eq!(follower.read().await, []);
    fx.pass(10);
    assert_eq!(follower.read().await, []);
    fx.store.extend(claim.worker, Duration::from_secs(30), vec![claim.attempt_id()]).await.unwrap();
    assert_eq!(follower.read().await, []);
    fx.settle(&claim, success()).await;
    assert_eq!(follower.statuses().await.len(), 2, "it has succeeded, and its child is queued");
}

pub async fn every_kind_of_change_is_returned(fx: &Fixture) {
    let mut follower = Follower::new(fx).await;
    let later = fx.enqueue_in(60, |_| ()).await;
    assert_eq!(follower.statuses().await, [(later, Status::Scheduled)]);
    fx.pass(60);
    fx.store.promote(10).await.unwrap();
    assert_eq!(follower.statuses().await, [(later, Status::Queued)]);
    change(fx, later, Verb::Cancel).await;
    let actual = follower.read().await;
    assert_eq!((actual[0].event.status, actual[0].event.actor.as_deref()), (Status::Cancelled, Some("ada")));
    assert_eq!(actual[0].event.detail.as_deref(), Some("so"));
    change(fx, later, Verb::Delete).await;
    assert_eq!(follower.statuses().await, [(later, Status::Deleted)]);
    let tried = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("once")).await;
    let actual = follower.statuses().await;
    assert_eq!(actual[actual.len() - 2..], [(tried, Status::Failed), (tried, Status::Retrying)]);
}

pub async fn the_event_of_a_job_with_an_old_id_is_returned(fx: &Fixture) {
    for seconds in [1, 2, 3, 5, 60, 600] {
        let early = fx.new_job(|_| ());
        fx.pass(seconds);
        let mut follower = Follower::new(fx).await;
        let id = fx.enqueue_all(vec![early]).await[0];
        assert_eq!(follower.statuses().await, [(id, Status::Queued)], "{seconds} s late");
        assert_eq!(fx.history(id).await, [Status::Queued]);
    }
    let mut follower = Follower::new(fx).await;
    let ahead = fx.new_job_in(5, |_| ());
    let id = fx.enqueue_all(vec![NewJob { delay: None, ..ahead }]).await[0];
    assert_eq!(follower.statuses().await, [(id, Status::Queued)]);
    assert_eq!(follower.read().await, []);
    for diagnostic in fx.store.check().await.unwrap() {
        assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
    }
}

pub async fn more_events_than_the_limit_are_reported_as_missed(fx: &Fixture) {
    let cursor = fx.store.changes(None, 1).await.unwrap().cursor;
    let ids = fx.enqueue_all((0..5).map(|_| fx.new_job(|_| ())).collect()).await;
    let all = fx.store.changes(Some(cursor.clone()), 5).await.unwrap();
    assert_eq!((all.events.len(), all.missed), (5, false));
    let some = fx.store.changes(Some(cursor), 3).await.unwrap();
    assert_eq!((some.events.len(), some.missed), (3, true));
    assert_eq!(some.events[0].job, ids[0], "the first events are returned");
    assert_eq!(fx.store.changes(Some(some.cursor), 3).await.unwrap().events, []);
}

pub async fn a_cursor_that_is_too_old_or_foreign_is_found_out(fx: &Fixture) {
    let mut follower = Follower::new(fx).await;
    let old = follower.cursor.clone();
    fx.clock.advance(limits::CHANGES_MAX_AGE);
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(follower.statuses().await, [(id, Status::Queued)], "just not too old");
    fx.clock.advance(Duration::from_micros(1));
    let missed = fx.store.changes(Some(old), 10).await.unwrap();
    assert_eq!((missed.events, missed.missed), (Vec::new(), true));
    assert!(!fx.store.changes(Some(missed.cursor), 10).await.unwrap().missed);
    let far = follower.cursor.replacen(|digit: char| digit.is_ascii_digit(), "99999999", 1);
    assert!(fx.store.changes(Some(far), 10).await.unwrap().missed, "another store's, or one from before a restore");
    for bad in ["", ".", "1", "x.y", "-1.5", "1.2.3.4", "99999999999999999999999.1", "1.1.5"] {
        let refused = fx.store.changes(Some(bad.into()), 10).await;
        assert!(matches!(refused, Err(StoreError::BadCursor(_))), "{bad}: {refused:?}");
    }
}

pub async fn events_that_are_gone_do_not_hide_new_ones(fx: &Fixture) {
    let mut follower = Follower::new(fx).await;
    let ephemeral = fx.enqueue(|spec| spec.ephemeral = true).await;
    assert_eq!(follower.statuses().await, [(ephemeral, Status::Queued)]);
    fx.pass(1);
    assert_eq!(fx.store.drop_ephemeral(fx.now(), 10).await.unwrap(), 1);
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(follower.statuses().await, [(id, Status::Queued)]);
}

pub async fn a_follower_of_events_misses_none(fx: &Fixture) {
    const WRITERS: usize = 8;
    const EACH: usize = 20;
    let done = AtomicBool::new(false);
    let work = async |_: usize| {
        let worker = fx.worker();
        for _ in 0..EACH {
            fx.enqueue(|_| ()).await;
            for claim in fx.claim(worker, 1).await {
                fx.settle(&claim, success()).await;
            }
        }
    };
    let mut follower = Follower::new(fx).await;
    let work = async {
        join_all((0..WRITERS).map(work)).await;
        done.store(true, Ordering::SeqCst);
    };
    let follow = async {
        let mut received = Vec::new();
        loop {
            let last = done.load(Ordering::SeqCst);
            received.extend(follower.statuses().await);
            if last {
                return received;
            }
        }
    };
    let ((), received) = tokio::join!(work, follow);
    let once: BTreeSet<_> = received.iter().collect();
    assert_eq!(once.len(), received.len(), "no event is returned twice");
    let count = |status| received.iter().filter(|(_, received)| *received == status).count();
    let left = fx.claim(fx.worker(), 1_000).await.len();
    assert_eq!(count(Status::Succeeded), WRITERS * EACH - left, "every end is returned");
    let jobs: BTreeSet<JobId> = received.iter().map(|(job, _)| *job).collect();
    assert_eq!(jobs.len(), WRITERS * EACH, "every job is returned");
}
