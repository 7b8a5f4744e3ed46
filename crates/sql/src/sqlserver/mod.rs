//! The engine for SQL Server 2017 or later, and for servers that are compatible with its protocol and dialect.
//!
//! | question | file |
//! |---|---|
//! | which tables are there? | `migrations/` |
//! | which statements? | `sql/`, a file per noun; `engine.sql` has those of this engine alone; by `statements` |
//! | how are they run? | `db`, on connections of `session`; writes by `write_buffer`; exclusion by `locking` |
//! | how is a connection opened? | `connection` |
//! | how are values converted? | `value` |
//! | how are counters added up? | `rollups` |
//! | what do operations do? | `../ops/` |
//! | how is the URL read? | `url` |
//! | how is the database brought to this build's schema? | `schema` |
//! | how are errors mapped? | `error` |

mod connection;
mod db;
mod error;
mod locking;
mod rollups;
mod schema;
mod session;
mod statements;
mod url;
mod value;
mod write_buffer;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::io::{AsyncRead, AsyncWrite};
use punctual_core::Offer;
pub use tiberius;
use tokio::time::{self, Instant};

pub use self::{connection::Client, schema::MIGRATIONS};
use self::{connection::Patience, rollups::Rollups, session::Sessions};
use crate::{
    db::Db,
    ops::{
        store::{names::*, store_by_operations},
        tx::Tx,
    },
    wakes::Wakes,
};

/// How often a waiting claim checks for jobs of other processes.
const POLL: Duration = Duration::from_millis(100);

/// Rollups of older hours are already merged.
const ROLLUPS_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How to connect to a database.
#[derive(Clone)]
pub struct Options {
    config: tiberius::Config,
    /// The URL without secrets.
    location: String,
    max_connections: usize,
    connect_timeout: Duration,
    /// How long a short operation (enqueue, claim, settle, renewal of leases) waits for the server's answer. Each
    /// statement of the other operations may in addition wait for a lock, and those of a migration ten times as long.
    answer_timeout: Duration,
    /// Where the time comes from: the server's clock, unless a test sets its own.
    clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// Options for another database of the same server.
    #[must_use]
    pub fn in_database(&self, name: &str) -> Self {
        let mut options = self.clone();
        options.config.database(name);
        options.location = format!("{}/{name}", self.location.rsplit_once('/').map_or("", |(server, _)| server));
        options
    }

    /// Opens a connection for the caller's own use, such as for transactions in which jobs are enqueued.
    pub async fn connect(&self) -> StoreResult<Client> {
        connection::open(self, Patience::Usual).await
    }

    /// Runs a statement on a connection of its own, for example to create a database.
    pub async fn run(&self, text: &str) -> StoreResult<()> {
        let mut client = self.connect().await?;
        let done = async { client.simple_query(text).await?.into_results().await };
        done.await.map(drop).map_err(|error| error::store_error(&self.location, &error))
    }

    /// Drops a database of this server, even if it has open connections.
    pub async fn drop_database(&self, name: &str) -> StoreResult<()> {
        // Not every server supports this statement; a server that needs it and does not support it rejects the drop.
        let _ = self.run(&format!("alter database {name} set single_user with rollback immediate")).await;
        self.run(&format!("drop database {name}")).await
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("location", &self.location).finish_non_exhaustive()
    }
}

/// A job store in SQL Server.
#[derive(Clone)]
pub struct SqlServerStore {
    options: Options,
    version: String,
    sessions: Arc<Sessions>,
    rollups: Arc<Rollups>,
    /// Notified of changes to jobs, of jobs to claim, and of claims that must stop waiting.
    jobs: Wakes,
    work: Wakes,
    claim_wakes: Wakes,
}

impl fmt::Debug for SqlServerStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqlServerStore({})", self.options.location)
    }
}

impl SqlServerStore {
    /// Connects, and migrates the schema.
    pub async fn open(options: Options) -> StoreResult<Self> {
        let sessions = Sessions::new(options.clone());
        let mut client = sessions.open(Patience::Long).await?;
        schema::migrate(&mut client, &options.location).await?;
        let version = connection::version(&mut client, &options.location).await?;
        Ok(Self {
            options,
            version,
            sessions: Arc::new(sessions),
            rollups: Arc::default(),
            jobs: Wakes::new(),
            work: Wakes::new(),
            claim_wakes: Wakes::new(),
        })
    }

