use std::time::Duration;

use punctual_core::{
    AttemptStatus, Change, Changed, Count, JobError, JobId, Outcome, Pending, Retry, Settled, Status, Verb,
    measure::{self, Measure, Rollup},
};

use crate::{
    Fixture,
    fixture::{failure, success},
};

async fn change(fx: &Fixture, job: JobId, verb: Verb) -> Changed {
    let change = Change { job, verb, actor: "ada".into(), reason: Some("because".into()) };
    fx.store.change(vec![change]).await.unwrap().remove(0)
}

async fn dead_job(fx: &Fixture) -> JobId {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, Outcome::Failed { fault: JobError::new("no"), retry: Retry::Never }).await;
    id
}

pub async fn a_retried_job_that_runs_at_most_once_stays_one(fx: &Fixture) {
    let id = fx.enqueue(|spec| spec.max_attempts = 1).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("no")).await;
    assert_eq!(change(fx, id, Verb::Retry).await, Changed::Done);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.attempt, 1);
    assert_eq!(claim.job.run, 2);
    assert_eq!(claim.job.spec.max_attempts, 1);
    fx.settle(&claim, failure("no")).await;
    assert_eq!(fx.job(id).await.status, Status::Dead);
}

pub async fn retrying_a_dead_job_continues_its_history(fx: &Fixture) {
    let id = dead_job(fx).await;
    fx.pass(5);
    assert_eq!(change(fx, id, Verb::Retry).await, Changed::Done);
    let job = fx.job(id).await;
    assert_eq!(job.status, Status::Queued);
    assert_eq!(job.run_at, fx.now());
    assert_eq!(job.finished_at, None);
    assert_eq!((job.attempt, job.spec.max_attempts), (1, 10));
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!((claim.job.attempt, claim.job.run), (2, 2));
    fx.settle(&claim, success()).await;
    assert_eq!(fx.store.history(id).await.unwrap().attempts.len(), 2);
}

pub async fn cancelling_works_from_every_active_status(fx: &Fixture) {
    let scheduled = fx.enqueue_in(60, |_| ()).await;
    let retrying = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, failure("x")).await;
    let running = fx.enqueue(|_| ()).await;
    fx.claim_one(fx.worker()).await;
    let queued = fx.enqueue(|_| ()).await;
    for id in [scheduled, retrying, running, queued] {
        assert_eq!(change(fx, id, Verb::Cancel).await, Changed::Done);
        let job = fx.job(id).await;
        assert_eq!(job.status, Status::Cancelled);
        assert_eq!(job.finished_at, Some(fx.now()));
        assert_eq!(job.worker_id, None);
    }
    fx.pass(3_600);
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
}

pub async fn cancelling_a_running_job_makes_its_settle_stale(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let worker = fx.worker();
    let claim = fx.claim_one(worker).await;
    change(fx, id, Verb::Cancel).await;
    assert_eq!(fx.store.check_leases(worker, vec![claim.attempt_id()]).await.unwrap(), [false]);
    assert_eq!(fx.settle(&claim, success()).await, Settled::Stale);
    let attempts = fx.store.history(id).await.unwrap().attempts;
    assert_eq!((attempts[0].status, attempts[0].finished_at), (AttemptStatus::Cancelled, Some(fx.now())));
    assert_eq!(fx.history(id).await, [Status::Queued, Status::Processing, Status::Cancelled]);
}

pub async fn asking_for_the_present_state_adds_no_event(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(change(fx, id, Verb::RunNow).await, Changed::Already);
    change(fx, id, Verb::Cancel).await;
    assert_eq!(change(fx, id, Verb::Cancel).await, Changed::Already);
    assert_eq!(fx.history(id).await, [Status::Queued, Status::Cancelled]);
}

pub async fn a_forbidden_change_is_reported_and_changes_nothing(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    let claim = fx.claim_one(fx.worker()).await;
    fx.settle(&claim, success()).await;
    let before = fx.job(id).await;
    for verb in [Verb::Retry, Verb::Cancel, Verb::RunNow] {
        let Changed::Refused(refused) = change(fx, id, verb).await else { panic!("{verb} should be refused") };
        assert_eq!((refused.from, refused.to), (Status::Succeeded, verb.target()));
    }
    assert_eq!(fx.job(id).await, before);
    assert_eq!(fx.history(id).await.len(), 3);
}

pub async fn a_change_of_an_unknown_job_is_reported(fx: &Fixture) {
    let unknown = fx.new_job(|_| ()).id;
    assert_eq!(change(fx, unknown, Verb::Cancel).await, Changed::NotFound);
    assert_eq!(fx.store.get(unknown).await.unwrap(), None);
    assert!(fx.store.history(unknown).await.unwrap().events.is_empty());
}

