//! A store that fails when it is told to, to show that nothing is lost when a real one does.

use std::{
    collections::{HashMap, VecDeque},
    future, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, Beat, Change, Changed, Changes, Claim, ClaimRequest, Claimed, ClockStep, Count, Enqueued,
    Event, Filter, Finding, Job, JobId, JobPage, Json, Keep, Lock, LogLine, NewJob, NewNotification, NewWorkflow, Node,
    Note, Notification, Once, Page, Pending, Queue, QueueEvent, QueueSave, Relative, Schedule, ScheduleEvent,
    ScheduleSave, Schema, Settled, Settlement, Store, StoreError, StoreInfo, StoreResult, Timestamp, Token, TokenId,
    Watch, WorkerId, WorkerRecord, Workflow, WorkflowId,
    gate::{OccupiedSlot, Passed},
    measure::Tally,
    transfer::{Dependency, Parcel},
};

/// At which point a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before anything was done.
    Before,
    /// After it was done, so that the caller does not learn that it was.
    After,
    /// It is not done and never answered, as over a network that drops every packet.
    Never,
}

/// Passes every call on, except those that it was told to fail.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    next: VecDeque<(&'static str, When)>,
    always: HashMap<&'static str, When>,
    /// What the last claim that got anything was answered with.
    last_claimed: Claimed,
    /// Whether the next claim is answered with that.
    repeats_claim: bool,
    /// The attempts that were handed out so.
    repeated: Vec<AttemptId>,
}

impl FaultyStore {
    /// Passes calls on to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Lets the next call of the port's `method` fail that is not already going to.
    pub fn fail_next(&self, method: &'static str, when: When) {
        self.faults().next.push_back((method, when));
    }

    /// Lets every call of the port's `method` fail from now on.
    pub fn fail_always(&self, method: &'static str, when: When) {
        self.faults().always.insert(method, when);
    }

    /// Answers the next claim with what the last one got, as a server does that has lost that claim in a crash and hands the jobs out again. Their starts
    /// may be confirmed then, whatever has become of them before.
    pub fn repeat_claim(&self) {
        self.faults().repeats_claim = true;
    }

    /// How many failures are still to come.
    pub fn faults_left(&self) -> usize {
        let faults = self.faults();
        faults.next.len() + usize::from(faults.repeats_claim)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, method: &str) -> Option<When> {
        let mut faults = self.faults();
        match faults.next.iter().position(|(name, _)| *name == method) {
            Some(place) => faults.next.remove(place).map(|(_, when)| when),
            None => faults.always.get(method).copied(),
        }
    }

    /// The claim that is handed out again, if one is.
    fn repeated_claim(&self) -> Option<Claimed> {
        let mut faults = self.faults();
        let repeated = mem::take(&mut faults.repeats_claim).then(|| faults.last_claimed.clone())?;
        faults.repeated = repeated.claims.iter().map(Claim::attempt_id).collect();
        Some(repeated)
    }

    async fn claim_once(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        if let Some(repeated) = self.repeated_claim() {
            return Ok(repeated);
        }
        let claimed = self.inner.claim(request).await?;
        if !claimed.claims.is_empty() {
            self.faults().last_claimed = claimed.clone();
        }
        Ok(claimed)
    }

    async fn confirm_once(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        let held = self.inner.confirm(worker, attempts.clone()).await?;
        let repeated = self.faults().repeated.clone();
        Ok(attempts.iter().zip(held).map(|(attempt, held)| held || repeated.contains(attempt)).collect())
    }
}

fn injected(method: &str) -> StoreError {
    StoreError::Other(format!("an injected fault in {method}"))
}

macro_rules! pass_on {
    ($($method:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait]
        impl Store for FaultyStore {
            fn info(&self) -> StoreInfo {
                self.inner.info()
            }

            fn now(&self) -> Timestamp {
                self.inner.now()
            }

            fn worker_silence_max(&self) -> Option<Duration> {
                self.inner.worker_silence_max()
            }

            fn unrecorded_until(&self, attempt: AttemptId) -> Option<Instant> {
                self.inner.unrecorded_until(attempt)
            }

            fn hurry(&self) {
                self.inner.hurry();
            }

            fn watch(&self) -> Box<dyn Watch> {
                self.inner.watch()
            }

            fn renewal_grace(&self) -> Duration {
                self.inner.renewal_grace()
            }

            async fn failed(&self) -> StoreError {
                self.inner.failed().await
            }

            async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
                match self.fault("confirm") {
                    Some(When::Before) => Err(injected("confirm")),
                    Some(When::After) => {
                        self.confirm_once(worker, attempts).await?;
                        Err(injected("confirm"))
                    }
                    Some(When::Never) => future::pending().await,
                    None => self.confirm_once(worker, attempts).await,
                }
            }

            async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
                match self.fault("claim") {
                    Some(When::Before) => Err(injected("claim")),
                    Some(When::After) => {
                        self.claim_once(request).await?;
                        Err(injected("claim"))
                    }
                    Some(When::Never) => future::pending().await,
                    None => self.claim_once(request).await,
                }
            }

            $(
                async fn $method(&self, $($argument: $type),*) -> StoreResult<$result> {
                    match self.fault(stringify!($method)) {
                        Some(When::Before) => Err(injected(stringify!($method))),
                        Some(When::After) => {
                            self.inner.$method($($argument),*).await?;
                            Err(injected(stringify!($method)))
                        }
                        Some(When::Never) => future::pending().await,
                        None => self.inner.$method($($argument),*).await,
                    }
                }
            )*
        }
    };
}

