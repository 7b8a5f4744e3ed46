//! Reads, each on a connection of its own, concurrent with the writer.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::StoreError;
use rusqlite::Connection;
use tokio::{sync::Semaphore, task};

use super::{connection, error::store_error, options::Options};

/// Maximum number of concurrent reads; further ones wait.
const READERS_MAX_COUNT: usize = 4;

/// Open idle connections.
#[derive(Debug)]
pub(crate) struct Readers {
    options: Options,
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, turns: Arc::new(Semaphore::new(READERS_MAX_COUNT)), idle: Arc::default() }
    }

    /// Runs `work` with a connection on a blocking thread. All of `work` sees the same snapshot.
    pub(crate) async fn call<F, T>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let (idle, options) = (Arc::clone(&self.idle), self.options.clone());
        let read = move || {
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = kept.map_or_else(|| connection::open_reader(&options), Ok)?;
            let result = connection.unchecked_transaction().map_err(store_error).and_then(|snapshot| work(&snapshot));
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            // The permit is held until the read ends, even if the caller has stopped waiting.
            drop(turn);
            result
        };
        task::spawn_blocking(read).await.map_err(|error| StoreError::Other(format!("a read broke off: {error}")))?
    }
}
