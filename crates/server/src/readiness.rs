//! Probes the store: whether it can be written.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use punctual_client::Punctual;
use punctual_core::{StoreError, StoreResult};

/// How long a probe result stays valid, so that many probes cause one write.
const PROBE_PERIOD: Duration = Duration::from_secs(1);

/// The current store probe: under way, or finished less than [`PROBE_PERIOD`] ago.
pub(crate) struct Readiness {
    punctual: Punctual,
    probe: Mutex<Option<Probe>>,
}

/// A write under way, or its result with the time at which it finished.
type Probe = Shared<BoxFuture<'static, (Instant, StoreResult<()>)>>;

impl Readiness {
    pub(crate) fn new(punctual: Punctual) -> Self {
        Self { punctual, probe: Mutex::default() }
    }

    /// Whether the store can be written. All callers within [`PROBE_PERIOD`] share one write.
    pub(crate) async fn probe(&self) -> StoreResult<()> {
        self.current().await.1
    }

    fn current(&self) -> Probe {
        let mut probe = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = |probe: &&mut Probe| probe.peek().is_none_or(|(at, _)| at.elapsed() < PROBE_PERIOD);
        match probe.as_mut().filter(counts) {
            Some(probe) => probe.clone(),
            None => probe.insert(self.start()).clone(),
        }
    }

    /// Starts a write. It continues after all callers have given up, so that a store that hangs receives one write, not
    /// many.
    fn start(&self) -> Probe {
        let store = Arc::clone(self.punctual.store());
        let write = tokio::spawn(async move {
            let written = store.probe().await;
            if let Err(error) = &written {
                tracing::warn!(%error, "not ready: the store does not accept writes");
            }
            (Instant::now(), written)
        });
        let broken = |_| (Instant::now(), Err(StoreError::Closed));
        write.map(move |written| written.unwrap_or_else(broken)).boxed().shared()
    }
}
