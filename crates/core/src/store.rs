//! THE port: what every engine implements. Batch in, batch out; no policy.
//!
//! An engine is told what to store, never why. Decisions come from [`settle`](crate::settle()) and
//! [`change::apply`](crate::change::apply), limits from [`Spec::check`](crate::Spec::check); callers apply them
//! before they come here. All times are the store's own: an engine takes `now` from its clock, once for
//! each call, and adds the durations that it is given.
//!
//! Every call is one transaction: all of it happens or nothing does.

use std::{
    any::Any,
    fmt,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde::Serialize;

use crate::{
    Attempt, AttemptId, Change, Changed, Changes, Claim, ClockStep, Event, Filter, Job, JobId, JobPage, Json, LogLine,
    NewJob, NewNotification, NewWorkflow, Node, Notification, Once, Page, Progress, Queue, QueueEvent, QueueSave,
    Relative, Schedule, ScheduleEvent, ScheduleSave, Settled, Settlement, Status, StoreError, Timestamp, Token,
    TokenId, WorkerId, Workflow, WorkflowId,
    gate::{OccupiedSlot, Passed},
    measure::Tally,
    transfer::{Dependency, Parcel},
};

/// The lock that a probe takes, and for how long: it proves a write, and guards nothing.
const PROBE_LOCK: &str = "punctual.probe";
const PROBE_TTL: Duration = Duration::from_millis(1);

/// What an engine's call returns.
pub type StoreResult<T> = Result<T, StoreError>;

/// A durable place for jobs.
#[async_trait]
pub trait Store: Any + Send + Sync + fmt::Debug {
    /// Which engine this is and where its data lies, without secrets.
    fn info(&self) -> StoreInfo;

    /// The store's clock, as well as this process knows it.
    fn now(&self) -> Timestamp;

    /// After how long without a [`beat`](Self::beat) a worker is taken for dead and its leases are ended, in stores that do so before the leases run out.
    fn worker_silence_max(&self) -> Option<Duration> {
        None
    }

    /// Until when an execution may last that was handed out before the store knew of it, unless that is recorded by then; nothing once it is recorded. From
    /// then on the job may be handed out again, so the execution ends by the worker's own clock. Stores that record each start before they hand out the job
    /// have no such executions.
    ///
    /// The answer comes from this process's memory: it must not depend on whether the store can be reached.
    fn unrecorded_until(&self, _attempt: AttemptId) -> Option<Instant> {
        None
    }

    /// A listener for hints that some job may have changed: settled, cancelled, retried. Hints may be missing or
    /// needless; polling is the truth.
    fn watch(&self) -> Box<dyn Watch>;

    // The corridor: enqueue, claim, run, settle.

    /// Stores jobs, one event each. The answer has one entry for each job, in order.
    ///
    /// A job whose id is known, or whose unique key another job holds, is not stored: its entry names the job that is there. Whether
    /// a job is in the way, and what a conflict changes of it, [`Unique`](crate::Unique) says.
    ///
    /// A job with parents waits for those that have not ended; what those that have ended mean to it, [`flow::begin`](crate::flow::begin)
    /// says. If a parent is not there, or deleted, none of the jobs is stored.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>;

    /// Makes due scheduled and retrying jobs queued, then hands queued ones, but for those of paused queues, to a worker: higher priority first,
    /// then earlier `run_at`, then the order in which they were enqueued (or that of their ids, which differs only for jobs that
    /// were scheduled for different times and then retried at the same instant). Opens an attempt for each.
    ///
    /// Jobs of limited queues, and those with a concurrency key, have to pass their gates; [`gate::choose`](crate::gate::choose) says
    /// which may. None of them is ever started in excess of a limit, whatever happens at once; but what a claim that is under way has taken while a
    /// limit is set counts as running when it was.
    ///
    /// A job that is claimed ahead of its time follows those, earliest first, and is recorded as if it had become queued and had
    /// started exactly at its time. Those that have to pass a gate are not claimed so.
    ///
    /// If there is nothing, it waits for as long as the request says, and answers as soon as there is something. A
    /// caller that stops waiting holds nothing: what it would have got stays, or goes back at once.
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed>;

    /// The claims that wait by way of this store wait no longer, and answer with what they have. Unlike one whose caller goes, none of them gets
    /// anything that has to be given back.
    fn hurry(&self);

    /// Ends executions. One answer each, in order; one whose fence does not hold changes nothing. What follows for the jobs that wait
    /// for them, [`flow::follow`](crate::flow::follow) says, and it happens in the same transaction; so it does wherever else a job
    /// comes to an end.
    ///
    /// The handlers have ended, or are not waited for any longer: the slot that a stale execution [occupies](OccupiedSlot) is
    /// [released](Self::release_slots), unless the settlement is for an expired lease only.
    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>>;

    /// Makes claims known to every other process of the store, so that their worker may extend and settle them there. Stores that hold nothing back
    /// need not do anything.
    async fn share_claims(&self, _attempts: Vec<AttemptId>) -> StoreResult<()> {
        Ok(())
    }

    /// Moves the leases of `attempts` to `lease` from now, unless they last longer already. Answers for each, in
    /// order, whether the worker still holds it; a lease that had run out when this was asked for is lost, even if nobody has taken the job
    /// yet.
    async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

    /// Answers for each of `attempts`, in order, whether it is still under way in this worker's hands.
    async fn held(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

    /// Records, durably, that the handlers of `attempts` are about to start: a job that [runs at most once](crate::Spec::runs_at_most_once)
    /// starts only after that, and is dead if it is lost later. Answers for each, in order, whether the worker still holds it.
    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

    /// Releases the [slots](OccupiedSlot) of executions whose jobs were cancelled: their handlers have ended, or are not waited for any longer. Only
    /// those of this worker; an execution that occupies no slot changes nothing.
    async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()>;

    /// Keeps what running handlers say of themselves. Progress counts only while the fence holds; logs always. A line
    /// that is sent again, with its number and its time, is kept once.
    async fn note(&self, notes: Vec<Note>) -> StoreResult<()>;

    /// Claims whose lease has run out, longest overdue first, at most `limit`. The caller settles them as lost.
    async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>>;

    /// Claims of a worker that is known to be dead, at most `limit`, whose leases need not have run out. The caller settles them as lost, and knows why.
    /// One whose row is corrupt is not among them: it is found when its lease has run out.
    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>>;

    /// Makes due scheduled and retrying jobs queued, at most `limit`; says how many.
    async fn promote(&self, limit: usize) -> StoreResult<usize>;

    // Administration.

    /// Applies operators' wishes. One answer each, in order.
    ///
    /// A job that is cancelled while it runs ends at once, but its execution [occupies](OccupiedSlot) the slot that it has in a limit until
    /// [`release_slots`](Self::release_slots) or [`settle`](Self::settle) says that its handler is gone, or its lease ends, which nobody extends.
    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>>;

    /// The job with that id.
    async fn get(&self, id: JobId) -> StoreResult<Option<Job>>;

    /// A page of the jobs that `filter` selects, in its [`order`](Filter::order).
    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage>;

    /// The executions of a job, oldest first, the one under way included.
    async fn attempts(&self, job: JobId) -> StoreResult<Vec<Attempt>>;

    /// The events of a job, oldest first.
    async fn events(&self, job: JobId) -> StoreResult<Vec<Event>>;

    /// What happened to jobs since a former look, whose cursor is given; nothing, if there was none. In the order of time, at most `limit`; what is
    /// more than that is passed over, as is everything since a look that was too long ago, and [`Changes::missed`] says so.
    ///
    /// Whatever happened to a job is told by exactly one of the looks that go on from each other, however late it was committed. Only of what was over
    /// before anybody looked, something may be left out: that it was queued at first, that an execution began, an end that was taken back.
    async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes>;

    /// The log lines of a job, oldest first, at most `limit`.
    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>>;

    /// How many jobs there are, by queue, name and status. Cheap at any size of the store.
    async fn counts(&self) -> StoreResult<Vec<Count>>;

    /// How many unfinished jobs there are by user and name, most first, at most `limit` rows.
    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>>;

    /// How many jobs died from `since` up to `until` and are still dead, by name, most first.
    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>>;

    /// What was counted in the hours from that of `since` up to `until`.
    async fn tallies(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Tally>>;

    // Flow.

    /// Stores a workflow with its jobs, which name it.
    async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()>;

    /// Applies operators' wishes to a workflow's jobs, then stores jobs that take the places in it of those that they
    /// [run once more](crate::Extras::rerun_of), all in one transaction. Answers for each wish, in order. If another job has such a place by
    /// now, nothing is done.
    async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>>;

    /// The workflow with that id.
    async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>>;

    /// Workflows, latest first, from the one before `before`, at most `limit`.
    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>>;

    /// The jobs of a workflow and its callbacks, by name.
    async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>>;

    /// The jobs that a job waits for or waited for, in the order of their ids.
    async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>>;

    /// The jobs that wait for a job, or waited for it, in the order of their ids, at most `limit`.
    async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>>;

    /// What jobs returned, those that did.
    async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>>;

    // Schedules.

    /// Schedules by name, from the one after `after`, at most `limit`.
    async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>>;

    /// The schedule of that name.
    async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>>;

    /// The schedules that run and have a next occurrence until then, soonest first, then by name, from the one after `after`, at
    /// most `limit`.
    async fn upcoming(
        &self,
        after: Option<(Timestamp, String)>,
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Schedule>>;

    /// Stores schedules, each together with its jobs and what was done to it. One answer each, in order: whether it was stored. One that somebody else has
    /// stored meanwhile is not, nor are its jobs.
    async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>>;

    /// Removes the schedule of that name; says whether there was one. Its jobs and its events stay.
    async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool>;

    /// What was done to the schedule of that name, latest first, at most `limit`.
    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>>;

    // Queues.

    /// The queues of which something was said, by name.
    async fn queues(&self) -> StoreResult<Vec<Queue>>;

    /// Changes what is said of a queue, if nobody else has meanwhile; says whether it did. What is paused is not claimed from then on.
    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool>;

    /// What was done to the queue of that name, latest first, at most `limit`.
    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>>;

    /// What the gate of a queue has let through, or that of a key in it.
    async fn passed(&self, queue: String, key: Option<String>) -> StoreResult<Passed>;

    /// The slots of a queue and its keys that executions of cancelled jobs occupy, in the order of the jobs' ids.
    async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>>;

    // Workers and locks.

    /// Registers a worker, or says that it is still there.
    async fn beat(&self, beat: Beat) -> StoreResult<()>;

    /// Takes a worker off the register.
    async fn leave(&self, worker: WorkerId) -> StoreResult<()>;

    /// Ends the leases of a worker that is known to be dead, so that others need not wait for them to run out; says how many. Slots that its executions
    /// occupy are released.
    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize>;

    /// The workers on the register, by the time of their start.
    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>>;

    /// Takes the lock if it is free, expired, or the owner's already. Each acquisition returns a greater token.
    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>>;

    /// Keeps a lock that the owner holds; says whether it did.
    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool>;

    /// Frees a lock that the owner holds; says whether it did.
    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool>;

    /// The locks that are held, by name.
    async fn locks(&self) -> StoreResult<Vec<Lock>>;

    // Notifications.

    /// Stores messages to users. Their numbers come in the order in which they can be seen. Hints at it, as at a job's change.
    async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>>;

    /// Messages after the one with that number, oldest first, at most `limit`: those to one user and those to everybody, or all.
    async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>>;

    /// The number of the last message, or of the last that was there; 0 if there was none.
    async fn last_notification(&self) -> StoreResult<u64>;

    /// Removes messages that are older than `after`, at most `limit`. Their numbers are not used again.
    async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize>;

    // Tokens, and requests that count once.

    /// Stores a token.
    async fn add_token(&self, token: Token) -> StoreResult<()>;

    /// The tokens that are there, sessions included, by the time at which they were made.
    async fn tokens(&self) -> StoreResult<Vec<Token>>;

    /// Ends a token, or a session, together with the sessions that were begun with it; says whether it was valid. The token stays in the list, as one that has
    /// expired: a store in which a token was ever made is never empty of tokens until [`clear_tokens`](Self::clear_tokens).
    async fn remove_token(&self, id: TokenId) -> StoreResult<bool>;

    /// Removes all tokens and sessions, unless a token is still valid: then nothing is removed. A store without tokens is open.
    async fn clear_tokens(&self) -> StoreResult<()>;

    /// Remembers a request by its key, unless one of that key is known: answers what is known of it then.
    async fn once(&self, key: String, fingerprint: [u8; 32], seed: u64) -> StoreResult<Once>;

    // From one store to another.

    /// Which jobs some wait for, or waited for.
    async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>>;

    /// Takes over a part of what another store knows; says how much of it was new here.
    async fn import(&self, parcel: Parcel) -> StoreResult<usize>;

    // Upkeep. Each call does a bounded amount of work and says how much.

    /// Makes finished jobs deleted once they are older than `keep` says, or than they say themselves.
    async fn retire(&self, keep: Keep, limit: usize) -> StoreResult<usize>;

    /// Removes deleted jobs, with all that belongs to them, once they have been deleted for `after`.
    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize>;

    /// Removes attempts and logs that ended longer than `after` ago, looking at `limit` of the oldest; and workers, counters, sessions and tokens out of
    /// time and requests past their [limits](crate::limits). The last token that was made stays, expired or not: it shows that the store is closed.
    async fn trim(&self, after: Duration, limit: usize) -> StoreResult<usize>;

    /// Removes ephemeral jobs that were enqueued before that instant and that nobody is running.
    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize>;

    /// Removes whole days of jobs at once, where an engine keeps jobs by day and most of a day's have been kept long enough: finished for as
    /// long as `keep` says, then `deleted` more. Such an engine leaves jobs of large days out of [`retire`](Self::retire), unless something is
    /// kept for less than a day.
    async fn drop_days(&self, _keep: Keep, _deleted: Duration) -> StoreResult<usize> {
        Ok(0)
    }

    /// What the engine needs done for itself, such as partitions for the days ahead. Called about once a second by every worker;
    /// of several, the engine lets one do it.
    async fn tend(&self) -> StoreResult<()> {
        Ok(())
    }

    /// What the engine counts of itself, for metrics.
    async fn vitals(&self) -> StoreResult<Vec<Vital>> {
        Ok(Vec::new())
    }

    /// How long a lease that has run out is left alone once it was seen and the store has been written since. Zero where renewals are stored as they
    /// come.
    ///
    /// Where all processes wait for one writer, a renewal that was asked for in time may still wait while another program holds the lock; it counts
    /// when its turn comes ([`extend`](Self::extend)). A reaper therefore looks, writes, waits for so long, and takes only what it has seen both times. So
    /// a worker whose own renewal waits may go on as long as [`held`](Self::held), which is a read and waits for nobody, says that the jobs are its own.
    fn renewal_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Proves that the store can be written: one small write, as durable as an enqueue's. Readiness is decided by it.
    async fn probe(&self) -> StoreResult<()> {
        // The owner is the same everywhere, so that the lock is never in anybody's way.
        self.lock(PROBE_LOCK.to_owned(), PROBE_LOCK.to_owned(), PROBE_TTL).await.map(drop)
    }

    /// Waits until the store has failed for good in this process, and says why; see [`StoreError::Failed`]. Most engines never do.
    async fn failed(&self) -> StoreError {
        std::future::pending().await
    }

    /// The last time that the clock of this store was set, where an engine goes by the machine's.
    async fn clock_step(&self) -> StoreResult<Option<ClockStep>> {
        Ok(None)
    }

    /// The version of the schema and what it consists of.
    async fn schema(&self) -> StoreResult<Schema>;

    /// Looks for damage and bad settings. May take long.
    async fn examine(&self) -> StoreResult<Vec<Finding>>;
}

/// Which engine a store is and where its data lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreInfo {
    /// `sqlite`, `postgres`, ….
    pub engine: &'static str,
    /// The engine's own version.
    pub version: String,
    /// The address, without secrets.
    pub location: String,
}

/// A number that an engine, or a worker, has of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Vital {
    /// Its name in metrics. One that ends in `_total` only grows.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Of what, if there are several.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Vital {
    /// One of its kind.
    pub const fn new(name: &'static str, about: &'static str, value: f64) -> Self {
        Self { name, about, labels: Vec::new(), value }
    }
}

/// A listener for hints. It remembers hints from its creation on: listen first, then look, then wait.
#[async_trait]
pub trait Watch: Send {
    /// Waits for a hint that came since the last one was taken.
    async fn changed(&mut self);
}

/// What became of a job that was to be enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enqueued {
    /// The job that is there now.
    pub id: JobId,
    /// Whether it was there before.
    pub existing: bool,
    /// Whether this enqueue has changed it, as its unique key says.
    pub updated: bool,
}

impl Enqueued {
    /// A job that was stored.
    pub const fn new(id: JobId) -> Self {
        Self { id, existing: false, updated: false }
    }

    /// A job that was there before, and is as it was.
    pub const fn existing(id: JobId) -> Self {
        Self { id, existing: true, updated: false }
    }
}

/// A worker's wish for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// From these queues; from any when empty.
    pub queues: Vec<String>,
    /// In the order in which they are listed: nothing of the second while there is something of the first, whatever its priority.
    pub in_order: bool,
    /// With these names; with any when empty.
    pub names: Vec<String>,
    /// Takes [suspects](Job::is_suspect), and nothing else. Other claims take none.
    pub suspects: bool,
    /// At most so many.
    pub limit: usize,
    /// How long they are held.
    pub lease: Duration,
    /// If room is left, those also that are due within so long. The worker starts them when they are due.
    pub ahead: Duration,
    /// How long to wait if there is none.
    pub wait: Duration,
}

