//! Wake-up hints to waiting tasks within the process.

use async_trait::async_trait;
use punctual_core::Watch;
use tokio::sync::watch;

/// Counts hints; each listener is notified when the count changes.
#[derive(Debug, Clone)]
pub(crate) struct Wakes(watch::Sender<u64>);

impl Wakes {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    pub(crate) fn wake(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn has_listeners(&self) -> bool {
        self.0.receiver_count() > 0
    }
}

/// One listener.
#[derive(Debug)]
pub(crate) struct Listener(watch::Receiver<u64>);

#[async_trait]
impl Watch for Listener {
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The store was dropped: no further hint will arrive.
            std::future::pending::<()>().await;
        }
    }
}
