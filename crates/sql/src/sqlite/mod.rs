//! The embedded engine: one SQLite file, one writer a process, several processes if need be.
//!
//! | question | file |
//! |---|---|
//! | which tables are there? | `migrations/` |
//! | which statements? | `sql/`, by `statements` |
//! | how do operations share a commit? | `writer` |
//! | enqueue, claim, settle | `enqueue`, `claim`, `settle` |
//! | who holds a job? | `running` |
//! | what waits for what, and workflows | `flow` |
//! | operators' actions and retention | `change` |
//! | jobs, histories, counters, lists | `read`, `list` |
//! | schedules, queues | `schedules`, `queues` |
//! | workers and locks | `registry` |
//! | messages to users | `notifications` |

mod change;
mod checkpoint;
mod claim;
mod connection;
mod enqueue;
mod error;
mod examine;
mod flow;
mod flush;
mod gated;
mod gates;
mod list;
mod notifications;
mod operation;
mod places;
mod queues;
mod read;
mod reader;
mod registry;
mod remove;
mod rows;
mod running;
mod schedules;
mod schema;
mod settle;
mod statements;
mod tx;
mod url;
mod workflows;
mod writer;

#[cfg(test)]
mod plans;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, Beat, Change, Changed, Claim, ClaimRequest, Claimed, Clock, Count, Enqueued, Event, Filter,
    Finding, Job, JobId, JobPage, Json, Keep, Lock, LogLine, NewJob, NewNotification, NewWorkflow, Node, Note,
    Notification, Page, Pending, Queue, QueueEvent, QueueSave, Relative, Schedule, ScheduleEvent, ScheduleSave, Schema,
    Settled, Settlement, Store, StoreError, StoreInfo, StoreResult, SystemClock, Timestamp, Watch, WorkerId,
    WorkerRecord, Workflow, WorkflowId, gate::Passed, measure::Tally,
};
pub use rusqlite;
use rusqlite::Connection;

pub use self::schema::MIGRATIONS;
use self::{
    error::store_error,
    operation::{Durability, finish},
    reader::Readers,
    tx::Tx,
    writer::Writer,
};
use crate::wakes::Wakes;

/// How a SQLite file is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file. It is created if it does not exist.
    pub path: PathBuf,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// Where the time comes from: the machine's clock, unless a test brings its own.
    pub clock: Arc<dyn Clock>,
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Once it is on the disk: survives a loss of power. The default.
    #[default]
    Full,
    /// Once the system has it: survives a crash of the process, not a loss of power.
    Normal,
}

impl Options {
    /// The file at `path`, durable, with the machine's clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), synchronous: Synchronous::default(), clock: Arc::new(SystemClock) }
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

/// Jobs in a SQLite file.
#[derive(Clone)]
pub struct SqliteStore {
    options: Options,
    wakes: Wakes,
    readers: Arc<Readers>,
    writer: Arc<Writer>,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.options.path.display())
    }
}

impl SqliteStore {
    /// Opens a file, creates it if need be, and brings its schema up to date.
    pub async fn open(options: Options) -> StoreResult<Self> {
        let opened = options.clone();
        let open = move || {
            let mut connection = connection::open(&opened)?;
            schema::migrate(&mut connection, opened.clock.now())?;
            Ok(connection)
        };
        let connection = tokio::task::spawn_blocking(open)
            .await
            .map_err(|error| StoreError::Other(format!("opening broke off: {error}")))??;
        let wakes = Wakes::new();
        let writer = Writer::start(connection, &options, wakes.clone())?;
        let readers = Arc::new(Readers::new(options.clone()));
        Ok(Self { options, wakes, readers, writer: Arc::new(writer) })
    }

    async fn read<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        self.readers.call(move |connection| work(connection).map_err(store_error)).await
    }

    async fn write<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.call(Durability::Now, 1, work).await
    }

    /// A write that a loss of power may undo; see [`Durability::Soon`].
    async fn write_soon<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.call(Durability::Soon, 1, work).await
    }
}

/// Stores jobs within a transaction of the caller's own, on the caller's own connection to the same file: they exist
/// if and only if that transaction commits. Workers of other connections notice within milliseconds.
///
/// The jobs must have been checked, as the client's `enqueue_in` does.
pub fn enqueue_in(connection: &Connection, now: Timestamp, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    let mut tx = Tx::new(connection, now);
    let enqueued = enqueue::enqueue(&mut tx, jobs)?;
    finish(&mut tx)?;
    Ok(enqueued)
}

/// Ends executions within a transaction of the caller's own, so that a handler's effects and its job's end are one.
pub fn settle_in(connection: &Connection, now: Timestamp, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
    let mut tx = Tx::new(connection, now);
    let settled = settle::settle(&mut tx, settlements)?;
    finish(&mut tx)?;
    Ok(settled)
}

#[async_trait]
impl Store for SqliteStore {
    fn info(&self) -> StoreInfo {
        let location = format!("sqlite:{}", self.options.path.display());
        StoreInfo { engine: "sqlite", version: rusqlite::version().to_owned(), location }
    }

    fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    fn watch(&self) -> Box<dyn Watch> {
        let listener = self.wakes.listen();
        self.writer.listen();
        Box::new(listener)
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        self.writer.call(Durability::Now, jobs.len(), move |tx| enqueue::enqueue(tx, &jobs)).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        self.writer.claim(request, &self.readers).await
    }

    fn hurry(&self) {
        self.writer.hurry();
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.writer.call(Durability::Now, settlements.len(), move |tx| settle::settle(tx, &settlements)).await
    }

