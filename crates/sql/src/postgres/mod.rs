//! The engine for a team: PostgreSQL 13 or later.
//!
//! | question | file |
//! |---|---|
//! | which tables are there? | `migrations/`, applied by `schema` |
//! | which statements? | `sql/`, by `statements`; as they are sent, `golden`; their plans, `plans` |
//! | how are connections set up? | `url`, `session`, `clock` |
//! | how do rows, values and errors become types? | `rows`, `value`, `error` |
//! | how do enqueues share a commit? | `batcher` |
//! | in which order are rows locked? | `locking` |
//! | enqueue, with unique keys and dependencies | `enqueue`, `keys`, `flow` |
//! | claim: which lanes, from where, and the rows | `claim`, `lanes`, `scan_bounds`, `take`, `suspects` |
//! | limits | `gates` |
//! | settle | `settle` |
//! | what a dispatcher in front needs | `dispatch`, `ready_keys` |
//! | how are idle workers woken? | `wake` |
//! | operators' actions | `change`, `workflows`, `queues` |
//! | jobs, histories, counters, lists | `read`, `list` |
//! | what has changed since an earlier read? | `changes` |
//! | schedules | `schedules` |
//! | workers and locks | `registry` |
//! | messages to users, tokens | `notifications`, `tokens` |
//! | partitions of days, and their retention | `partitions`, `partition_creation`, `partition_retention` |
//! | what one process of the fleet does for the engine, and how often | `maintenance`, `backoff` |
//! | what another store transfers | `import` |
//! | what `punctual doctor` checks | `examine` |

mod backoff;
mod batcher;
mod change;
mod changes;
mod claim;
mod clock;
mod dispatch;
mod enqueue;
mod error;
mod examine;
mod flow;
mod gates;
#[cfg(test)]
mod golden;
mod import;
mod keys;
mod lanes;
mod list;
mod locking;
mod maintenance;
mod notifications;
mod partition_creation;
mod partition_retention;
mod partitions;
#[cfg(test)]
mod plans;
mod queues;
mod read;
mod ready_keys;
mod registry;
mod rows;
mod scan_bounds;
mod schedules;
mod schema;
mod session;
mod settle;
mod statements;
mod suspects;
mod take;
mod tokens;
mod url;
mod value;
mod wake;
mod workflows;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::{
    Attempt, AttemptId, Change, Changed, Changes, Claim, ClaimRequest, Claimed, Clock, Count, Diagnostic, Enqueued,
    Event, Filter, Heartbeat, IdempotentRequest, Job, JobId, JobPage, Json, Lock, LogLine, NewJob, NewNotification,
    NewWorkflow, Node, Notification, Page, Pending, ProgressReport, Queue, QueueEvent, QueueSave, Relative,
    RetentionPolicy, Schedule, ScheduleEvent, ScheduleSave, Schema, Settled, Settlement, StoreInfo, StoreResult,
    Timestamp, Token, TokenId, Watch, WorkerId, WorkerRecord, Workflow, WorkflowId,
    dispatch::{PrimaryStore, Stored},
    gate::{LimitUsage, OccupiedSlot},
    measure::Tally,
    store::{Metric, ports::*},
    transfer::{Dependency, ExportBatch},
};
pub use sqlx;
use sqlx::{PgConnection, postgres::PgConnectOptions};

use self::{
    batcher::Batcher,
    clock::ServerClock,
    lanes::Lanes,
    maintenance::Maintenance,
    partition_creation::Effort,
    partitions::Days,
    queues::Queues,
    scan_bounds::ScanBounds,
    session::{Patience, Sessions},
    statements::Tells,
    wake::Hints,
};
pub use self::{
    schema::MIGRATIONS,
    session::{drop_schemas, server_settings},
};

