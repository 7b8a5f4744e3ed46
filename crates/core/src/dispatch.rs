//! Dispatch: one store owns the jobs, and another, faster one hands them out to workers.
//!
//! The owner is a [`PrimaryStore`]. The dispatcher receives [`Hint`]s of queued jobs and passes them to workers. A hint
//! may be wrong; only the primary store is authoritative. There are two ways from a hint to an execution:
//!
//! - The dispatcher queries the primary store first: [`PrimaryStore::take`]. This is always correct.
//! - If the dispatcher knows that the hint is fresh, the worker begins at once, and the primary store is notified soon
//!   after: [`PrimaryStore::begin`]; or, if the execution has ended by then, start and end are recorded together:
//!   [`PrimaryStore::finish`]. The primary store refuses if the job is not as it was when the hint was made.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    ClaimRequest, Claimed, Enqueued, Job, JobId, LeaseGrant, NewJob, Settlement, Store, StoreResult, Timestamp, Watch,
    WorkerId,
};

/// Jobs that may start within this time are passed to the dispatcher; others stay in the primary store only.
pub const HORIZON: Duration = Duration::from_secs(30);

/// The longest time for which the primary store may not know of an execution. An execution that is not recorded by then
/// is given up. Therefore this is how long the primary store may be unavailable before jobs are started a second time,
/// and how long no jobs are handed out after the dispatcher is lost.
pub const GRACE: Duration = Duration::from_secs(5);

/// A queue, a name and a priority. Jobs of one lane are handed out in the order of their time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The queue.
    pub queue: String,
    /// The name.
    pub name: String,
    /// The priority.
    pub priority: u8,
}

/// The position of a job that may be handed out now or soon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    /// Its lane.
    pub lane: Arc<Lane>,
    /// When it may start.
    pub run_at: Timestamp,
    /// The job.
    pub job: JobId,
}

/// A job that was enqueued, and when its primary store stored it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The result of the enqueue.
    pub enqueued: Enqueued,
    /// When it was stored. Only meaningful if the job is new.
    pub at: Timestamp,
}

/// The first execution of a job that is unchanged since it was enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The job, and its position.
    pub hint: Hint,
    /// The worker that runs it.
    pub worker: WorkerId,
    /// When the execution started.
    pub started_at: Timestamp,
    /// The duration of the lease from then on.
    pub lease: Duration,
}

impl Start {
    /// The number of this execution.
    pub const RUN: u32 = 1;

    /// The job as its worker receives it.
    pub fn job(&self, new: NewJob, stored_at: Timestamp) -> Box<Job> {
        let mut job = Box::new(new.into_job(stored_at));
        let lease = LeaseGrant { worker: self.worker, from: self.started_at, duration: self.lease };
        job.begin(Self::RUN, Self::RUN, lease);
        job
    }
}

/// The lanes that a worker serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedLanes {
    /// Lanes whose jobs have no limits, each with its [rank](ClaimRequest::rank).
    pub plain: Vec<(Arc<Lane>, u32)>,
    /// Whether the worker also serves lanes with limits, which only the primary store can serve.
    pub limited: bool,
}

/// Whether a process can reach the dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reachability {
    /// The process has not tried to reach it.
    Unknown,
    /// The process reaches the dispatcher, which accepts hints.
    Reachable {
        /// How long the dispatcher may hand out jobs from now on.
        prolong: Duration,
        /// Whether the process claims jobs there. A process that does not claim jobs prolongs nothing while a claiming
        /// process cannot reach the dispatcher: otherwise hints would be passed to a dispatcher that no worker claims
        /// from.
        claims: bool,
    },
    /// The process claims jobs, and cannot reach the dispatcher, or the dispatcher accepts nothing.
    Unreachable,
}

/// The state of the dispatcher as the primary store has it.
///
/// If two stores handed out the same jobs, jobs would be started twice. Therefore the dispatcher hands out jobs until a
/// deadline, which the processes that reach it prolong again and again, and the primary store itself only some time
/// after that deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatching {
    /// Identifies the primary store to the dispatcher. A copy in another database has another id, unless the whole
    /// server was copied.
    pub store_id: String,
    /// Identifies the run of the primary store's server that answers. A copy of the whole server has another one.
    pub server_run: String,
    /// How long ago a process that claims jobs could not reach the dispatcher, if that was recently.
    pub missed: Option<Duration>,
    /// The time until the dispatcher's deadline, unless it is prolonged.
    pub left: Duration,
    /// Hints of jobs with a start time up to this one were passed to the dispatcher; nothing if none were.
    pub due_until: Option<Timestamp>,
    /// The queues that are assigned to the dispatcher.
    pub queues: Vec<DispatchedQueue>,
}

