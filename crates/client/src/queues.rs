//! What queues say of their jobs, as this process knows it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::{JobDefaults, Queue, Store, StoreResult};

/// What the jobs of each queue are by default, for queues that say anything.
pub(crate) type QueueDefaults = HashMap<String, JobDefaults>;

/// What queues say of their jobs.
pub(crate) fn defaults(queues: Vec<Queue>) -> QueueDefaults {
    let defaults = queues.into_iter().map(|queue| (queue.name, queue.settings.defaults));
    defaults.filter(|(_, defaults)| *defaults != JobDefaults::default()).collect()
}

/// For how long what was read is good enough.
const FRESH: Duration = Duration::from_secs(5);

/// The defaults of queues, read again now and then.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<(Option<Instant>, Arc<QueueDefaults>)>);

impl Known {
    /// As they were read last.
    pub(crate) fn now(&self) -> Arc<QueueDefaults> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// As they are, or were a moment ago.
    pub(crate) async fn fresh(&self, store: &dyn Store) -> StoreResult<Arc<QueueDefaults>> {
        let is_fresh = |read: &Option<Instant>| read.is_some_and(|at| at.elapsed() < FRESH);
        if !is_fresh(&self.0.lock().unwrap_or_else(PoisonError::into_inner).0) {
            let defaults = Arc::new(defaults(store.queues().await?));
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Some(Instant::now()), defaults);
        }
        Ok(self.now())
    }

    /// They have changed.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = None;
    }
}