/// How a database is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to connect.
    pub connect: PgConnectOptions,
    /// The schema that the tables are in. It is created if it does not exist.
    pub schema: String,
    /// The most connections that this process opens, besides one that listens for hints.
    pub max_connections: u32,
    /// How long a statement may take, and a transaction stand still, before the server ends it.
    pub statement_timeout: Duration,
    /// How long a short operation (enqueue, claim, settle, renewal of leases) waits for the server's answer. Others
    /// wait longer, by the time that a statement may take.
    pub answer_timeout: Duration,
    /// Whether a pooler stands in between that gives each transaction another connection. Hints from other processes do
    /// not come then, and settings are made in every transaction.
    pub transaction_pooler: bool,
    /// How many days ahead partitions are made.
    pub days_ahead: u32,
    /// How large a day of jobs must be for retention to take it as a whole, in bytes.
    pub whole_day_min_bytes: u64,
    /// Maximum size of a default partition, in bytes, that is scanned under an exclusive lock when the partition of a
    /// day is attached.
    pub default_scan_max_bytes: u64,
    /// Whether another store hands out its jobs; see [`PrimaryStore`].
    pub dispatched: bool,
    /// Where the time comes from, if not from the server: tests bring their own.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// A database, with the schema `public` and eight connections.
    pub fn new(connect: PgConnectOptions) -> Self {
        Self {
            connect,
            schema: "public".to_owned(),
            max_connections: 8,
            statement_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(15),
            transaction_pooler: false,
            days_ahead: 2,
            whole_day_min_bytes: 64 << 20,
            default_scan_max_bytes: 16 << 20,
            dispatched: false,
            clock: None,
        }
    }

    /// Uses another clock than the server's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The address, without secrets.
    fn location(&self) -> String {
        let connect = &self.connect;
        let database = connect.get_database().unwrap_or_default();
        let (user, host, port) = (connect.get_username(), connect.get_host(), connect.get_port());
        format!("postgres://{user}@{host}:{port}/{database}?schema={}", self.schema)
    }
}

/// Jobs in a PostgreSQL database.
#[derive(Clone)]
pub struct PostgresStore {
    core: Core,
    enqueues: Arc<Batcher<NewJob, Stored>>,
}

/// What every operation needs.
#[derive(Clone)]
pub(crate) struct Core(Arc<Inner>);

pub(crate) struct Inner {
    options: Options,
    sessions: Sessions,
    version: String,
    /// Which database and schema it is.
    database: String,
    days: Days,
    lanes: Lanes,
    queues: Queues,
    outlook: ScanBounds,
    hints: Hints,
    server_clock: ServerClock,
    upkeep: Maintenance,
}

impl std::ops::Deref for Core {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Core {
    /// The server's time, as well as this process knows it.
    pub(crate) fn clock_now(&self) -> Timestamp {
        match &self.options.clock {
            Some(clock) => clock.now(),
            None => self.server_clock.now(),
        }
    }
}

impl Core {
    /// Whether another store hands out its jobs, as far as known.
    fn is_dispatched(&self) -> bool {
        self.options.dispatched || self.queues.known().dispatched
    }

    /// Who tells the dispatcher of jobs that an enqueue stores.
    fn enqueuer_tells(&self) -> Tells {
        if self.options.dispatched { Tells::Enqueuer } else { self.tells() }
    }

    /// The same of jobs that come otherwise.
    pub(crate) fn tells(&self) -> Tells {
        if self.is_dispatched() { Tells::Loader } else { Tells::Enqueuer }
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.core.options.location())
    }
}

impl PostgresStore {
    /// Connects to a database, and brings its schema up to date.
    pub async fn open(options: Options) -> StoreResult<Self> {
        let sessions = Sessions::connect(&options).await?;
        sessions.within(Patience::Long, schema::migrate(&sessions, &options.schema)).await?;
        sessions.clone().within(Patience::Usual, Self::look_around(sessions, options)).await
    }

    /// Reads what every process knows of its database.
    async fn look_around(sessions: Sessions, options: Options) -> StoreResult<Self> {
        let error = |error| sessions.error(error);
        let mut unit = sessions.single().await.map_err(error)?;
        let version: String = sqlx::query_scalar("select current_setting('server_version')")
            .fetch_one(&mut *unit)
            .await
            .map_err(error)?;
        let database = session::database(&mut unit).await.map_err(error)?;
        let database = format!("{database}-{}", options.schema);
        let (days, lanes, queues) = (Days::default(), Lanes::default(), Queues::default());
        let server_clock = ServerClock::new();
        days.refresh(&mut unit).await.map_err(error)?;
        lanes.refresh(&mut unit).await.map_err(error)?;
        queues.refresh(&mut unit).await.map_err(error)?;
        server_clock.measure(&mut unit).await.map_err(error)?;
        unit.done().await.map_err(error)?;
        let hints = Hints::start(&sessions, &options.schema, !options.transaction_pooler);
        let (outlook, upkeep) = (ScanBounds::new(), Maintenance::new());
        let core = Core(Arc::new(Inner {
            options,
            sessions,
            version,
            database,
            days,
            lanes,
            queues,
            outlook,
            hints,
            server_clock,
            upkeep,
        }));
        match maintenance::make_days(&core, Effort::Low).await {
            // It can be read all the same, and partitions are made once it can be written.
            Err(refused) if error::is_read_only(&refused) => {}
            made => drop(made.map_err(|error| core.sessions.error(error))?),
        }
        let enqueuer = core.clone();
        let enqueues = Batcher::new(Arc::new(move |jobs| {
            let core = enqueuer.clone();
            Box::pin(async move { enqueue::enqueue_in_time(&core, &jobs).await })
        }));
        Ok(Self { core, enqueues: Arc::new(enqueues) })
    }

