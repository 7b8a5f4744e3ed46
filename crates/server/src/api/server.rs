//! The server itself, and retention.

use punctual_client::admin::CleanupDone;
use punctual_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    problem::{Code, Problem},
    request::RequestContext,
    route::Nothing,
};

/// The server: its version, its store and its clock.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ServerInfo {
    /// Version of Punctual.
    version: &'static str,
    /// Kind and address of the store, without secrets.
    store: String,
    /// Current time by the clock of the store.
    now: Timestamp,
}

pub(crate) async fn show(request: RequestContext, _: Nothing) -> Result<ServerInfo, Problem> {
    let (version, now) = (env!("CARGO_PKG_VERSION"), request.punctual().store().now());
    Ok(ServerInfo { version, store: request.app.store_name.clone(), now })
}

pub(crate) async fn cleanup(request: RequestContext, _: Nothing, _: Nothing) -> Result<CleanupDone, Problem> {
    // Default periods could delete what the workers are configured to keep.
    let retention = request.app.retention.ok_or_else(|| {
        Problem::new(Code::Refused, "this server has no retention periods; run the cleanup where its store is used")
    })?;
    let done = request.admin().cleanup(retention, |_| ()).await?;
    tracing::info!(actor = request.caller.name(), ?done, "ran retention");
    Ok(done)
}
