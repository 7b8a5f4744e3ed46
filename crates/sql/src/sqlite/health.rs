//! Whether this process may still rely on its disk.
//!
//! When the disk does not confirm a write, the system may have dropped the pages that it could not write, and the next
//! call succeeds in spite of the gap. This process cannot find out how much of the earlier data is lost. So it
//! acknowledges nothing more, reports the reason, and exits; the next process that opens the file reads what is
//! actually stored.

use std::{fmt, path::Path};

use punctual_core::{StoreError, StoreResult};
use tokio::sync::watch;

/// The state of the disk as known to this process. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    store: String,
    failure: watch::Sender<Option<StoreError>>,
}

impl Health {
    pub(crate) fn new(path: &Path) -> Self {
        Self { store: format!("sqlite:{}", path.display()), failure: watch::Sender::new(None) }
    }

    /// Records that the disk did not confirm a write. Returns the first failure of this process, which is the one to
    /// report.
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

    /// Fails if the disk has failed: nothing may be acknowledged any more.
    pub(crate) fn check(&self) -> StoreResult<()> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits for the failure.
    pub(crate) async fn failed(&self) -> StoreError {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(error)) => error,
            // `self` holds the sender, so the channel is never closed.
            _ => std::future::pending().await,
        }
    }
}
