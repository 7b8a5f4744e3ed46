//! Dispatch: one store owns the jobs, and another, faster one hands them out.
//!
//! The owner is a [`PrimaryStore`]. The dispatcher gets [`Hint`]s of queued jobs, and passes them on to workers. A hint
//! may be wrong; only the primary store knows. There are two ways from a hint to an execution:
//!
//! - The dispatcher asks the primary store first: [`PrimaryStore::take`]. That is always right.
//! - If it knows that the hint is fresh, it lets the worker begin, and tells the primary store soon after:
//!   [`PrimaryStore::begin`]; or, if the execution has ended by then, in one go with its end: [`PrimaryStore::finish`].
//!   The primary store refuses if the job is not as it was when it came.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    ClaimRequest, Claimed, Enqueued, Job, JobId, NewJob, Settlement, Store, StoreResult, Timestamp, Watch, WorkerId,
};

/// Jobs that may start within so long are told to the dispatcher; others stay with the primary store alone.
pub const HORIZON: Duration = Duration::from_secs(30);

/// The longest that an execution may be unknown to the primary store. One that is not recorded by then is given up. So
/// this is how long the primary store may stand still before jobs begin a second time, and how long nobody hands out
/// jobs after the dispatcher is lost.
pub const GRACE: Duration = Duration::from_secs(5);

/// A queue, a name and a priority. Jobs of one lane go out in the order of their time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The queue.
    pub queue: String,
    /// The name.
    pub name: String,
    /// The priority.
    pub priority: u8,
}

/// Where a job stands that may be handed out, or may be soon.
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
    /// What became of it.
    pub enqueued: Enqueued,
    /// When. Only of use if it was not there before.
    pub at: Timestamp,
}

/// The first execution of a job that is as it was when it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The job, and where it stood.
    pub hint: Hint,
    /// Who runs it.
    pub worker: WorkerId,
    /// Since when.
    pub started_at: Timestamp,
    /// How long it is held from then on.
    pub lease: Duration,
}

impl Start {
    /// The number of the execution that it is.
    pub const RUN: u32 = 1;

    /// The job as its worker gets it.
    pub fn job(&self, new: NewJob, stored_at: Timestamp) -> Box<Job> {
        let mut job = Box::new(new.into_job(stored_at));
        job.begin(Self::RUN, Self::RUN, self.worker, self.started_at, self.lease);
        job
    }
}

/// The lanes that a worker serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedLanes {
    /// Those whose jobs have no limits, each with its [rank](ClaimRequest::rank).
    pub plain: Vec<(Arc<Lane>, u32)>,
    /// Whether there are others, which only the primary store can serve.
    pub limited: bool,
}

/// What a process has seen of the dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// It has not looked.
    Unknown,
    /// It reaches the dispatcher, which takes what it is told.
    Reached {
        /// How long the dispatcher hands out jobs from now on.
        prolong: Duration,
        /// Whether the process claims jobs there. One that does not prolongs nothing while another one that does cannot
        /// reach the dispatcher: jobs would be told to a dispatcher that hands them to nobody.
        claims: bool,
    },
    /// It claims jobs, and cannot reach the dispatcher, or the dispatcher takes nothing.
    Missed,
}

/// How the dispatcher stands, as the primary store has it.
///
/// Two who hand out the same jobs would hand them out twice. So the dispatcher does it until a time that is prolonged
/// again and again by those who reach it, and the primary store itself only some time after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatching {
    /// What the dispatcher knows the primary store by. A copy of it in another database has another one, unless the
    /// whole server was copied.
    pub store_id: String,
    /// Which run of the primary store's server answers. A copy of the whole server has another one.
    pub server_run: String,
    /// How long ago a process that claims jobs could not reach the dispatcher, if it was lately.
    pub missed: Option<Duration>,
    /// How much longer the dispatcher hands jobs out, unless it is prolonged.
    pub left: Duration,
    /// It has been told of jobs that wait for a time up to this one, if of any.
    pub due_until: Option<Timestamp>,
    /// The queues that it has been given.
    pub queues: Vec<DispatchedQueue>,
}