impl ClaimRequest {
    /// Asks for jobs of all queues and names, but for suspects, that are due, and does not wait for any.
    pub const fn new(worker: WorkerId, limit: usize, lease: Duration) -> Self {
        Self {
            worker,
            queues: Vec::new(),
            in_order: false,
            names: Vec::new(),
            suspects: false,
            limit,
            lease,
            ahead: Duration::ZERO,
            wait: Duration::ZERO,
        }
    }

    /// Whether the worker wants jobs of this lane.
    pub fn serves(&self, queue: &str, name: &str) -> bool {
        let wants = |wishes: &[String], word: &str| wishes.is_empty() || wishes.iter().any(|wish| wish == word);
        wants(&self.queues, queue) && wants(&self.names, name)
    }

    /// What comes first in a claim: the smaller number. Within it, the earlier job does.
    pub fn rank(&self, queue: &str, priority: u8) -> u32 {
        let place = self.queues.iter().position(|wish| wish == queue).filter(|_| self.in_order).unwrap_or(0);
        place as u32 * 256 + u32::from(u8::MAX - priority)
    }

    /// When to look again, after a look at `now` that found nothing, if the next job is due at `next_run_at`. Not as soon as it
    /// could be claimed ahead, so that one look finds several.
    pub fn look_again_at(&self, now: Timestamp, next_run_at: Timestamp) -> Timestamp {
        // What could have been claimed ahead and was not is for somebody else, until it is due.
        if next_run_at <= now.after(self.ahead) { next_run_at } else { next_run_at.before(self.ahead / 2) }
    }
}

