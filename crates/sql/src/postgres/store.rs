//! The store: opening it, operations within applications' transactions, and the operations of the hot path.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::{
    AttemptId, Change, Changed, Claim, ClaimRequest, Claimed, Enqueued, NewJob, ProgressReport, Settled, Settlement,
    StoreResult, WorkerId, dispatch::Stored, store::ports::*,
};
use sqlx::PgConnection;

use super::{
    batcher::Batcher,
    change,
    claim::{self, lanes::Lanes, promote, scan_bounds::ScanBounds},
    clock::ServerClock,
    core::{Core, Inner},
    enqueue::{self, Enqueue, Ids},
    error,
    guest::Guest,
    leases, maintenance,
    maintenance_state::Maintenance,
    options::Options,
    partition_creation::Effort,
    partitions::Days,
    queue_limits,
    queues::Queues,
    schema, server,
    session::{Patience, Sessions},
    settle,
    wake::Hints,
};

/// A store of jobs in a PostgreSQL database.
#[derive(Clone)]
pub struct PostgresStore {
    pub(super) core: Core,
    enqueues: Arc<Batcher<NewJob, Stored>>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.core.options.location())
    }
}

impl PostgresStore {
    /// Connects to a database, and migrates its schema.
    pub async fn open(options: Options) -> StoreResult<Self> {
        let sessions = Sessions::connect(&options).await?;
        sessions.within(Patience::Long, schema::migrate(&sessions, &options.schema, schema::MIGRATIONS)).await?;
        sessions.clone().within(Patience::Usual, Self::load(sessions, options)).await
    }

    /// Reads the state that every process caches.
    async fn load(sessions: Sessions, options: Options) -> StoreResult<Self> {
        let error = |error| sessions.error(error);
        let mut unit = sessions.single().await.map_err(error)?;
        let version: String = sqlx::query_scalar("select current_setting('server_version')")
            .fetch_one(&mut *unit)
            .await
            .map_err(error)?;
        let database = server::database(&mut unit).await.map_err(error)?;
        let database = format!("{database}-{}", options.schema);
        let (days, lanes, queues) = (Days::default(), Lanes::default(), Queues::default());
        let server_clock = ServerClock::new();
        days.refresh(&mut unit).await.map_err(error)?;
        lanes.refresh(&mut unit).await.map_err(error)?;
        queues.refresh(&mut unit).await.map_err(error)?;
        server_clock.measure(&mut unit).await.map_err(error)?;
        unit.done().await.map_err(error)?;
        let hints = Hints::start(&sessions, &options.schema, !options.transaction_pooler);
        let (scan_bounds, maintenance) = (ScanBounds::new(), Maintenance::new());
        let core = Core(Arc::new(Inner {
            options,
            sessions,
            version,
            database,
            days,
            lanes,
            queues,
            scan_bounds,
            hints,
            server_clock,
            maintenance,
        }));
        match maintenance::make_days(&core, Effort::Low).await {
            // A read-only database can still be read; partitions are created once it is writable.
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

    /// Stores jobs, in one batch with those of other callers where these cannot be affected.
    pub(super) async fn store_jobs(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Stored>> {
        // Not batched: an unknown parent must not fail the jobs of other callers, and changes of other jobs take locks.
        if jobs.iter().any(|job| !job.parents.is_empty() || job.spec.unique().updates()) {
            return enqueue::enqueue_in_time(&self.core, &jobs).await;
        }
        self.enqueues.call(jobs).await
    }

    /// Stores jobs within a transaction of the caller's own, on the caller's own connection to the same database: they
    /// exist if and only if that transaction commits. After an error, the transaction continues in the state before the
    /// call.
    ///
    /// The jobs must have been checked, as the client's `enqueue_in` does.
    pub async fn enqueue_in(&self, connection: &mut PgConnection, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        enqueue::prepare(&self.core, jobs).await?;
        let error = |error| self.core.sessions.error(error);
        let mut guest = Guest::enter(connection, &self.core.options).await.map_err(error)?;
        let enqueued = loop {
            let (store, dispatched_by) = (&self.core, self.core.dispatched_by());
            let enqueue = Enqueue { store, ids: Ids::Unknown, dispatched_by };
            let connection = guest.connection();
            let enqueued = match enqueue.run(connection, jobs).await {
                Ok(enqueued) => {
                    self.core.hints.notify_in(connection, self.core.sessions.clock()).await.map(|()| enqueued)
                }
                Err(error) => Err(error),
            };
            if !guest.again(&enqueued).await.map_err(error)? {
                break guest.leave(enqueued).await.map_err(error)?;
            }
        };
        Ok(enqueued.into_iter().map(|stored| stored.enqueued).collect())
    }

    /// Ends executions within a transaction of the caller's own, so that a handler's effects and its job's end are
    /// atomic.
    pub async fn settle_in(
        &self,
        connection: &mut PgConnection,
        settlements: &[Settlement],
    ) -> StoreResult<Vec<Settled>> {
        let error = |error| self.core.sessions.error(error);
        let mut guest = Guest::enter(connection, &self.core.options).await.map_err(error)?;
        loop {
            let connection = guest.connection();
            let settled = match settle::settle_in(connection, self.core.sessions.clock(), settlements).await {
                Ok(settled) => {
                    self.core.hints.notify_in(connection, self.core.sessions.clock()).await.map(|()| settled)
                }
                Err(error) => Err(error),
            };
            if !guest.again(&settled).await.map_err(error)? {
                return guest.leave(settled).await.map_err(error);
            }
        }
    }

    /// Executes an operation with a timeout for the server.
    pub(super) async fn answer<T>(
        &self,
        patience: Patience,
        work: impl Future<Output = sqlx::Result<T>>,
    ) -> StoreResult<T> {
        let sessions = &self.core.sessions;
        sessions.within(patience, async { work.await.map_err(|error| sessions.error(error)) }).await
    }
}

#[async_trait]
impl JobStore for PostgresStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        Ok(self.store_jobs(jobs).await?.into_iter().map(|stored| stored.enqueued).collect())
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
        self.answer(Patience::Short, leases::confirm(&self.core, worker, &attempts)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.core.sessions.within(Patience::Short, settle::settle(&self.core, settlements)).await
    }

    async fn share_claims(&self, _attempts: Vec<AttemptId>) -> StoreResult<()> {
        Ok(())
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        self.answer(Patience::Short, leases::claims_of(&self.core, worker, limit)).await
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    async fn extend(&self, worker: WorkerId, lease: Duration, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.answer(Patience::Short, leases::extend(&self.core, worker, lease, &attempts)).await
    }

    async fn check_leases(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.answer(Patience::Short, leases::held(&self.core, worker, &attempts)).await
    }

    async fn release_slots(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.answer(Patience::Short, queue_limits::slots::release(&self.core, worker, &attempts)).await
    }

    async fn report_progress(&self, reports: Vec<ProgressReport>) -> StoreResult<()> {
        self.answer(Patience::Short, leases::report_progress(&self.core, &reports)).await
    }

    async fn expired(&self, limit: usize) -> StoreResult<Vec<Claim>> {
        let (claims, corrupt) = self.answer(Patience::Short, leases::expired(&self.core, limit)).await?;
        claim::settle_unreceived(&self.core, corrupt).await;
        Ok(claims)
    }

    async fn promote(&self, limit: usize) -> StoreResult<usize> {
        self.core.sessions.within(Patience::Short, promote::promote(&self.core, limit)).await
    }
}