    /// Stores jobs within a transaction of the caller's own, on the caller's own connection to the same database: they
    /// exist if and only if that transaction commits. After an error the transaction goes on as it was before the call.
    ///
    /// The jobs must have been checked, as the client's `enqueue_in` does.
    pub async fn enqueue_in(&self, connection: &mut PgConnection, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        enqueue::prepare(&self.core, jobs).await?;
        let error = |error| self.core.sessions.error(error);
        let mut guest = session::Guest::enter(connection, &self.core.options).await.map_err(error)?;
        let enqueued = loop {
            let how = enqueue::How { ids: enqueue::Ids::Unknown, tells: self.core.tells() };
            let connection = guest.connection();
            let enqueued = match enqueue::enqueue_in(&self.core, connection, jobs, how).await {
                Ok(enqueued) => {
                    self.core.hints.tell_in(connection, self.core.sessions.clock()).await.map(|()| enqueued)
                }
                Err(error) => Err(error),
            };
            if !guest.again(&enqueued).await.map_err(error)? {
                break guest.leave(enqueued).await.map_err(error)?;
            }
        };
        Ok(enqueued.into_iter().map(|stored| stored.enqueued).collect())
    }

    /// Ends executions within a transaction of the caller's own, so that a handler's effects and its job's end are one.
    pub async fn settle_in(
        &self,
        connection: &mut PgConnection,
        settlements: &[Settlement],
    ) -> StoreResult<Vec<Settled>> {
        let error = |error| self.core.sessions.error(error);
        let mut guest = session::Guest::enter(connection, &self.core.options).await.map_err(error)?;
        loop {
            let connection = guest.connection();
            let settled = match settle::settle_in(connection, self.core.sessions.clock(), settlements).await {
                Ok(settled) => self.core.hints.tell_in(connection, self.core.sessions.clock()).await.map(|()| settled),
                Err(error) => Err(error),
            };
            if !guest.again(&settled).await.map_err(error)? {
                return guest.leave(settled).await.map_err(error);
            }
        }
    }

    /// The answer of the server, if it comes in time.
    async fn answer<T>(&self, patience: Patience, work: impl Future<Output = sqlx::Result<T>>) -> StoreResult<T> {
        let sessions = &self.core.sessions;
        sessions.within(patience, async { work.await.map_err(|error| sessions.error(error)) }).await
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        Ok(PrimaryStore::store(self, jobs).await?.into_iter().map(|stored| stored.enqueued).collect())
    }

    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
        self.core.sessions.within(Patience::Usual, change::change(&self.core, &changes)).await
    }
}

#[async_trait]
impl ClaimStore for PostgresStore {
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        claim::claim(&self.core, request).await
    }

    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.answer(Patience::Short, settle::confirm(&self.core, worker, &attempts)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.core.sessions.within(Patience::Short, settle::settle(&self.core, settlements)).await
    }

    async fn share_claims(&self, _attempts: Vec<AttemptId>) -> StoreResult<()> {
        Ok(())
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        self.answer(Patience::Short, claim::claims_of(&self.core, worker, limit)).await
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.answer(Patience::Short, settle::extend(&self.core, worker, lease, &attempts)).await
    }

    async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.answer(Patience::Short, settle::held(&self.core, worker, &attempts)).await
    }

    async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.answer(Patience::Short, gates::slots::release(&self.core, worker, &attempts)).await
    }

    async fn report_progress(&self, notes: Vec<ProgressReport>) -> StoreResult<()> {
        self.answer(Patience::Short, settle::note(&self.core, &notes)).await
    }

    async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>> {
        let (claims, corrupt) = self.answer(Patience::Short, claim::expired(&self.core, limit)).await?;
        claim::give_back(&self.core, corrupt).await;
        Ok(claims)
    }

    async fn promote(&self, limit: usize) -> StoreResult<usize> {
        self.core.sessions.within(Patience::Short, claim::promote(&self.core, limit)).await
    }
}

