//! The embedded engine: one SQLite file, one writer per process, any number of processes.
//!
//! | question | file |
//! |---|---|
//! | which tables are there? | `migrations/` |
//! | which statements? | `sql/`, by `statements` |
//! | how are they run? | `db` |
//! | what do operations do? | `../ops/` |
//! | how do they share a commit? | `writer`, `writer_thread`, `operation` |
//! | when is a commit on disk? | `flush`, `checkpoint`; if the disk fails: `health` |
//! | clock steps | `clock` |
//! | what does `punctual doctor` check? | `diagnostics` |
//! | connections, their URL, and reads beside the writer | `connection`, `url`, `reader` |
//! | how is the file brought to this build's schema? | `schema` |
//! | how are errors mapped? | `error` |
//! | are all statements served by an index? | `plans` |

mod checkpoint;
mod clock;
mod connection;
mod db;
mod diagnostics;
mod error;
mod flush;
mod health;
mod operation;
mod reader;
mod schema;
mod statements;
mod url;
mod writer;
mod writer_thread;

#[cfg(test)]
mod plans;

/// Every statement with its name, for tests of the other engines.
#[cfg(all(test, any(feature = "postgres", feature = "sqlserver")))]
pub(crate) const fn texts() -> &'static [(&'static str, &'static str)] {
    statements::ALL
}

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::ClockStep;
pub use rusqlite;
use rusqlite::Connection;

pub use self::schema::MIGRATIONS;
use self::{
    clock::MachineClock, db::SqliteDb, error::store_error, health::Health, operation::Durability, reader::Readers,
    writer::Writer,
};
use crate::{
    db::Db,
    ops::{
        finish::finish,
        store::{names::*, store_by_operations},
        tx::Tx,
    },
    wakes::Wakes,
};

/// How a SQLite file is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The file. It is created if it does not exist.
    pub path: PathBuf,
    /// When a commit counts as durable.
    pub synchronous: Synchronous,
    /// Where the time comes from: the machine's clock, unless a test sets its own.
    pub clock: Arc<dyn Clock>,
}

/// When a commit counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Once it is on disk: survives a power failure. The default.
    #[default]
    Full,
    /// Once the operating system has it: survives a crash of the process, not a power failure.
    Normal,
}

impl Options {
    /// The file at `path`, durable, with the machine's clock.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), synchronous: Synchronous::default(), clock: Arc::new(MachineClock::new()) }
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

/// A job store in a SQLite file.
#[derive(Clone)]
pub struct SqliteStore {
    options: Options,
    wakes: Wakes,
    readers: Arc<Readers>,
    writer: Arc<Writer>,
    health: Health,
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.options.path.display())
    }
}

impl SqliteStore {
    /// Opens a file, creates it if necessary, and migrates its schema.
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
        let health = Health::new(&options.path);
        let writer = Writer::start(connection, &options, wakes.clone(), health.clone())?;
        let readers = Arc::new(Readers::new(options.clone()));
        Ok(Self { options, wakes, readers, writer: Arc::new(writer), health })
    }

    async fn read<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: FnOnce(&dyn Db) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.readers.call(move |connection| work(&SqliteDb::new(connection))).await
    }

    async fn write<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.call(Durability::Now, 1, work).await
    }

    /// A write of about `rows` rows.
    async fn write_many<F, T>(&self, rows: usize, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.call(Durability::Now, rows, work).await
    }

    /// A write that a power failure may undo; see [`Durability::Soon`].
    async fn write_soon<F, T>(&self, work: F) -> StoreResult<T>
    where
        F: Fn(&mut Tx<'_>) -> StoreResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.call(Durability::Soon, 1, work).await
    }
}

/// Stores jobs within the caller's transaction, on the caller's connection to the same file: they exist if and only if
/// that transaction commits. Workers of other connections notice within milliseconds.
///
/// The jobs must have been validated, as the client's `enqueue_in` does.
pub fn enqueue_in(connection: &Connection, now: Timestamp, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    within(connection, now, |tx| enqueue::enqueue(tx, jobs))
}

/// The queues, as visible to the caller's transaction.
pub fn queues_in(connection: &Connection) -> StoreResult<Vec<Queue>> {
    queues::queues(&SqliteDb::new(connection))
}

/// Runs `work` within the caller's transaction, in a savepoint that is rolled back if it fails.
fn within<T>(
    connection: &Connection,
    now: Timestamp,
    work: impl FnOnce(&mut Tx<'_>) -> StoreResult<T>,
) -> StoreResult<T> {
    let run = |text| connection.execute_batch(text).map_err(error::store_error);
    run("savepoint punctual")?;
    let db = SqliteDb::new(connection);
    let mut tx = Tx::new(&db, now);
    let done = work(&mut tx).and_then(|done| finish(&mut tx).map(|()| done)).and_then(|done| {
        run("release punctual")?;
        Ok(done)
    });
    if done.is_err() {
        // Some errors have already rolled back the caller's transaction; then nothing is left to undo.
        let _ = run("rollback to punctual; release punctual");
    }
    done
}

/// Settles executions within the caller's transaction, so that a handler's effects and the end of its job commit
/// together.
pub fn settle_in(connection: &Connection, now: Timestamp, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
    within(connection, now, |tx| settle::settle(tx, settlements))
}

impl SqliteStore {
    /// Claims jobs, or waits for some up to the request's `wait`.
    async fn claim_or_wait(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        self.writer.claim(request, &self.readers).await
    }
}

store_by_operations!(SqliteStore);

#[async_trait]
impl EngineStore for SqliteStore {
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

    fn wake_claims(&self) {
        self.writer.wake_claims();
    }

    fn renewal_grace(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn failed(&self) -> StoreError {
        self.health.failed().await
    }

    async fn clock_step(&self) -> StoreResult<Option<ClockStep>> {
        let clock = Arc::clone(&self.options.clock);
        self.readers.call(move |connection| clock::last_step(connection, &*clock).map_err(store_error)).await
    }

    async fn schema(&self) -> StoreResult<Schema> {
        self.readers.call(schema::read).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        let options = self.options.clone();
        let check = move |connection: &Connection| diagnostics::check(connection, &options);
        self.readers.call(check).await
    }
}