    async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.write_soon(move |tx| settle::extend(tx, worker, lease, &attempts).map_err(store_error)).await
    }

    async fn held(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.read(move |connection| settle::held(connection, worker, &attempts)).await
    }

    async fn note(&self, notes: Vec<Note>) -> StoreResult<()> {
        self.write_soon(move |tx| settle::note(tx, &notes)).await
    }

    async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>> {
        let now = self.options.clock.now();
        self.read(move |connection| claim::expired(connection, now, limit)).await
    }

    async fn promote(&self, limit: usize) -> StoreResult<usize> {
        self.write_soon(move |tx| claim::promote(tx, limit)).await
    }

    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
        self.write(move |tx| change::change(tx, &changes)).await
    }

    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        self.read(move |connection| read::get(connection, id)).await
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        self.readers.call(move |connection| list::list(connection, &filter, &page)).await
    }

    async fn attempts(&self, job: JobId) -> StoreResult<Vec<Attempt>> {
        self.read(move |connection| read::attempts(connection, job)).await
    }

    async fn events(&self, job: JobId) -> StoreResult<Vec<Event>> {
        self.read(move |connection| read::events(connection, job)).await
    }

    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
        self.read(move |connection| read::logs(connection, job, limit)).await
    }

    async fn counts(&self) -> StoreResult<Vec<Count>> {
        self.read(read::counts).await
    }

    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
        self.read(move |connection| read::pending_by_user(connection, limit)).await
    }

    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
        self.read(move |connection| read::dead_by_name(connection, since, until)).await
    }

    async fn tallies(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Tally>> {
        self.read(move |connection| read::tallies(connection, since, until)).await
    }

    async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
        self.writer.call(Durability::Now, jobs.len(), move |tx| workflows::submit(tx, &workflow, &jobs)).await
    }

    async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>> {
        self.write(move |tx| workflows::resubmit(tx, &changes, &jobs)).await
    }

    async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>> {
        self.read(move |connection| workflows::workflow(connection, id)).await
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
        self.read(move |connection| workflows::workflows(connection, before, limit)).await
    }

    async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
        self.read(move |connection| workflows::nodes(connection, workflow)).await
    }

    async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>> {
        self.read(move |connection| workflows::parents(connection, job)).await
    }

    async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
        self.read(move |connection| workflows::children(connection, job, limit)).await
    }

    async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>> {
        self.read(move |connection| workflows::results(connection, &jobs)).await
    }

    async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>> {
        let after = after.unwrap_or_default();
        self.read(move |connection| schedules::schedules(connection, &after, limit)).await
    }

    async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>> {
        self.read(move |connection| schedules::schedule(connection, &name)).await
    }

    async fn upcoming(
        &self,
        after: Option<(Timestamp, String)>,
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Schedule>> {
        self.read(move |connection| schedules::upcoming(connection, after.unwrap_or_default(), until, limit)).await
    }

    async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>> {
        let weight = saves.iter().map(|save| 1 + save.jobs.len()).sum();
        self.writer.call(Durability::Now, weight, move |tx| schedules::save(tx, &saves)).await
    }

    async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool> {
        self.write(move |tx| schedules::remove(tx, &name, &actor).map_err(store_error)).await
    }

    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
        self.read(move |connection| schedules::events(connection, &name, limit)).await
    }

    async fn queues(&self) -> StoreResult<Vec<Queue>> {
        self.read(queues::queues).await
    }

    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
        self.write(move |tx| queues::save(tx, &save)).await
    }

    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
        self.read(move |connection| queues::events(connection, &name, limit)).await
    }

    async fn passed(&self, queue: String, key: Option<String>) -> StoreResult<Passed> {
        self.read(move |connection| gates::passed(connection, &queue, key.as_deref())).await
    }

    async fn beat(&self, beat: Beat) -> StoreResult<()> {
        self.write_soon(move |tx| registry::beat(tx, &beat)).await
    }

    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
        self.write_soon(move |tx| registry::end_leases(tx, worker).map_err(store_error)).await
    }

    async fn leave(&self, worker: WorkerId) -> StoreResult<()> {
        self.write_soon(move |tx| registry::leave(tx, worker).map_err(store_error)).await
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        self.read(registry::workers).await
    }

    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
        self.write(move |tx| registry::lock(tx, &name, &owner, ttl).map_err(store_error)).await
    }

    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
        self.write(move |tx| registry::extend_lock(tx, &name, &owner, ttl).map_err(store_error)).await
    }

    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
        self.write(move |tx| registry::unlock(tx, &name, &owner).map_err(store_error)).await
    }

    async fn locks(&self) -> StoreResult<Vec<Lock>> {
        let now = self.options.clock.now();
        self.read(move |connection| registry::locks(connection, now)).await
    }

    async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>> {
        self.write(move |tx| notifications::notify(tx, &messages).map_err(store_error)).await
    }

    async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>> {
        self.read(move |connection| notifications::list(connection, user.as_deref(), after, limit)).await
    }

    async fn last_notification(&self) -> StoreResult<u64> {
        self.read(notifications::last).await
    }

    async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(move |tx| notifications::drop(tx, after, limit).map_err(store_error)).await
    }

    async fn retire(&self, keep: Keep, limit: usize) -> StoreResult<usize> {
        self.write(move |tx| change::retire(tx, keep, limit)).await
    }

    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(move |tx| remove::purge(tx, after, limit)).await
    }

    async fn trim(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(move |tx| remove::trim(tx, after, limit).map_err(store_error)).await
    }

    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.write(move |tx| remove::drop_ephemeral(tx, before, limit)).await
    }

    async fn schema(&self) -> StoreResult<Schema> {
        self.readers.call(schema::read).await
    }

    async fn examine(&self) -> StoreResult<Vec<Finding>> {
        let options = self.options.clone();
        self.read(move |connection| examine::examine(connection, &options)).await
    }
}
