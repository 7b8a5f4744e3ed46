//! Whether the server is there, and whether it is of use.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::time;

use crate::app::App;

/// A store that does not answer within so long is not there.
const STORE_MAX: Duration = Duration::from_secs(2);

/// It is there.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// It is of use, or says why not.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let mut wrong = Vec::new();
    if app.stopping.is_cancelled() {
        wrong.push("the server is about to end");
    }
    match time::timeout(STORE_MAX, app.punctual.store().queues()).await {
        Ok(Ok(_)) => {}
        // Where the store is, is not for everybody.
        Ok(Err(error)) => {
            tracing::warn!(%error, "not ready");
            wrong.push("the store fails; the server's log says why");
        }
        Err(_) => wrong.push("the store does not answer"),
    }
    let status = if wrong.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({ "ready": wrong.is_empty(), "not_ready": wrong }))).into_response()
}