/// A queue that is assigned to the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchedQueue {
    /// The queue.
    pub queue: String,
    /// The number of times that the queue was assigned again because the dispatcher had lost its data.
    pub epoch: u64,
    /// How long no store hands out jobs of the queue yet: jobs that were handed out before must be recorded in the
    /// primary store first.
    pub opens_in: Duration,
    /// How long ago a process opened the queue in this epoch.
    pub opened: Option<Duration>,
    /// Whether the dispatcher has received hints of all jobs that existed when the queue was opened.
    pub loaded: bool,
}

/// A store whose jobs another store hands out.
#[async_trait]
pub trait PrimaryStore: Store {
    /// As [`JobStore::enqueue`](crate::store::JobStore::enqueue). The caller passes hints of the new jobs to the
    /// dispatcher.
    async fn store(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Stored>>;

    /// The lanes that a worker serves, without paused ones, as last seen by this process.
    fn lanes(&self, request: &ClaimRequest) -> ServedLanes;

    /// Reloads the lanes and queues.
    async fn reload(&self) -> StoreResult<()>;

    /// As [`ClaimStore::claim`](crate::store::ClaimStore::claim) without waiting: the first of the hinted jobs that can
    /// be claimed and that their limits allow. All hints are of lanes that the worker serves. Jobs that are claimed
    /// ahead of their time need no hints.
    async fn take(&self, request: ClaimRequest, hints: Vec<Hint>) -> StoreResult<Claimed>;

    /// Records executions that have begun; returns for each whether it is valid.
    async fn begin(&self, starts: Vec<Start>) -> StoreResult<Vec<bool>>;

    /// Records executions that have begun and succeeded; returns for each whether it was recorded. Executions whose end
    /// has consequences for other jobs are not recorded here.
    async fn finish(&self, ends: Vec<(Start, Settlement)>) -> StoreResult<Vec<bool>>;

    /// Jobs of a lane without limits that were queued before an instant, in the order of their time, after a position.
    async fn queued(
        &self,
        lane: &Lane,
        after: Option<(Timestamp, JobId)>,
        before: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Hint>>;

    /// For each hint, whether the job is still at that position.
    async fn check_hints(&self, hints: Vec<Hint>) -> StoreResult<Vec<bool>>;

    /// A watch that is notified when [`undispatched`](Self::undispatched) may return jobs, or a limit allows more.
    fn watch_work(&self) -> Box<dyn Watch>;

    /// Jobs that are queued, or will be by `until`, whose hints were not passed to the dispatcher yet.
    async fn undispatched(&self, until: Timestamp, limit: usize) -> StoreResult<Vec<Hint>>;

    /// Records that these hints were passed to the dispatcher, except those of jobs that another transaction has
    /// locked. Returns how many were recorded; the others are [`undispatched`](Self::undispatched) still.
    async fn mark_dispatched(&self, hints: Vec<Hint>) -> StoreResult<usize>;

    /// Jobs with a start time up to `until`, of one queue or of all, in the order of their time, after a position.
    async fn due(
        &self,
        queue: Option<&str>,
        after: (Timestamp, JobId),
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Hint>>;

    /// Promotes due jobs to queued, if any may be due; returns when the next one becomes due, if known.
    async fn promote_due(&self) -> StoreResult<Option<Timestamp>>;

    /// Records that hints of jobs with a start time up to `until` were passed to the dispatcher, following those up to
    /// `before`.
    async fn mark_due_dispatched(&self, before: Option<Timestamp>, until: Timestamp) -> StoreResult<()>;

    /// The state of the dispatcher; its deadline is prolonged if the caller reaches it. If that happens too late, every
    /// queue is assigned again, and opens once all jobs that were handed out before are recorded or given up.
    async fn dispatching(&self, reachability: Reachability) -> StoreResult<Dispatching>;

    /// Assigns a queue to the dispatcher, for the first time or again; no effect if it was assigned since `epoch`.
    async fn give(&self, queue: String, epoch: u64, pause: Duration) -> StoreResult<()>;

    /// Records that the caller opens a queue in its epoch; false if another process already does.
    async fn open(&self, queue: String, epoch: u64) -> StoreResult<bool>;

    /// Records that the dispatcher has received all jobs of the queue.
    async fn opened(&self, queue: String, epoch: u64) -> StoreResult<()>;
}
