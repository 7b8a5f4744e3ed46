//! Reads, each on a connection of its own, beside the writer.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::StoreError;
use rusqlite::Connection;
use tokio::{sync::Semaphore, task};

use super::{Options, connection};

/// Reads under way at once; more wait for their turn.
const READERS_MAX_COUNT: usize = 4;

/// Connections that are open and idle.
#[derive(Debug)]
pub(crate) struct Readers {
    options: Options,
    turns: Semaphore,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, turns: Semaphore::new(READERS_MAX_COUNT), idle: Arc::default() }
    }

    /// Reads with a connection, on a thread where blocking is allowed.
    pub(crate) async fn call<F, T>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        T: Send + 'static,
    {
        let _turn = self.turns.acquire().await.map_err(|_| StoreError::Closed)?;
        let (idle, options) = (Arc::clone(&self.idle), self.options.clone());
        let read = move || {
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = kept.map_or_else(|| connection::open_reader(&options), Ok)?;
            let result = work(&connection);
            idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            result
        };
        task::spawn_blocking(read).await.map_err(|error| StoreError::Other(format!("a read broke off: {error}")))?
    }
}
