//! The output of `explain` for each situation that keeps a job from running.

use std::time::Duration;

use punctual::{
    Draft, JobId, OnParentFailure, Punctual,
    core::{
        Claim, ClaimRequest, Heartbeat, JobError, Limits, ManualClock, Outcome, Rate, Retry, WorkerId,
        explain::{Cause, Explanation},
        settle,
    },
};
use punctual_tests::{TestStore, on_each_engine};

on_each_engine! {
    explain_names_the_cause_of_every_situation
    explain_names_every_limit_that_holds_back
    explain_names_a_cancelled_job_whose_handler_has_not_ended
    explain_names_all_that_is_in_the_way
}

/// A store with a clock, to create any situation.
struct Scene {
    punctual: Punctual,
    clock: ManualClock,
    worker: WorkerId,
}

impl Scene {
    async fn new(test_store: &TestStore) -> Self {
        let (punctual, clock) = test_store.connect_with_clock().await;
        Self { punctual, clock, worker: WorkerId::from_bits(7) }
    }

    async fn enqueue(&self, draft: Draft) -> JobId {
        self.punctual.enqueue(draft).await.unwrap().id
    }

    /// Sends the heartbeat of a worker.
    async fn heartbeat(&self, queues: &[&str], names: &[&str], (running, concurrency): (u32, u32)) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let (queues, names) = (owned(queues), owned(names));
        let heartbeat = Heartbeat {
            id: self.worker,
            host: "here".into(),
            pid: 1,
            queues,
            names,
            concurrency,
            running,
            registered_by: None,
        };
        self.punctual.store().deregister(self.worker).await.unwrap();
        self.punctual.store().heartbeat(heartbeat).await.unwrap();
    }

    async fn claim(&self, limit: usize) -> Vec<Claim> {
        let request = ClaimRequest::new(self.worker, limit, Duration::from_secs(30));
        self.punctual.store().claim(request).await.unwrap().claims
    }

    async fn settle(&self, claim: &Claim, outcome: Outcome) {
        self.punctual.store().settle(vec![settle(claim, outcome, 0.5)]).await.unwrap();
    }

    async fn explain(&self, id: JobId) -> Explanation {
        self.punctual.admin("ada").explain(id).await.unwrap()
    }

    /// Asserts the decisive reason; returns its text and its advice.
    async fn expect(&self, id: JobId, cause: Cause) -> String {
        let explanation = self.explain(id).await;
        let reason = explanation.reasons.first().expect("there is a reason");
        assert_eq!(reason.cause, cause, "{explanation:?}");
        format!("{} {}", reason.text, reason.advice.clone().unwrap_or_default())
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

fn mail() -> Draft {
    Draft::new("mail", &()).queue("post")
}

async fn explain_names_the_cause_of_every_situation(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let scene = Scene::new(&test_store).await;
    let id = scene.enqueue(mail().max_attempts(2)).await;
    has(&scene.expect(id, Cause::NoWorker).await, &["No live workers", "punctual work --queues post"]);
    scene.heartbeat(&["other"], &[], (0, 4)).await;
    has(&scene.expect(id, Cause::NoWorkerForQueue).await, &["serves the queue post"]);
    scene.heartbeat(&["post"], &[], (0, 4)).await;
    scene.expect(id, Cause::NoWorkerForName).await;
    scene.heartbeat(&["post"], &["pay"], (0, 4)).await;
    has(&scene.expect(id, Cause::NoWorkerForName).await, &["has a handler for mail", "[handlers.mail]"]);
    scene.heartbeat(&[], &["mail"], (4, 4)).await;
    has(&scene.expect(id, Cause::WorkersBusy).await, &["busy, with 4 jobs", "--concurrency"]);
    scene.heartbeat(&[], &["mail"], (0, 4)).await;
    scene.expect(id, Cause::AboutToStart).await;
    scene.punctual.admin("ada").pause_queue("post").await.unwrap();
    has(&scene.expect(id, Cause::QueuePaused).await, &["post is paused", "punctual queues resume post"]);
    scene.punctual.admin("ada").resume_queue("post").await.unwrap();
    let claim = scene.claim(1).await.remove(0);
    has(&scene.expect(id, Cause::Running).await, &["attempt 1 of 2", &scene.worker.to_string()]);
    scene.clock.advance(Duration::from_secs(40));
    has(&scene.expect(id, Cause::WorkerLost).await, &["expired 10 s ago"]);
    let fault = JobError::new("no route\nto host");
    scene.settle(&claim, Outcome::Failed { fault, retry: Retry::After(Duration::from_secs(90)) }).await;
    scene.heartbeat(&[], &["mail"], (0, 4)).await;
    let text = scene.expect(id, Cause::BackingOff).await;
    has(&text, &["Attempt 1 of 2 failed: no route.", "in 90 s", &format!("punctual jobs retry {id}")]);
    scene.clock.advance(Duration::from_secs(90));
    let claim = scene.claim(1).await.remove(0);
    scene.settle(&claim, Outcome::Failed { fault: JobError::new("no"), retry: Retry::ByPolicy }).await;
    has(&scene.expect(id, Cause::Dead).await, &["after 2 attempts, no retries left: no"]);
    scene.punctual.admin("ada").retry(id).await.unwrap();
    scene.punctual.admin("ada").cancel(id, Some("not needed".into())).await.unwrap();
    has(&scene.expect(id, Cause::Cancelled).await, &["by ada: not needed"]);
    scene.punctual.admin("bob").delete(id).await.unwrap();
    has(&scene.expect(id, Cause::Deleted).await, &["by bob"]);
    let id = scene.enqueue(mail()).await;
    let claim = scene.claim(1).await.remove(0);
    scene.settle(&claim, Outcome::Succeeded { result: None }).await;
    has(&scene.expect(id, Cause::Succeeded).await, &[&format!("punctual jobs run {id}")]);
    let id = scene.enqueue(mail().delay(Duration::from_secs(300))).await;
    has(&scene.expect(id, Cause::NotDue).await, &["in 5 min", "2026-03-01T12:"]);
    let unknown = scene.punctual.admin("ada").explain(JobId::from_bits(9)).await.unwrap_err();
    assert!(unknown.to_string().contains("job_0"), "{unknown}");
}

async fn explain_names_every_limit_that_holds_back(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let scene = Scene::new(&test_store).await;
    scene.heartbeat(&[], &["mail"], (1, 4)).await;
    let first = scene.enqueue(mail().concurrency_key("acme")).await;
    let second = scene.enqueue(mail().concurrency_key("acme")).await;
    assert_eq!(scene.claim(4).await[0].job.id, first);
    let held_by = format!("{first} on {}", scene.worker);
    has(
        &scene.expect(second, Cause::KeyLimit).await,
        &["The key acme is at its limit of 1 concurrent job", &held_by, "--key-concurrency"],
    );
    let admin = scene.punctual.admin("ada");
    let limits = Limits { concurrency: Some(1), key_concurrency: Some(0), ..Limits::default() };
    admin.set_queue_limits("post", limits).await.unwrap();
    has(
        &scene.expect(second, Cause::QueueLimit).await,
        &["The queue post is at its limit of 1 concurrent job", &held_by, "--concurrency N"],
    );
    let rate = Some(Rate { count: 1, period: Duration::from_secs(60) });
    admin.set_queue_limits("post", Limits { rate, key_concurrency: Some(0), ..Limits::default() }).await.unwrap();
    assert_eq!(scene.claim(1).await[0].job.id, second, "what was started before was not counted");
    let third = scene.enqueue(mail().concurrency_key("acme")).await;
    has(&scene.expect(third, Cause::QueueRate).await, &["is at its rate limit of 1/1m", "in 60 s"]);
    let limits = Limits { key_rate: rate, key_concurrency: Some(0), ..Limits::default() };
    admin.set_queue_limits("post", limits).await.unwrap();
    assert_eq!(scene.claim(1).await[0].job.id, third);
    let fourth = scene.enqueue(mail().concurrency_key("acme")).await;
    has(&scene.expect(fourth, Cause::KeyRate).await, &["The key acme is at its rate limit of 1/1m", "--key-rate"]);
    scene.clock.advance(Duration::from_secs(62));
    scene.heartbeat(&[], &["mail"], (1, 4)).await;
    scene.expect(fourth, Cause::AboutToStart).await;
}

async fn explain_names_a_cancelled_job_whose_handler_has_not_ended(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let scene = Scene::new(&test_store).await;
    scene.heartbeat(&[], &["mail"], (1, 4)).await;
    let admin = scene.punctual.admin("ada");
    admin.set_queue_limits("post", Limits { concurrency: Some(1), ..Limits::default() }).await.unwrap();
    let first = scene.enqueue(mail().concurrency_key("acme")).await;
    let second = scene.enqueue(mail().concurrency_key("acme")).await;
    let third = scene.enqueue(mail()).await;
    let claim = scene.claim(4).await.remove(0);
    admin.cancel(first, None).await.unwrap();
    let held_by = format!("1 concurrent job: {first} on {} (cancelled; its handler has not ended).", scene.worker);
    has(
        &scene.expect(second, Cause::QueueLimit).await,
        &["The queue post is at its limit of 1 concurrent job", &held_by],
    );
    has(
        &scene.expect(third, Cause::QueueLimit).await,
        &["The queue post is at its limit of 1 concurrent job", &held_by],
    );
    admin.set_queue_limits("post", Limits::default()).await.unwrap();
    has(&scene.expect(second, Cause::KeyLimit).await, &["The key acme is at its limit of 1 concurrent job", &held_by]);
    scene.punctual.store().release_slots(claim.worker, vec![claim.attempt_id()]).await.unwrap();
    scene.expect(second, Cause::AboutToStart).await;
}

async fn explain_names_all_that_is_in_the_way(new_store: fn() -> TestStore) {
    let test_store = new_store();
    let scene = Scene::new(&test_store).await;
    let parents = [scene.enqueue(mail().max_attempts(1)).await, scene.enqueue(mail()).await];
    let child = scene.enqueue(mail().after(parents)).await;
    let patient = scene.enqueue(mail().after([parents[0]]).on_parent_failure(OnParentFailure::Wait)).await;
    let text = scene.expect(child, Cause::WaitsForParents).await;
    has(&text, &["waits for 2 of its 2 parents", &parents[0].to_string(), &parents[1].to_string(), "(queued)"]);
    scene.punctual.admin("ada").pause_queue("post").await.unwrap();
    let causes: Vec<Cause> = scene.explain(child).await.reasons.iter().map(|reason| reason.cause).collect();
    assert_eq!(causes, [Cause::WaitsForParents, Cause::QueuePaused, Cause::NoWorker]);
    scene.punctual.admin("ada").resume_queue("post").await.unwrap();
    let claim = scene.claim(1).await.remove(0);
    scene.settle(&claim, Outcome::Failed { fault: JobError::new("no"), retry: Retry::ByPolicy }).await;
    let text = scene.expect(patient, Cause::WaitsForFailedParent).await;
    has(&text, &["has failed", &format!("punctual jobs retry {}", parents[0])]);
    has(&scene.expect(child, Cause::Cancelled).await, &[&parents[0].to_string()]);
}
