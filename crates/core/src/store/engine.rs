//! The engine itself: its properties, maintenance and health.

use std::{
    any::Any,
    fmt,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde::Serialize;

use crate::{
    AttemptId, ClockStep, StoreError, Timestamp,
    store::{Layer, LockStore, PassOn, StoreResult},
};

/// The lock that a probe acquires, and its duration: acquiring it proves a write, and the lock protects nothing.
const PROBE_LOCK: &str = "punctual.probe";
const PROBE_TTL: Duration = Duration::from_millis(1);

/// The operations of this trait that layers wrap.
pub(super) const OPERATIONS: &[&str] = &["maintain", "metrics", "probe", "clock_step", "schema", "check"];

/// The engine itself: its properties, maintenance and health.
#[async_trait]
pub trait EngineStore: LockStore + Any + Send + Sync + fmt::Debug {
    /// The engine, and the location of its data, without secrets.
    fn info(&self) -> StoreInfo;

    /// The current time of the store's clock, as precisely as this process knows it.
    fn now(&self) -> Timestamp;

    /// The maximum time without a [`heartbeat`](crate::store::WorkerStore::heartbeat) before a worker is considered
    /// dead and its leases are ended, in stores that do so before the leases expire.
    fn worker_silence_max(&self) -> Option<Duration> {
        None
    }

    /// The deadline of an execution that was handed out before the store recorded it; nothing once it is recorded.
    /// After the deadline the job may be handed out again, so the execution must end by then, by the worker's own
    /// clock. Stores that record each start before they hand out the job have no such executions.
    ///
    /// The answer comes from the memory of this process: it must not depend on whether the store can be reached.
    fn unrecorded_until(&self, _attempt: AttemptId) -> Option<Instant> {
        None
    }

    /// A listener for hints that some job may have changed: settled, cancelled, retried. Hints may be missing or
    /// redundant; polling is authoritative.
    fn watch(&self) -> Box<dyn Watch>;

    /// Ends the wait of all claims that wait through this store; they return what they have. Unlike a claim that is
    /// abandoned by its caller, none of them receives jobs that have to be returned.
    fn wake_claims(&self);

    /// Periodic maintenance of the engine, such as creating partitions for the days ahead. Called about once per second
    /// by every worker; the engine lets only one of them do the work.
    async fn maintain(&self) -> StoreResult<()> {
        Ok(())
    }

    /// Metrics of the engine.
    async fn metrics(&self) -> StoreResult<Vec<Metric>> {
        Ok(Vec::new())
    }

    /// The grace period of an expired lease, counted from when it was detected and the store has been written since.
    /// Zero where renewals are stored immediately.
    ///
    /// Where all processes wait for a single writer, a renewal that was requested in time may be delayed while another
    /// program holds the lock; it is valid when it is executed ([`extend`](crate::store::LeaseStore::extend)). A reaper
    /// therefore reads, writes, waits for this time, and takes only claims that it has found both times. So a worker
    /// whose own renewal is delayed may continue as long as [`check_leases`](crate::store::LeaseStore::check_leases), a
    /// read that does not wait for the writer, confirms that it still holds the jobs.
    fn renewal_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Proves that the store is writable: one small write, as durable as an enqueue. Readiness depends on it.
    async fn probe(&self) -> StoreResult<()> {
        // The owner is the same in all processes, so that concurrent probes do not block each other.
        self.lock(PROBE_LOCK.to_owned(), PROBE_LOCK.to_owned(), PROBE_TTL).await.map(drop)
    }

    /// Waits until the store has failed permanently in this process, and returns the reason; see
    /// [`StoreError::Failed`]. Most engines never do.
    async fn failed(&self) -> StoreError {
        std::future::pending().await
    }

    /// The last time that the store's clock was set, for engines that use the machine's clock.
    async fn clock_step(&self) -> StoreResult<Option<ClockStep>> {
        Ok(None)
    }

    /// The version of the schema and the applied migrations.
    async fn schema(&self) -> StoreResult<Schema>;

    /// Checks for damage and bad settings. May take long.
    async fn check(&self) -> StoreResult<Vec<Diagnostic>>;
}

#[async_trait]
impl<L: Layer + PassOn<dyn EngineStore> + LockStore + fmt::Debug + 'static> EngineStore for L {
    fn info(&self) -> StoreInfo {
        self.inner().info()
    }

    fn now(&self) -> Timestamp {
        self.inner().now()
    }

    fn worker_silence_max(&self) -> Option<Duration> {
        self.inner().worker_silence_max()
    }

    fn unrecorded_until(&self, attempt: AttemptId) -> Option<Instant> {
        self.inner().unrecorded_until(attempt)
    }

    fn watch(&self) -> Box<dyn Watch> {
        self.inner().watch()
    }

    fn wake_claims(&self) {
        self.inner().wake_claims();
    }

    async fn maintain(&self) -> StoreResult<()> {
        self.around("maintain", self.inner().maintain()).await
    }

    async fn metrics(&self) -> StoreResult<Vec<Metric>> {
        self.around("metrics", self.inner().metrics()).await
    }

    fn renewal_grace(&self) -> Duration {
        self.inner().renewal_grace()
    }

    async fn probe(&self) -> StoreResult<()> {
        self.around("probe", self.inner().probe()).await
    }

    async fn failed(&self) -> StoreError {
        self.inner().failed().await
    }

    async fn clock_step(&self) -> StoreResult<Option<ClockStep>> {
        self.around("clock_step", self.inner().clock_step()).await
    }

    async fn schema(&self) -> StoreResult<Schema> {
        self.around("schema", self.inner().schema()).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        self.around("check", self.inner().check()).await
    }
}

/// The engine of a store, and the location of its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoreInfo {
    /// `sqlite`, `postgres`, ….
    pub engine: &'static str,
    /// The engine's own version.
    pub version: String,
    /// The address, without secrets.
    pub location: String,
}

/// A metric of an engine or a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name. A name that ends in `_total` is a counter, which only grows.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// Its labels, if there are several of the same name.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: f64,
}

impl Metric {
    /// A metric without labels.
    pub const fn new(name: &'static str, about: &'static str, value: f64) -> Self {
        Self { name, about, labels: Vec::new(), value }
    }
}

/// A listener for hints. It records hints from its creation on: create it first, then poll, then wait.
#[async_trait]
pub trait Watch: Send {
    /// Waits for a hint that arrived since the last one was taken.
    async fn changed(&mut self);
}

/// What opening a store may create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// A SQLite file, the schema and all tables, also beside the tables of another program: an application may share
    /// its database.
    #[default]
    Anywhere,
    /// The same, except in a SQLite file that only holds tables of another program.
    InEmpty,
    /// Nothing: the store must exist.
    Nothing,
}

/// The version of a store's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Schema {
    /// The version.
    pub version: u32,
    /// The applied migrations.
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

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The name of the check.
    pub check: String,
    /// Whether the check passed.
    pub ok: bool,
    /// The details, and what to do if it did not pass.
    pub message: String,
}