#[async_trait]
impl JobReader for PostgresStore {
    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        self.answer(Patience::Short, read::get(&self.core, id)).await
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        self.core.sessions.within(Patience::Usual, list::list(&self.core, &filter, &page)).await
    }

    async fn attempts(&self, job: JobId) -> StoreResult<Vec<Attempt>> {
        self.answer(Patience::Usual, read::attempts(&self.core, job)).await
    }

    async fn events(&self, job: JobId) -> StoreResult<Vec<Event>> {
        self.answer(Patience::Usual, read::events(&self.core, job)).await
    }

    async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes> {
        self.core.sessions.within(Patience::Usual, changes::changes(&self.core, since.as_deref(), limit)).await
    }

    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
        self.answer(Patience::Usual, read::logs(&self.core, job, limit)).await
    }

    async fn counts(&self) -> StoreResult<Vec<Count>> {
        self.answer(Patience::Usual, read::counts(&self.core)).await
    }

    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
        self.answer(Patience::Usual, read::pending_by_user(&self.core, limit)).await
    }

    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
        self.answer(Patience::Usual, read::dead_by_name(&self.core, since, until)).await
    }

    async fn tallies(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Tally>> {
        self.answer(Patience::Usual, read::tallies(&self.core, since, until)).await
    }
}

#[async_trait]
impl FlowStore for PostgresStore {
    async fn submit(&self, workflow: NewWorkflow, jobs: Vec<NewJob>) -> StoreResult<()> {
        self.core.sessions.within(Patience::Usual, workflows::submit(&self.core, &workflow, &jobs)).await
    }

    async fn resubmit(&self, changes: Vec<Change>, jobs: Vec<NewJob>) -> StoreResult<Vec<Changed>> {
        self.core.sessions.within(Patience::Usual, workflows::resubmit(&self.core, &changes, &jobs)).await
    }

    async fn workflow(&self, id: WorkflowId) -> StoreResult<Option<Workflow>> {
        self.answer(Patience::Usual, workflows::workflow(&self.core, id)).await
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> StoreResult<Vec<Workflow>> {
        self.answer(Patience::Usual, workflows::workflows(&self.core, before, limit)).await
    }

    async fn nodes(&self, workflow: WorkflowId) -> StoreResult<Vec<Node>> {
        self.answer(Patience::Usual, workflows::nodes(&self.core, workflow)).await
    }

    async fn parents(&self, job: JobId) -> StoreResult<Vec<Relative>> {
        self.answer(Patience::Usual, workflows::parents(&self.core, job)).await
    }

    async fn children(&self, job: JobId, limit: usize) -> StoreResult<Vec<Relative>> {
        self.answer(Patience::Usual, workflows::children(&self.core, job, limit)).await
    }

    async fn results(&self, jobs: Vec<JobId>) -> StoreResult<Vec<(JobId, Json)>> {
        self.answer(Patience::Usual, workflows::results(&self.core, &jobs)).await
    }
}

#[async_trait]
impl ScheduleStore for PostgresStore {
    async fn schedules(&self, after: Option<String>, limit: usize) -> StoreResult<Vec<Schedule>> {
        self.answer(Patience::Usual, schedules::schedules(&self.core, &after.unwrap_or_default(), limit)).await
    }

    async fn schedule(&self, name: String) -> StoreResult<Option<Schedule>> {
        self.answer(Patience::Usual, schedules::schedule(&self.core, &name)).await
    }

    async fn upcoming(
        &self,
        after: Option<(Timestamp, String)>,
        until: Timestamp,
        limit: usize,
    ) -> StoreResult<Vec<Schedule>> {
        self.answer(Patience::Usual, schedules::upcoming(&self.core, after.unwrap_or_default(), until, limit)).await
    }

    async fn save_schedules(&self, saves: Vec<ScheduleSave>) -> StoreResult<Vec<bool>> {
        self.core.sessions.within(Patience::Usual, schedules::save(&self.core, &saves)).await
    }

    async fn remove_schedule(&self, name: String, actor: String) -> StoreResult<bool> {
        self.answer(Patience::Usual, schedules::remove(&self.core, &name, &actor)).await
    }

    async fn schedule_events(&self, name: String, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
        self.answer(Patience::Usual, schedules::events(&self.core, &name, limit)).await
    }
}

#[async_trait]
impl QueueStore for PostgresStore {
    async fn queues(&self) -> StoreResult<Vec<Queue>> {
        self.answer(Patience::Short, queues::queues(&self.core)).await
    }

    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
        self.answer(Patience::Usual, queues::save(&self.core, &save)).await
    }

    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
        self.answer(Patience::Usual, queues::events(&self.core, &name, limit)).await
    }

    async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage> {
        self.answer(Patience::Usual, gates::passed(&self.core, &queue, key.as_deref())).await
    }

    async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>> {
        self.answer(Patience::Usual, gates::slots::occupied(&self.core, &queue)).await
    }
}

