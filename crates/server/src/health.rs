//! Liveness and readiness of the server.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use punctual_core::StoreError;
use serde_json::json;
use tokio::time;

use crate::app::App;

/// Timeout of the store probe: a store that does not answer in time counts as unavailable.
const STORE_MAX: Duration = Duration::from_secs(2);

/// Liveness: the process answers.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// Readiness: OK if the store can be written and the worker beside the server is ready, otherwise the reasons.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let mut problems = Vec::new();
    if app.stopping.is_cancelled() {
        problems.push("the server is shutting down".to_owned());
    }
    problems.extend((app.worker_problem)());
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