/// What a worker got.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claimed {
    /// The jobs, first to start first.
    pub claims: Vec<Claim>,
    /// When the next scheduled or retrying job is due, in any queue. If there are jobs already, an engine may know only of some queues.
    pub next_run_at: Option<Timestamp>,
    /// When a rate lets through what it holds back now, as far as known.
    pub opens_at: Option<Timestamp>,
}

/// What a running handler says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The execution.
    pub attempt: AttemptId,
    /// Who executes it.
    pub worker: WorkerId,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// What it logged, with the number of each line, from 1.
    pub lines: Vec<(u32, LogLine)>,
}

/// How many jobs of one kind there are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// Their queue.
    pub queue: String,
    /// Their name.
    pub name: String,
    /// Their status.
    pub status: Status,
    /// How many.
    pub count: u64,
}

/// How many unfinished jobs a user has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pending {
    /// The user; nothing for the jobs of nobody in particular.
    pub user_id: Option<String>,
    /// The jobs' name.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// A worker's sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beat {
    /// Who.
    pub id: WorkerId,
    /// On which machine.
    pub host: String,
    /// In which process.
    pub pid: u32,
    /// Works on these queues; on all when empty.
    pub queues: Vec<String>,
    /// Has handlers for these names.
    pub names: Vec<String>,
    /// Runs at most so many jobs at once.
    pub concurrency: u32,
    /// Runs so many now.
    pub running: u32,
    /// The token that a remote worker was registered with; it stays that of the first heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_by: Option<TokenId>,
}

