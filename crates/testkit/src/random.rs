//! Random operations on an engine and on the model, which must return the same results and reach the same state.

use std::{collections::BTreeSet, time::Duration};

use punctual_core::{
    Change, Claim, ClaimRequest, Filter, Job, JobError, JobId, Json, Limits, LogLevel, LogLine, NewJob,
    NewNotification, NewWorkflow, OnParentFailure, Outcome, Page, Progress, ProgressReport, QueueSave, QueueSettings,
    Rate, RetentionPolicy, Retry, RetryPolicy, Status, Store, StoreResult, Timestamp, Unique, Verb, WorkerId,
    WorkflowId, settle,
    store::ports::*,
    transfer::{self, Transferred},
};

use crate::{
    Fixture, ModelStore,
    fixture::{LEASE, lost},
};

/// The given seeds, and a new one for every run, so that the suite covers new cases; it is printed when a run fails.
/// `PUNCTUAL_TEST_SEED` sets it.
pub fn seeds(known: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    let given = std::env::var("PUNCTUAL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    known.into_iter().chain([given.unwrap_or_else(|| fastrand::u64(..))])
}

/// Replays `steps` random operations from `seed` on the fixture's store and on a model with the same clock.
///
/// Panics at the first difference, with the seed and the step.
pub async fn replay(fixture: &Fixture, seed: u64, steps: usize) {
    let mut run = Run::new(fixture, seed);
    for step in 0..steps {
        run.step(&format!("seed {seed}, step {step}")).await;
    }
    run.compare(&format!("seed {seed}, at the end")).await;
    crate::conformance::audit(fixture).await;
}

/// Applies `steps` random operations from `seed` to the model, transfers everything to the fixture's store, and
/// continues there as [`replay`] does. The transferred data is equal before the next operation, and after all later
/// ones.
pub async fn replay_transferred(fixture: &Fixture, seed: u64, steps: usize) {
    println!("random operations from seed {seed}, then transferred");
    let of_model = || ModelStore::new(fixture.clock.clone()).ties(fixture.ties);
    let source = Fixture::new(of_model(), fixture.clock.clone()).ties(fixture.ties).with_other_ids();
    let random = fastrand::Rng::with_seed(seed);
    let mut run = Run { fixture: &source, model: of_model(), random, claims: Vec::new(), jobs: Vec::new() };
    for step in 0..steps {
        run.step(&format!("seed {seed}, step {step} before")).await;
    }
    let actual =
        source.store.notify(vec![NewNotification { user_id: None, message: Json::null(), job: None }]).await.unwrap();
    // A second model, because it drops the same state of limits that is not transferred to the store.
    let model = of_model();
    for to in [&*fixture.store, &model] {
        let first = transfer::transfer(&*source.store, to, |_| ()).await.unwrap();
        assert!(first.jobs > 0);
        let again = transfer::transfer(&*source.store, to, |_| ()).await.unwrap();
        assert_eq!(again, Transferred::default(), "seed {seed}: existing jobs are not transferred again");
        assert_eq!(transfer::differences(&*source.store, to).await.unwrap(), [""; 0], "seed {seed}");
        assert_eq!(to.notifications(None, 0, 10).await.unwrap(), actual);
    }
    let Run { random, claims, jobs, .. } = run;
    let mut run = Run { fixture, model, random, claims, jobs };
    run.compare(&format!("seed {seed}, transferred")).await;
    for step in 0..steps {
        run.step(&format!("seed {seed}, step {step} after")).await;
    }
    run.compare(&format!("seed {seed}, at the end")).await;
    crate::conformance::audit(fixture).await;
}

/// Random operations on a fixture's store and on a model with the same clock, for tests that look at the store after
/// each operation.
pub struct Run<'a> {
    fixture: &'a Fixture,
    model: ModelStore,
    random: fastrand::Rng,
    /// Every claim ever made, stale ones included.
    claims: Vec<Claim>,
    /// Every job ever enqueued, purged ones included.
    jobs: Vec<JobId>,
}