    async fn read<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&dyn Db) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.sessions.read(work).await
    }

    async fn write<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.write_as(false, work).await
    }

    async fn write_many<F, T>(&self, _: usize, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.write_as(true, work).await
    }

    async fn write_soon<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        self.write_as(true, work).await
    }

    /// Writes, with exclusive access if necessary.
    async fn write_as<F, T>(&self, beside: bool, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let write = self.sessions.write(beside, work);
        // Operations with shared access are those that must finish before leases expire.
        let (done, effects) = if beside { self.sessions.in_time(write).await? } else { write.await? };
        if effects.new_work {
            self.work.wake();
        }
        if effects.jobs_changed {
            self.jobs.wake();
        }
        self.rollups.note();
        Ok(done)
    }

    /// Stores jobs within the caller's transaction, on the caller's connection to the same database: they exist if and
    /// only if that transaction commits. Workers notice within 100 ms.
    ///
    /// The jobs must have been validated, as the client's `enqueue_in` does.
    pub async fn enqueue_in<S>(&self, client: &mut tiberius::Client<S>, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.sessions.write_within(client, move |tx| enqueue::enqueue(tx, &jobs)).await
    }

    /// Settles executions within the caller's transaction, so that a handler's effects and the end of its job commit
    /// together. No other operation can write until that transaction ends.
    pub async fn settle_in<S>(
        &self,
        client: &mut tiberius::Client<S>,
        settlements: Vec<Settlement>,
    ) -> StoreResult<Vec<Settled>>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let settle = move |tx: &mut Tx<'_>| {
            tx.job_db.be_alone()?;
            settle::settle(tx, &settlements)
        };
        self.sessions.write_within(client, settle).await
    }

    /// Whether there may be jobs to claim; checked without a lock.
    async fn may_claim(&self, ahead: Duration) -> StoreResult<bool> {
        self.sessions.in_time(self.sessions.peek(self.now().after(ahead))).await
    }

    /// One attempt to claim, on a task of its own, which releases the jobs if the caller has stopped waiting.
    async fn claim_now(&self, request: &ClaimRequest) -> StoreResult<(Claimed, Option<Timestamp>)> {
        let (caller, answer) = tokio::sync::oneshot::channel();
        let (own, request) = (self.clone(), request.clone());
        tokio::spawn(async move {
            let claimed = own
                .write_as(true, move |tx| {
                    let mut jobs = claim::claim(tx, &request)?;
                    if !jobs.is_read() {
                        jobs.read_within(tx)?;
                    }
                    Ok((jobs.claim_again_at, jobs.releases(), jobs.claimed()))
                })
                .await;
            let runtime = tokio::runtime::Handle::current();
            let release = move |unreceived: StoreResult<(Option<Timestamp>, Vec<Settlement>, Claimed)>| {
                let releases = unreceived.map(|(_, releases, _)| releases).unwrap_or_default();
                if !releases.is_empty() {
                    runtime.spawn(async move { own.settle(releases).await });
                }
            };
            // The caller may stop waiting before or after the result is sent.
            drop(caller.send(Offer::new(claimed, release)));
        });
        let (claim_again_at, _, claimed) = answer.await.ok().and_then(Offer::take).ok_or(StoreError::Closed)??;
        Ok((claimed, claim_again_at))
    }
}

impl SqlServerStore {
    /// Claims jobs, or waits for some up to the request's `wait`.
    async fn claim_or_wait(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        let deadline = Instant::now() + request.wait.min(punctual_core::limits::WAIT_MAX);
        let mut claim_wakes = self.claim_wakes.listen();
        loop {
            let mut work = self.work.listen();
            let (claimed, claim_again_at) = self.claim_now(&request).await?;
            if !claimed.claims.is_empty() || Instant::now() >= deadline {
                return Ok(claimed);
            }
            loop {
                let due = claim_again_at.map_or(POLL, |at| at.since(self.now()));
                let pause = POLL.min(due).min(deadline.saturating_duration_since(Instant::now()));
                tokio::select! {
                    () = work.changed() => break,
                    () = time::sleep(pause) => {}
                    () = claim_wakes.changed() => return Ok(claimed),
                }
                // Other processes may have enqueued jobs.
                if Instant::now() >= deadline || self.may_claim(request.ahead).await? {
                    break;
                }
            }
        }
    }
}

store_by_operations!(SqlServerStore);

#[async_trait]
impl EngineStore for SqlServerStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { engine: "sqlserver", version: self.version.clone(), location: self.options.location.clone() }
    }

    fn now(&self) -> Timestamp {
        self.options.clock.as_ref().map_or_else(|| self.sessions.now(), |clock| clock.now())
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(self.jobs.listen())
    }

    fn wake_claims(&self) {
        self.claim_wakes.wake();
    }

    async fn maintain(&self) -> StoreResult<()> {
        if !self.rollups.are_due() {
            return Ok(());
        }
        self.sessions.add_up(self.now().before(ROLLUPS_AGE_MAX)).await
    }

    async fn schema(&self) -> StoreResult<Schema> {
        schema::read(&mut self.sessions.open(Patience::Usual).await?, &self.options.location).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        self.read(crate::ops::diagnostics::check).await
    }
}
