//! Liveness and readiness of the server.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use punctual_client::Punctual;
use punctual_core::{StoreError, StoreResult};
use serde_json::json;
use tokio::time;

use crate::app::App;

/// Timeout of the store probe: a store that does not answer in time counts as unavailable.
const STORE_MAX: Duration = Duration::from_secs(2);
/// How long a probe result stays valid, so that many probes cause one write.
const PROBE_PERIOD: Duration = Duration::from_secs(1);

/// Liveness: the process answers.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// Readiness: OK if the store can be written, otherwise the reason.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let mut problems = Vec::new();
    if app.stopping.is_cancelled() {
        problems.push("the server is shutting down".to_owned());
    }
    match time::timeout(STORE_MAX, app.readiness.probe()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => problems.push(reason(&error)),
        Err(_) => problems.push(format!("the store did not accept a write within {} s", STORE_MAX.as_secs())),
    }
    let status = if problems.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": problems.is_empty(), "not_ready": problems }))).into_response()
}

/// Why the store cannot be used, without its address: that is written to the log only.
fn reason(error: &StoreError) -> String {
    let reason = match error {
        StoreError::Failed { .. } => "the disk did not confirm a write; this process exits",
        StoreError::Full(_) => "the store is full",
        StoreError::ReadOnly(_) => "the store is read-only",
        StoreError::ReadOnlyServer { .. } => "the server of the store is read-only (standby?)",
        StoreError::Busy { .. } => "the store is locked by another program",
        StoreError::Unreachable { .. } | StoreError::Closed => "the store cannot be reached",
        StoreError::Corrupt(_) => "the store is damaged",
        _ => "the store returned an error",
    };
    format!("{reason}; see the server's log")
}

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
    async fn probe(&self) -> StoreResult<()> {
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