#[async_trait]
impl WorkerStore for PostgresStore {
    async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<()> {
        self.answer(Patience::Short, registry::beat(&self.core, &beat)).await
    }

    async fn deregister(&self, worker: WorkerId) -> StoreResult<()> {
        self.answer(Patience::Short, registry::leave(&self.core, worker)).await
    }

    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
        self.answer(Patience::Short, registry::end_leases(&self.core, worker)).await
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        self.answer(Patience::Usual, registry::workers(&self.core)).await
    }
}

#[async_trait]
impl LockStore for PostgresStore {
    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
        self.answer(Patience::Short, registry::lock(&self.core, name, owner, ttl)).await
    }

    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
        self.answer(Patience::Short, registry::extend_lock(&self.core, &name, &owner, ttl)).await
    }

    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
        self.answer(Patience::Short, registry::unlock(&self.core, &name, &owner)).await
    }

    async fn locks(&self) -> StoreResult<Vec<Lock>> {
        self.answer(Patience::Usual, registry::locks(&self.core)).await
    }
}

#[async_trait]
impl NotificationStore for PostgresStore {
    async fn notify(&self, messages: Vec<NewNotification>) -> StoreResult<Vec<Notification>> {
        self.answer(Patience::Short, notifications::notify(&self.core, &messages)).await
    }

    async fn notifications(&self, user: Option<String>, after: u64, limit: usize) -> StoreResult<Vec<Notification>> {
        self.answer(Patience::Usual, notifications::list(&self.core, user.as_deref(), after, limit)).await
    }

    async fn last_notification(&self) -> StoreResult<u64> {
        self.answer(Patience::Short, notifications::last(&self.core)).await
    }

    async fn drop_notifications(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, notifications::drop(&self.core, after, limit)).await
    }
}

#[async_trait]
impl TokenStore for PostgresStore {
    async fn add_token(&self, token: Token) -> StoreResult<()> {
        self.answer(Patience::Usual, tokens::add(&self.core, &token)).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.answer(Patience::Short, tokens::list(&self.core)).await
    }

    async fn remove_token(&self, id: TokenId) -> StoreResult<bool> {
        self.answer(Patience::Usual, tokens::remove(&self.core, id)).await
    }

    async fn clear_tokens(&self) -> StoreResult<()> {
        self.answer(Patience::Short, tokens::clear(&self.core)).await
    }

    async fn idempotent_request(
        &self,
        key: String,
        fingerprint: [u8; 32],
        seed: u64,
    ) -> StoreResult<IdempotentRequest> {
        self.answer(Patience::Short, tokens::once(&self.core, &key, fingerprint, seed)).await
    }
}

#[async_trait]
impl TransferStore for PostgresStore {
    async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>> {
        self.answer(Patience::Usual, import::dependencies(&self.core, &children)).await
    }

    async fn import(&self, parcel: ExportBatch) -> StoreResult<usize> {
        self.core.sessions.within(Patience::Long, import::import(&self.core, &parcel)).await
    }
}

#[async_trait]
impl RetentionStore for PostgresStore {
    async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, change::retire(&self.core, keep, limit)).await
    }

    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, change::purge(&self.core, after, limit)).await
    }

    async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, change::trim(&self.core, after, limit)).await
    }

    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        self.answer(Patience::Long, change::drop_ephemeral(&self.core, before, limit)).await
    }

    async fn drop_partitions(&self, keep: RetentionPolicy, deleted: Duration) -> StoreResult<usize> {
        self.answer(Patience::Long, partition_retention::drop_days(&self.core, keep, deleted)).await
    }
}

#[async_trait]
impl EngineStore for PostgresStore {
    fn info(&self) -> StoreInfo {
        let location = self.core.options.location();
        StoreInfo { engine: "postgres", version: self.core.version.clone(), location }
    }

    fn now(&self) -> Timestamp {
        self.core.clock_now()
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(self.core.hints.jobs.listen())
    }

    fn wake_claims(&self) {
        self.core.hints.hurry.wake();
    }

    async fn maintain(&self) -> StoreResult<()> {
        self.answer(Patience::Long, maintenance::maintain(&self.core)).await
    }

    async fn metrics(&self) -> StoreResult<Vec<Metric>> {
        Ok(self.core.sessions.metrics())
    }

    async fn schema(&self) -> StoreResult<Schema> {
        let read = async {
            let mut unit = self.core.sessions.single().await?;
            let schema = schema::read(&mut unit).await?;
            unit.done().await?;
            Ok(schema)
        };
        self.answer(Patience::Usual, read).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        self.answer(Patience::Long, examine::examine(&self.core)).await
    }
}
