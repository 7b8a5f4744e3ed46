//! A store that fails when it is told to, to show that nothing is lost when a real one does.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, Beat, Change, Changed, Changes, Claim, ClaimRequest, Claimed, Count, Enqueued, Event, Filter,
    Finding, Job, JobId, JobPage, Json, Keep, Lock, LogLine, NewJob, NewNotification, NewWorkflow, Node, Note,
    Notification, Once, Page, Pending, Queue, QueueEvent, QueueSave, Relative, Schedule, ScheduleEvent, ScheduleSave,
    Schema, Settled, Settlement, Store, StoreError, StoreInfo, StoreResult, Timestamp, Token, TokenId, Watch, WorkerId,
    WorkerRecord, Workflow, WorkflowId,
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
}

/// Passes every call on, except those that it was told to fail.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Arc<Mutex<VecDeque<(&'static str, When)>>>,
}

impl FaultyStore {
    /// Passes calls on to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Lets the next call of the port's `method` fail that is not already going to.
    pub fn fail_next(&self, method: &'static str, when: When) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((method, when));
    }

    /// How many failures are still to come.
    pub fn faults_left(&self) -> usize {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn fault(&self, method: &str) -> Option<When> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let place = faults.iter().position(|(name, _)| *name == method)?;
        faults.remove(place).map(|(_, when)| when)
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

            fn hurry(&self) {
                self.inner.hurry();
            }

            fn watch(&self) -> Box<dyn Watch> {
                self.inner.watch()
            }

            $(
                async fn $method(&self, $($argument: $type),*) -> StoreResult<$result> {
                    match self.fault(stringify!($method)) {
                        Some(When::Before) => Err(injected(stringify!($method))),
                        Some(When::After) => {
                            self.inner.$method($($argument),*).await?;
                            Err(injected(stringify!($method)))
                        }
                        None => self.inner.$method($($argument),*).await,
                    }
                }
            )*
        }
    };
}

pass_on! {
    enqueue(jobs: Vec<NewJob>) -> Vec<Enqueued>;
    claim(request: ClaimRequest) -> Claimed;
    settle(settlements: Vec<Settlement>) -> Vec<Settled>;
    extend(worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> Vec<bool>;
    held(worker: WorkerId, attempts: Vec<AttemptId>) -> Vec<bool>;
    note(notes: Vec<Note>) -> ();
    expired(limit: usize) -> Vec<Claim>;
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
    passed(queue: String, key: Option<String>) -> punctual_core::gate::Passed;
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
    once(key: String, fingerprint: [u8; 32], seed: u64) -> Once;
    retire(keep: Keep, limit: usize) -> usize;
    purge(after: Duration, limit: usize) -> usize;
    trim(after: Duration, limit: usize) -> usize;
    drop_days(keep: Keep, deleted: Duration) -> usize;
    drop_ephemeral(before: Timestamp, limit: usize) -> usize;
    tend() -> ();
    schema() -> Schema;
    examine() -> Vec<Finding>;
}