/// A queue that has been given to the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchedQueue {
    /// The queue.
    pub queue: String,
    /// Counts how often it was given anew, because the dispatcher had lost what it knew.
    pub epoch: u64,
    /// How long nobody hands out its jobs yet: what was handed out before has to be known to the primary store first.
    pub opens_in: Duration,
    /// How long ago somebody opened it in this epoch.
    pub opened: Option<Duration>,
    /// Whether the dispatcher has got hints of all jobs that were there when it opened.
    pub loaded: bool,
}

/// A store whose jobs are handed out by another.
#[async_trait]
pub trait PrimaryStore: Store {
    /// As [`JobStore::enqueue`](crate::store::JobStore::enqueue). Whoever calls it tells the dispatcher of the jobs
    /// that are new.
    async fn store(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Stored>>;

    /// The lanes that a worker serves, but for paused ones, as far as this process knows them.
    fn lanes(&self, request: &ClaimRequest) -> ServedLanes;

    /// Looks again which lanes and queues there are.
    async fn look(&self) -> StoreResult<()>;

    /// As [`ClaimStore::claim`](crate::store::ClaimStore::claim) without waiting: the first ones of the hinted jobs, as
    /// far as they can be claimed, and of those which their limits allow. All hints are of lanes that the worker
    /// serves. Jobs that are claimed ahead of their time need no hints.
    async fn take(&self, request: ClaimRequest, hints: Vec<Hint>) -> StoreResult<Claimed>;

    /// Records executions that have begun; says for each whether it is right.
    async fn begin(&self, starts: Vec<Start>) -> StoreResult<Vec<bool>>;

    /// Records executions that have begun and succeeded; says for each whether it did. Those that something follows
    /// from are left alone.
    async fn finish(&self, ends: Vec<(Start, Settlement)>) -> StoreResult<Vec<bool>>;

    /// Jobs of a lane without limits which were queued before an instant, in the order of their time, after a
    /// place.
    async fn queued(
        &self,
        lane: &Lane,
        after: Option<(Timestamp, JobId)>,
        before: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Hint>>;

    /// For each of some hints, whether the job still stands there.
    async fn stand(&self, hints: Vec<Hint>) -> StoreResult<Vec<bool>>;

    /// Hears when there may be something that [`undispatched`](Self::undispatched) tells of, or a limit allows more.
    fn watch_work(&self) -> Box<dyn Watch>;

    /// Jobs that are queued, or will be until `until`, of which the dispatcher has not been told.
    async fn undispatched(&self, until: Timestamp, limit: usize) -> StoreResult<Vec<Hint>>;

    /// The dispatcher has been told of them.
    async fn mark_dispatched(&self, hints: Vec<Hint>) -> StoreResult<()>;

    /// Jobs that wait for a time up to `until`, of one queue or of all, in the order of their time, after a place.
    async fn due(
        &self,
        queue: Option<&str>,
        after: (Timestamp, JobId),
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Hint>>;

    /// Makes due jobs queued, if any may be due; says when the next one is that waits for its time, as far as known.
    async fn promote_due(&self) -> StoreResult<Option<Timestamp>>;

    /// The dispatcher has been told of jobs that wait for a time up to `until`, after those of which it was told
    /// before.
    async fn mark_due_dispatched(&self, before: Option<Timestamp>, until: Timestamp) -> StoreResult<()>;

    /// How the dispatcher stands; prolonged, if the caller reaches it. If that comes too late, every queue is given
    /// anew, and opens once what was handed out before is recorded or given up.
    async fn dispatching(&self, sight: Sight) -> StoreResult<Dispatching>;

    /// Gives a queue to the dispatcher, for the first time or anew; nothing if it was given since `epoch`.
    async fn give(&self, queue: String, epoch: u64, pause: Duration) -> StoreResult<()>;

    /// Says that a queue is being opened in its epoch; false if somebody else has.
    async fn open(&self, queue: String, epoch: u64) -> StoreResult<bool>;

    /// Says that the dispatcher has got all that was there.
    async fn opened(&self, queue: String, epoch: u64) -> StoreResult<()>;
}