pub async fn run_now_starts_a_scheduled_or_retrying_job(fx: &Fixture) {
    let scheduled = fx.enqueue_in(3_600, |_| ()).await;
    assert_eq!(change(fx, scheduled, Verb::RunNow).await, Changed::Done);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!(claim.job.id, scheduled);
    fx.settle(&claim, failure("x")).await;
    assert_eq!(change(fx, scheduled, Verb::RunNow).await, Changed::Done);
    let claim = fx.claim_one(fx.worker()).await;
    assert_eq!((claim.job.id, claim.job.attempt), (scheduled, 2));
    fx.pass(7_200);
    assert!(fx.claim(fx.worker(), 1).await.is_empty(), "it is not due a second time");
}

pub async fn an_operators_action_is_an_event_with_its_actor(fx: &Fixture) {
    let id = fx.enqueue(|_| ()).await;
    change(fx, id, Verb::Cancel).await;
    let event = fx.store.history(id).await.unwrap().events.remove(1);
    assert_eq!((event.actor.as_deref(), event.detail.as_deref()), (Some("ada"), Some("because")));
}

pub async fn counts_follow_every_step(fx: &Fixture) {
    let expect = async |expected: &[(&str, &str, Status, u64)]| {
        let counts = fx.store.counts().await.unwrap();
        let row = |count: &Count| (count.queue.clone(), count.name.clone(), count.status, count.count);
        let mut found: Vec<_> = counts.iter().map(row).collect();
        let owned = |(queue, name, status, count): &(&str, &str, Status, u64)| {
            ((*queue).to_owned(), (*name).to_owned(), *status, *count)
        };
        let mut expected: Vec<_> = expected.iter().map(owned).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    };
    expect(&[]).await;
    let ids = fx.enqueue_all((0..3).map(|_| fx.new_job(|_| ())).collect()).await;
    let other = fx.enqueue_in(60, |spec| (spec.queue, spec.name) = ("q".into(), "n".into())).await;
    expect(&[("default", "test", Status::Queued, 3), ("q", "n", Status::Scheduled, 1)]).await;
    let claims = fx.claim(fx.worker(), 2).await;
    fx.settle(&claims[0], success()).await;
    fx.settle(&claims[1], failure("x")).await;
    change(fx, ids[2], Verb::Cancel).await;
    change(fx, other, Verb::RunNow).await;
    expect(&[
        ("default", "test", Status::Succeeded, 1),
        ("default", "test", Status::Retrying, 1),
        ("default", "test", Status::Cancelled, 1),
        ("q", "n", Status::Queued, 1),
    ])
    .await;
}

pub async fn pending_jobs_are_counted_by_user_and_name(fx: &Fixture) {
    let job = |user: Option<&str>, name: &str| {
        let (user, name) = (user.map(str::to_owned), name.to_owned());
        fx.new_job(|spec| (spec.user_id, spec.name) = (user, name))
    };
    let done = fx.enqueue_all(vec![job(Some("ada"), "mail"), job(None, "mail")]).await;
    for claim in fx.claim(fx.worker(), 2).await {
        fx.settle(&claim, success()).await;
    }
    assert_eq!(done.len(), 2);
    let jobs =
        [(Some("ada"), "mail"), (Some("ada"), "mail"), (Some("ada"), "pay"), (Some("bob"), "mail"), (None, "mail")];
    fx.enqueue_all(jobs.iter().map(|(user, name)| job(*user, name)).collect()).await;
    let pending = fx.store.pending_by_user(10).await.unwrap();
    let row =
        |user: Option<&str>, name: &str, count| Pending { user_id: user.map(str::to_owned), name: name.into(), count };
    assert_eq!(
        pending,
        [row(Some("ada"), "mail", 2), row(None, "mail", 1), row(Some("ada"), "pay", 1), row(Some("bob"), "mail", 1)]
    );
    assert_eq!(fx.store.pending_by_user(1).await.unwrap().len(), 1);
}

pub async fn rollups_contain_outcomes_durations_and_lateness(fx: &Fixture) {
    fx.enqueue_all((0..2).map(|_| fx.new_job(|spec| spec.max_attempts = 1)).collect()).await;
    fx.pass(2);
    let claims = fx.claim(fx.worker(), 2).await;
    fx.pass(4);
    fx.settle(&claims[0], success()).await;
    fx.settle(&claims[1], Outcome::TimedOut).await;
    let (since, until) = (measure::hour(fx.now()), fx.now().after(Duration::from_secs(1)));
    let mut rollups = fx.store.rollups(since, until).await.unwrap();
    let rollup = |measure, seconds, count| Rollup {
        name: "test".into(),
        queue: "default".into(),
        measure,
        bucket: measure::bucket(Duration::from_secs(seconds)),
        count,
    };
    let mut expected = vec![
        rollup(Measure::Lateness, 2, 2),
        rollup(Measure::Ended(AttemptStatus::Succeeded), 4, 1),
        rollup(Measure::Ended(AttemptStatus::TimedOut), 4, 1),
        rollup(Measure::Died, 4, 1),
    ];
    rollups.sort();
    expected.sort();
    assert_eq!(rollups, expected);
    assert!(
        fx.store
            .rollups(until.after(Duration::from_secs(3_600)), punctual_core::Timestamp::MAX)
            .await
            .unwrap()
            .is_empty()
    );
}
