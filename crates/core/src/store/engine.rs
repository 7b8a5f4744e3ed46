//! What an engine says of itself, and does for itself.

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

/// The lock that a probe takes, and for how long: it proves a write, and guards nothing.
const PROBE_LOCK: &str = "punctual.probe";
const PROBE_TTL: Duration = Duration::from_millis(1);

/// What layers surround of an engine's own operations.
pub(super) const OPERATIONS: &[&str] = &["maintain", "metrics", "probe", "clock_step", "schema", "check"];

/// What an engine says of itself, and does for itself.
#[async_trait]
pub trait EngineStore: LockStore + Any + Send + Sync + fmt::Debug {
    /// Which engine this is and where its data lies, without secrets.
    fn info(&self) -> StoreInfo;

    /// The store's clock, as well as this process knows it.
    fn now(&self) -> Timestamp;

    /// How long a worker may go without a [`heartbeat`](crate::store::WorkerStore::heartbeat) before it is considered
    /// dead and its leases are ended, in stores that do so before the leases expire.
    fn worker_silence_max(&self) -> Option<Duration> {
        None
    }

    /// Until when an execution may last that was handed out before the store knew of it, unless that is recorded by
    /// then; nothing once it is recorded. From then on the job may be handed out again, so the execution ends by the
    /// worker's own clock. Stores that record each start before they hand out the job have no such executions.
    ///
    /// The answer comes from this process's memory: it must not depend on whether the store can be reached.
    fn unrecorded_until(&self, _attempt: AttemptId) -> Option<Instant> {
        None
    }

    /// A listener for hints that some job may have changed: settled, cancelled, retried. Hints may be missing or
    /// needless; polling is the truth.
    fn watch(&self) -> Box<dyn Watch>;

    /// The claims that wait by way of this store wait no longer, and answer with what they have. Unlike one whose
    /// caller goes, none of them gets anything that has to be given back.
    fn wake_claims(&self);

    /// What the engine needs done for itself, such as partitions for the days ahead. Called about once a second by
    /// every worker; of several, the engine lets one do it.
    async fn maintain(&self) -> StoreResult<()> {
        Ok(())
    }

    /// What the engine counts of itself, for metrics.
    async fn metrics(&self) -> StoreResult<Vec<Metric>> {
        Ok(Vec::new())
    }

    /// How long a lease that has run out is left alone once it was seen and the store has been written since. Zero
    /// where renewals are stored as they come.
    ///
    /// Where all processes wait for one writer, a renewal that was asked for in time may still wait while another
    /// program holds the lock; it counts when its turn comes ([`extend`](crate::store::LeaseStore::extend)). A reaper
    /// therefore looks, writes, waits for that long, and takes only what it has seen both times. So a worker whose own
    /// renewal waits may go on as long as [`check_leases`](crate::store::LeaseStore::check_leases), a read that waits
    /// for nobody, says that the jobs are its own.
    fn renewal_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Proves that the store can be written: one small write, as durable as an enqueue's. Readiness is decided by it.
    async fn probe(&self) -> StoreResult<()> {
        // The owner is the same everywhere, so that the lock is never in anybody's way.
        self.lock(PROBE_LOCK.to_owned(), PROBE_LOCK.to_owned(), PROBE_TTL).await.map(drop)
    }

    /// Waits until the store has failed for good in this process, and says why; see [`StoreError::Failed`]. Most
    /// engines never do.
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
pub struct Metric {
    /// Its name in metrics. One that ends in `_total` only grows.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Of what, if there are several.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Metric {
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
pub struct Diagnostic {
    /// What was looked at.
    pub check: String,
    /// Whether it is well.
    pub ok: bool,
    /// What was seen, and what to do if it is not well.
    pub message: String,
}
