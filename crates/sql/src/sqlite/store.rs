//! The store: opening it, and the ports.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::ClockStep;
use rusqlite::Connection;

use super::{
    clock, connection, db::SqliteDb, diagnostics, error::store_error, health::Health, operation::Durability,
    options::Options, reader::Readers, schema, writer::Writer,
};
use crate::{
    db::Db,
    ops::{
        store::{names::*, store_by_operations},
        tx::Tx,
    },
    wakes::Wakes,
};

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
    /// Opens a file, creates it if necessary and allowed, and migrates its schema.
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