pass_on! {
    enqueue(jobs: Vec<NewJob>) -> Vec<Enqueued>;
    settle(settlements: Vec<Settlement>) -> Vec<Settled>;
    share_claims(attempts: Vec<AttemptId>) -> ();
    extend(worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> Vec<bool>;
    held(worker: WorkerId, attempts: Vec<AttemptId>) -> Vec<bool>;
    release_slots(worker: WorkerId, attempts: Vec<AttemptId>) -> ();
    note(notes: Vec<Note>) -> ();
    expired(limit: usize) -> Vec<Claim>;
    claims_of_dead(worker: WorkerId, limit: usize) -> Vec<Claim>;
    promote(limit: usize) -> usize;
    change(changes: Vec<Change>) -> Vec<Changed>;
    get(id: JobId) -> Option<Job>;
    list(filter: Filter, page: Page) -> JobPage;
    attempts(job: JobId) -> Vec<Attempt>;
    events(job: JobId) -> Vec<Event>;
    changes(since: Option<String>, limit: usize) -> Changes;
    logs(job: JobId, limit: usize) -> Vec<LogLine>;
    counts() -> Vec<Count>;
    pending_by_user(limit: usize) -> Vec<Pending>;
    dead_by_name(since: Timestamp, until: Timestamp) -> Vec<(String, u64)>;
    tallies(since: Timestamp, until: Timestamp) -> Vec<Tally>;
    submit(workflow: NewWorkflow, jobs: Vec<NewJob>) -> ();
    resubmit(changes: Vec<Change>, jobs: Vec<NewJob>) -> Vec<Changed>;
    workflow(id: WorkflowId) -> Option<Workflow>;
    workflows(before: Option<WorkflowId>, limit: usize) -> Vec<Workflow>;
    dependencies(children: Vec<JobId>) -> Vec<Dependency>;
    import(parcel: Parcel) -> usize;
    nodes(workflow: WorkflowId) -> Vec<Node>;
    parents(job: JobId) -> Vec<Relative>;
    children(job: JobId, limit: usize) -> Vec<Relative>;
    results(jobs: Vec<JobId>) -> Vec<(JobId, Json)>;
    schedules(after: Option<String>, limit: usize) -> Vec<Schedule>;
    schedule(name: String) -> Option<Schedule>;
    upcoming(after: Option<(Timestamp, String)>, until: Timestamp, limit: usize) -> Vec<Schedule>;
    save_schedules(saves: Vec<ScheduleSave>) -> Vec<bool>;
    remove_schedule(name: String, actor: String) -> bool;
    schedule_events(name: String, limit: usize) -> Vec<ScheduleEvent>;
    queues() -> Vec<Queue>;
    save_queue(save: QueueSave) -> bool;
    queue_events(name: String, limit: usize) -> Vec<QueueEvent>;
    passed(queue: String, key: Option<String>) -> Passed;
    occupied_slots(queue: String) -> Vec<OccupiedSlot>;
    beat(beat: Beat) -> ();
    leave(worker: WorkerId) -> ();
    end_leases(worker: WorkerId) -> usize;
    workers() -> Vec<WorkerRecord>;
    lock(name: String, owner: String, ttl: Duration) -> Option<Lock>;
    extend_lock(name: String, owner: String, ttl: Duration) -> bool;
    unlock(name: String, owner: String) -> bool;
    locks() -> Vec<Lock>;
    notify(messages: Vec<NewNotification>) -> Vec<Notification>;
    notifications(user: Option<String>, after: u64, limit: usize) -> Vec<Notification>;
    last_notification() -> u64;
    drop_notifications(after: Duration, limit: usize) -> usize;
    add_token(token: Token) -> ();
    tokens() -> Vec<Token>;
    remove_token(id: TokenId) -> bool;
    clear_tokens() -> ();
    once(key: String, fingerprint: [u8; 32], seed: u64) -> Once;
    retire(keep: Keep, limit: usize) -> usize;
    purge(after: Duration, limit: usize) -> usize;
    trim(after: Duration, limit: usize) -> usize;
    drop_days(keep: Keep, deleted: Duration) -> usize;
    drop_ephemeral(before: Timestamp, limit: usize) -> usize;
    tend() -> ();
    probe() -> ();
    clock_step() -> Option<ClockStep>;
    schema() -> Schema;
    examine() -> Vec<Finding>;
}
