//! The store: one state behind a lock, and hints that it has changed.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use punctual_core::{
    Clock, Diagnostic, Schema, StoreInfo, StoreResult, SystemClock, Timestamp, Watch, store::ports::EngineStore,
};
use tokio::sync::watch;

use super::state::{State, Ties};

/// A store that loses its data when it is dropped.
#[derive(Clone)]
pub struct ModelStore {
    pub(super) clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    pub(super) hints: watch::Sender<u64>,
    pub(super) claim_wakeups: watch::Sender<()>,
}

impl fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelStore")
    }
}

impl Default for ModelStore {
    fn default() -> Self {
        Self::new(SystemClock)
    }
}

impl ModelStore {
    /// An empty store that uses `clock`.
    pub fn new(clock: impl Clock) -> Self {
        Self {
            clock: Arc::new(clock),
            state: Arc::default(),
            hints: watch::Sender::new(0),
            claim_wakeups: watch::Sender::new(()),
        }
    }

    /// Sets how ties are decided, if not by arrival.
    #[must_use]
    pub fn ties(self, ties: Ties) -> Self {
        self.state().ties = ties;
        self
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes an operation at one instant, then sends a hint.
    pub(super) fn write<T>(&self, work: impl FnOnce(&mut State, Timestamp) -> T) -> StoreResult<T> {
        let result = work(&mut self.state(), self.clock.now());
        self.hints.send_modify(|count| *count += 1);
        Ok(result)
    }
}

struct Hints(watch::Receiver<u64>);

#[async_trait]
impl Watch for Hints {
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl EngineStore for ModelStore {
    fn info(&self) -> StoreInfo {
        StoreInfo { engine: "model", version: "1".into(), location: "memory".into() }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(Hints(self.hints.subscribe()))
    }

    fn wake_claims(&self) {
        self.claim_wakeups.send_replace(());
    }

    async fn schema(&self) -> StoreResult<Schema> {
        Ok(Schema { version: 1, migrations: Vec::new() })
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        Ok(vec![Diagnostic { check: "memory".into(), ok: true, message: "nothing can be wrong with it".into() }])
    }
}