/// Executes the same operation on both stores and compares the results.
macro_rules! both {
    ($run:expr, $context:expr, $method:ident($($argument:expr),*)) => {{
        let left = $run.fixture.store.$method($($argument.clone()),*).await.unwrap();
        let right = $run.model.$method($($argument.clone()),*).await.unwrap();
        assert_eq!(left, right, "{}: {} differs", $context, stringify!($method));
        left
    }};
}

impl<'a> Run<'a> {
    /// Operations from `seed`, which is printed.
    pub fn new(fixture: &'a Fixture, seed: u64) -> Self {
        println!("random operations from seed {seed}");
        let model = ModelStore::new(fixture.clock.clone()).ties(fixture.ties);
        Self { fixture, model, random: fastrand::Rng::with_seed(seed), claims: Vec::new(), jobs: Vec::new() }
    }
}

impl Run<'_> {
    /// Executes the next operation. Panics if the results differ, with the context.
    pub async fn step(&mut self, context: &str) {
        self.fixture.clock.advance(Duration::from_millis(self.random.u64(0..4_000)));
        match self.random.u32(0..100) {
            0..25 => self.enqueue(context).await,
            25..50 => self.claim(context).await,
            50..75 => self.settle(context).await,
            75..80 => self.extend(context).await,
            80..88 => self.change(context).await,
            88..92 => self.reap(context).await,
            92..94 => self.note(context).await,
            94..96 => self.upkeep(context).await,
            96..97 => self.save_queue(context).await,
            97..98 => self.fixture.pass(self.random.u64(0..100)),
            _ => self.compare(context).await,
        }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.random.usize(0..from.len())].clone()
    }

    fn new_job(&mut self) -> NewJob {
        let later = self.random.u64(0..40);
        let mut job =
            if self.random.bool() { self.fixture.new_job(|_| ()) } else { self.fixture.new_job_in(later, |_| ()) };
        let spec = &mut job.spec;
        spec.name = ["mail", "pay"][self.random.usize(0..2)].into();
        spec.queue = ["a", "b", "c"][self.random.usize(0..3)].into();
        spec.priority = self.random.u8(0..=10);
        spec.max_attempts = self.random.u32(1..4);
        spec.options.max_crashes = self.random.bool().then(|| self.random.u32(1..4));
        spec.user_id = self.random.bool().then(|| format!("user-{}", self.random.u8(0..3)));
        spec.unique_key = (self.random.u8(0..4) == 0).then(|| format!("key-{}", self.random.u8(0..5)));
        if spec.unique_key.is_some() && self.random.bool() {
            let states = [Status::Scheduled, Status::Queued, Status::Processing];
            spec.options.unique = Some(Unique {
                any_name: self.random.u8(0..4) == 0,
                per_queue: self.random.u8(0..4) == 0,
                period: self.random.bool().then(|| Duration::from_secs(self.random.u64(1..60))),
                states: if self.random.bool() { states[..self.random.usize(1..4)].to_vec() } else { Vec::new() },
                replace_payload: self.random.bool(),
                debounce: self.random.bool(),
            });
            spec.payload = Json::trusted(self.random.u8(..).to_string());
        }
        spec.options.concurrency_key = (self.random.u8(0..3) == 0).then(|| format!("gate-{}", self.random.u8(0..3)));
        spec.ephemeral = self.random.u8(0..20) == 0;
        spec.keep_for = (self.random.u8(0..5) == 0).then(|| Duration::from_secs(self.random.u64(0..50)));
        let wait = Duration::from_millis(self.random.u64(0..20_000));
        spec.options.retry = Some(RetryPolicy::fixed(wait).jitter(0.0));
        job
    }

    /// Makes a job wait for some of the earlier ones.
    fn add_parents(&mut self, job: &mut NewJob, before: &[JobId]) {
        let recent = before.len().saturating_sub(12);
        let wanted = if self.random.u8(0..3) == 0 { self.random.usize(1..4) } else { 0 };
        let parents: BTreeSet<JobId> =
            (0..wanted.min(before.len())).map(|_| before[self.random.usize(recent..before.len())]).collect();
        job.parents = parents.into_iter().collect();
        job.spec.options.on_parent_failure = OnParentFailure::ALL[self.random.usize(0..4)];
    }

    async fn enqueue(&mut self, context: &str) {
        let (mut known, mut jobs) = (self.jobs.clone(), Vec::new());
        for _ in 0..self.random.usize(1..5) {
            let mut job = self.new_job();
            self.add_parents(&mut job, &known);
            // A job that may not get its key is not used as a parent.
            known.extend(job.spec.unique_key.is_none().then_some(job.id));
            jobs.push(job);
        }
        if self.random.u8(0..3) == 0 {
            return self.submit(context, jobs).await;
        }
        let left = self.fixture.store.enqueue(jobs.clone()).await;
        let right = self.model.enqueue(jobs).await;
        self.jobs = if left.is_ok() { known } else { self.jobs.clone() };
        // Some parents are deleted or removed by now.
        match (left, right) {
            (Ok(left), Ok(right)) => assert_eq!(left, right, "{context}: enqueue differs"),
            (left, right) => assert_eq!(
                left.unwrap_err().to_string(),
                right.unwrap_err().to_string(),
                "{context}: enqueue is refused differently"
            ),
        }
    }

    /// Submits the same jobs as a workflow.
    async fn submit(&mut self, context: &str, mut jobs: Vec<NewJob>) {
        let id = WorkflowId::from_bits(self.fixture.new_job(|_| ()).id.to_bits());
        for (number, job) in jobs.iter_mut().enumerate() {
            (job.spec.workflow_id, job.spec.unique_key) = (Some(id), None);
            job.spec.options.node = Some(format!("node-{number}"));
        }
        let new = NewWorkflow { id, name: "random".into(), created_by: None };
        let left = self.fixture.store.submit(new.clone(), jobs.clone()).await;
        let right = self.model.submit(new, jobs.clone()).await;
        if left.is_ok() {
            self.jobs.extend(jobs.iter().map(|job| job.id));
        }
        let message = |result: StoreResult<()>| result.map_err(|error| error.to_string());
        assert_eq!(message(left), message(right), "{context}: submit differs");
    }

    async fn claim(&mut self, context: &str) {
        let some = |random: &mut fastrand::Rng, all: &[&str]| -> Vec<String> {
            if random.bool() { Vec::new() } else { vec![all[random.usize(0..all.len())].to_owned()] }
        };
        let request = ClaimRequest {
            worker: WorkerId::from_bits(self.random.u128(1..4)),
            queues: if self.random.u8(0..4) == 0 {
                vec!["b".into(), "a".into()]
            } else {
                some(&mut self.random, &["a", "b", "c"])
            },
            in_order: self.random.bool(),
            names: some(&mut self.random, &["mail", "pay"]),
            suspects: self.random.u8(0..4) == 0,
            limit: self.random.usize(1..6),
            lease: LEASE,
            ahead: Duration::from_secs(if self.random.bool() { 0 } else { 5 }),
            wait: Duration::ZERO,
        };
        let mut claimed = self.fixture.store.claim(request.clone()).await.unwrap();
        let mut modelled = self.model.claim(request).await.unwrap();
        // Only stores that have evaluated a limit know when it next allows jobs.
        (claimed.opens_at, modelled.opens_at) = (None, None);
        if !claimed.claims.is_empty() {
            (claimed.next_run_at, modelled.next_run_at) = (None, None);
        }
        assert_eq!(claimed, modelled, "{context}: claim differs");
        self.claims.extend(claimed.claims);
    }

    async fn settle(&mut self, context: &str) {
        if self.claims.is_empty() {
            return;
        }
        let mut batch = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let recent = self.claims.len().saturating_sub(6);
            let claim = self.claims[self.random.usize(recent..self.claims.len())].clone();
            let mut settlement = settle(&claim, self.outcome(), 0.5);
            if self.random.u8(0..10) == 0 {
                settlement.worker = WorkerId::from_bits(99);
            }
            batch.push(settlement);
        }
        both!(self, context, settle(batch));
    }

    fn outcome(&mut self) -> Outcome {
        let wait = Duration::from_secs(self.random.u64(0..10));
        let fault = JobError::new(format!("fault {}", self.random.u8(..)));
        match self.random.u8(0..10) {
            0..5 => Outcome::Succeeded { result: self.random.bool().then(|| Json::trusted("[1]")) },
            5 => Outcome::Failed { fault, retry: Retry::ByPolicy },
            6 => Outcome::Failed { fault, retry: self.pick(&[Retry::After(wait), Retry::Never]) },
            7 => Outcome::TimedOut,
            8 => Outcome::Snoozed { after: wait },
            _ => Outcome::Released,
        }
    }

    async fn extend(&mut self, context: &str) {
        let recent = self.claims.len().saturating_sub(8);
        let attempts: Vec<_> = self.claims[recent..].iter().map(Claim::attempt_id).collect();
        let worker = WorkerId::from_bits(self.random.u128(1..4));
        both!(self, context, extend(worker, LEASE, attempts));
        both!(self, context, check_leases(worker, attempts));
        if self.random.bool() {
            both!(self, context, confirm(worker, attempts));
        }
        if self.random.u8(..4) == 0 {
            both!(self, context, release_slots(worker, attempts));
        }
        if self.random.u8(..8) == 0 {
            both!(self, context, claims_of_dead(worker, 100));
            both!(self, context, end_leases(worker));
        }
    }

    async fn change(&mut self, context: &str) {
        if self.jobs.is_empty() {
            return;
        }
        let jobs = self.jobs.clone();
        let mut job = self.pick(&jobs);
        let mut verb = self.pick(&[Verb::Retry, Verb::Cancel, Verb::Delete, Verb::RunNow]);
        // Most jobs have ended; this picks some that are running.
        let recent = self.claims[self.claims.len().saturating_sub(6)..].to_vec();
        if !recent.is_empty() && self.random.u8(0..3) == 0 {
            (job, verb) = (self.pick(&recent).job.id, Verb::Cancel);
        }
        let changes = vec![Change { job, verb, actor: "ada".into(), reason: None }];
        both!(self, context, change(changes));
        self.compare_slots(context).await;
    }

    async fn reap(&mut self, context: &str) {
        let mut expired = self.fixture.store.expired(100).await.unwrap();
        let mut modelled = self.model.expired(100).await.unwrap();
        expired.sort_by_key(|claim| claim.job.id);
        modelled.sort_by_key(|claim| claim.job.id);
        assert_eq!(expired, modelled, "{context}: expired differs");
        let lost: Vec<_> = expired.iter().map(|claim| settle(claim, lost(), 0.5)).collect();
        both!(self, context, settle(lost));
    }

    async fn note(&mut self, context: &str) {
        let Some(claim) = self.claims.last().cloned() else { return };
        // A line that is sent twice is the same line: its number determines its time.
        let number = self.random.u32(1..4);
        let at = claim.job.updated_at.after(Duration::from_secs(u64::from(number)));
        let line = LogLine { run: claim.job.run, at, level: LogLevel::Info, message: "hello".into() };
        let notes = vec![ProgressReport {
            attempt: claim.attempt_id(),
            worker: claim.worker,
            progress: Some(Progress { percent: f32::from(self.random.u8(0..100)), message: None }),
            lines: vec![(number, line)],
        }];
        both!(self, context, report_progress(notes));
    }

    async fn upkeep(&mut self, context: &str) {
        let minute = Duration::from_secs(60);
        let keep = RetentionPolicy { succeeded: minute, dead: 2 * minute, cancelled: minute };
        match self.random.u8(0..4) {
            0 => drop(both!(self, context, expire(keep, 1_000usize))),
            1 => drop(both!(self, context, purge(minute, 1_000usize))),
            2 => drop(both!(self, context, prune(10 * minute, 100_000usize))),
            _ => drop(both!(self, context, drop_ephemeral(Timestamp::MAX, 1_000usize))),
        }
    }

    async fn save_queue(&mut self, context: &str) {
        let name = self.pick(&["a", "b"]).to_owned();
        let known = both!(self, context, queues()).into_iter().find(|queue| queue.name == name);
        let settings =
            QueueSettings { paused: self.random.u8(0..3) == 0, limits: self.limits(), ..QueueSettings::default() };
        // Sometimes with an outdated revision.
        let revision = known.map_or(0, |queue| queue.revision).saturating_sub(u64::from(self.random.u8(0..4) == 0));
        let save = QueueSave { name, settings, revision, actor: "ada".into(), action: "changed".into() };
        both!(self, context, save_queue(save));
    }

    fn limits(&mut self) -> Limits {
        let rate = |random: &mut fastrand::Rng| {
            let rate = Rate { count: random.u32(1..5), period: Duration::from_secs(random.u64(1..30)) };
            (random.u8(0..3) == 0).then_some(rate)
        };
        Limits {
            concurrency: self.random.bool().then(|| self.random.u32(1..4)),
            rate: rate(&mut self.random),
            key_concurrency: self.random.bool().then(|| self.random.u32(0..4)),
            key_rate: rate(&mut self.random),
            ..Limits::default()
        }
    }

    async fn compare(&mut self, context: &str) {
        both!(self, context, counts());
        self.compare_slots(context).await;
        let workflows = both!(self, context, workflows(None, 1_000usize));
        for workflow in workflows {
            both!(self, context, nodes(workflow.id));
        }
        both!(self, context, pending_by_user(100usize));
        both!(self, context, dead_by_name(Timestamp::MIN, Timestamp::MAX));
        let mut rollups = self.fixture.store.rollups(Timestamp::MIN, Timestamp::MAX).await.unwrap();
        let mut modelled = self.model.rollups(Timestamp::MIN, Timestamp::MAX).await.unwrap();
        rollups.sort();
        modelled.sort();
        assert_eq!(rollups, modelled, "{context}: rollups differ");
        for status in [None].into_iter().chain(Status::ALL.map(Some)) {
            let filter = status.map_or_else(Filter::default, Filter::status);
            let left = all_jobs(&*self.fixture.store, &filter).await;
            let right = all_jobs(&self.model, &filter).await;
            assert_eq!(left, right, "{context}: the list of {status:?} differs");
            // Each job has one status.
            if status.is_some() {
                self.compare_histories(context, &left).await;
            }
        }
    }

    async fn compare_slots(&self, context: &str) {
        for queue in ["a", "b", "c"].map(str::to_owned) {
            both!(self, context, occupied_slots(queue));
        }
    }

    async fn compare_histories(&self, context: &str, jobs: &[Job]) {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let left = self.fixture.store.histories(ids.clone()).await.unwrap();
        let right = self.model.histories(ids.clone()).await.unwrap();
        for (id, (left, right)) in ids.into_iter().zip(left.into_iter().zip(right)) {
            both!(self, context, get(id));
            both!(self, context, parents(id));
            let mut children = self.fixture.store.children(id, 1_000).await.unwrap();
            children.sort();
            assert_eq!(children, self.model.children(id, 1_000).await.unwrap(), "{context}: children of {id}");
            both!(self, context, logs(id, 100usize));
            assert_eq!(left.attempts, right.attempts, "{context}: the attempts of {id} differ");
            // The ids are specific to the engine; the content is not.
            let content = |events: Vec<punctual_core::Event>| -> Vec<_> {
                let content =
                    |event: punctual_core::Event| (event.at, event.status, event.run, event.actor, cause(event.detail));
                events.into_iter().map(content).collect()
            };
            assert_eq!(content(left.events), content(right.events), "{context}: the events of {id} differ");
        }
    }
}

/// Without the name of the parent: if several parents end at the same time, which one ends first is specific to the
/// engine, such as when they are removed in several parts.
fn cause(detail: Option<String>) -> Option<String> {
    detail.map(|detail| if detail.starts_with("its parent ") { "one of its parents".to_owned() } else { detail })
}

async fn all_jobs(store: &dyn Store, filter: &Filter) -> Vec<Job> {
    let (mut jobs, mut page) = (Vec::new(), Page::first(7));
    loop {
        let found = store.list(filter.clone(), page.clone()).await.unwrap();
        jobs.extend(found.jobs);
        match found.next {
            Some(next) => page.after = Some(next),
            None => return jobs,
        }
    }
}
