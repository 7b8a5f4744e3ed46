//! Hints to those who wait, within the process.

use async_trait::async_trait;
use punctual_core::{Topic, Watch};
use tokio::sync::watch;

/// Counts hints; every listener sees that the count has changed.
#[derive(Debug, Clone)]
pub(crate) struct Wakes {
    work: watch::Sender<u64>,
    jobs: watch::Sender<u64>,
}

impl Wakes {
    pub(crate) fn new() -> Self {
        Self { work: watch::Sender::new(0), jobs: watch::Sender::new(0) }
    }

    pub(crate) fn wake(&self, work: bool, jobs: bool) {
        let hint = |sender: &watch::Sender<u64>| sender.send_modify(|count| *count = count.wrapping_add(1));
        if work {
            hint(&self.work);
        }
        if jobs {
            hint(&self.jobs);
        }
    }

    pub(crate) fn listen(&self, topic: Topic) -> Listener {
        Listener(match topic {
            Topic::Work => self.work.subscribe(),
            Topic::Jobs => self.jobs.subscribe(),
        })
    }

    pub(crate) fn anybody_listens(&self) -> bool {
        self.work.receiver_count() + self.jobs.receiver_count() > 0
    }
}

/// One listener.
#[derive(Debug)]
pub(crate) struct Listener(watch::Receiver<u64>);

#[async_trait]
impl Watch for Listener {
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The store is gone: no hint will ever come.
            std::future::pending::<()>().await;
        }
    }
}
