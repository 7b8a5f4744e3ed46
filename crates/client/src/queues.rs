//! A cache of the default options of queues.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use punctual_core::{JobDefaults, Queue, Store, StoreResult};

/// Default job options by queue, for queues that have any.
pub(crate) type QueueDefaults = HashMap<String, JobDefaults>;

/// The default job options of these queues.
pub(crate) fn defaults(queues: Vec<Queue>) -> QueueDefaults {
    let defaults = queues.into_iter().map(|queue| (queue.name, queue.settings.defaults));
    defaults.filter(|(_, defaults)| *defaults != JobDefaults::default()).collect()
}

/// How long cached defaults are valid.
const FRESH: Duration = Duration::from_secs(5);

/// The cached defaults of queues.
#[derive(Debug, Default)]
pub(crate) struct CachedDefaults(Mutex<(Option<Instant>, Arc<QueueDefaults>)>);

impl CachedDefaults {
    /// The defaults as they were last read.
    pub(crate) fn now(&self) -> Arc<QueueDefaults> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// The defaults, read again if the cached ones have expired.
    pub(crate) async fn fresh(&self, store: &dyn Store) -> StoreResult<Arc<QueueDefaults>> {
        let is_fresh = |read: &Option<Instant>| read.is_some_and(|at| at.elapsed() < FRESH);
        if !is_fresh(&self.0.lock().unwrap_or_else(PoisonError::into_inner).0) {
            let defaults = Arc::new(defaults(store.queues().await?));
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Some(Instant::now()), defaults);
        }
        Ok(self.now())
    }

    /// Invalidates the cache.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = None;
    }
}
