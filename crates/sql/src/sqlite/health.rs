//! Whether this process may still rely on its disk.
//!
//! When the disk does not confirm a write, the system may have dropped the pages that it could not write, and the next
//! call succeeds over the hole. How much of what was written before is lost, this process cannot find out. So it
//! acknowledges nothing more, says why, and ends; whoever opens the file again reads what is really there.

use std::{fmt, path::Path};

use punctual_core::{StoreError, StoreResult};
use tokio::sync::watch;

/// The state of the disk, as far as this process knows it. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    store: String,
    failure: watch::Sender<Option<StoreError>>,
}

impl Health {
    pub(crate) fn new(path: &Path) -> Self {
        Self { store: format!("sqlite:{}", path.display()), failure: watch::Sender::new(None) }
    }

    /// The disk did not confirm a write. Returns the first failure of this process, which is the one that counts.
    pub(crate) fn fail(&self, cause: impl fmt::Display) -> StoreError {
        let reason = format!("the disk did not confirm a write: {cause}");
        let failure = StoreError::Failed { store: self.store.clone(), reason };
        let first = self.failure.send_if_modified(|kept| {
            let first = kept.is_none();
            kept.get_or_insert_with(|| failure.clone());
            first
        });
        if first {
            tracing::error!(error = %failure, "the store failed; nothing more is acknowledged");
        }
        self.failure.borrow().clone().unwrap_or(failure)
    }

    /// Refuses what may not be acknowledged any more.
    pub(crate) fn check(&self) -> StoreResult<()> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits for the failure.
    pub(crate) async fn failed(&self) -> StoreError {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(error)) => error,
            // This end keeps the channel open, so that it is never closed.
            _ => std::future::pending().await,
        }
    }
}