/// A worker on the register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerRecord {
    /// What it last said.
    #[serde(flatten)]
    pub beat: Beat,
    /// When it first did.
    pub started_at: Timestamp,
    /// When it last did.
    pub seen_at: Timestamp,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Grows with each acquisition: whoever guards a resource can refuse an older one.
    pub token: u64,
    /// Until when.
    pub expires_at: Timestamp,
}

/// How long finished jobs are kept before they are deleted, unless they say otherwise themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Those that succeeded.
    pub succeeded: Duration,
    /// Those that died.
    pub dead: Duration,
    /// Those that were cancelled.
    pub cancelled: Duration,
}

impl Keep {
    /// The time for jobs of that status.
    pub const fn of(&self, status: Status) -> Duration {
        match status {
            Status::Succeeded => self.succeeded,
            Status::Dead => self.dead,
            _ => self.cancelled,
        }
    }
}

impl Default for Keep {
    /// A week for what succeeded or was cancelled, ninety days for what died.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3_600);
        Self { succeeded: 7 * DAY, dead: 90 * DAY, cancelled: 7 * DAY }
    }
}

/// The version of a store's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version.
    pub version: u32,
    /// What it consists of.
    pub migrations: Vec<AppliedMigration>,
}

/// A migration that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AppliedMigration {
    /// Its number.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// The checksum of its text.
    pub checksum: String,
    /// When it was applied.
    pub applied_at: Timestamp,
}

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: String,
    /// Whether it is well.
    pub ok: bool,
    /// What was seen, and what to do if it is not well.
    pub message: String,
}
