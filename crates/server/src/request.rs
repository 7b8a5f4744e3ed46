//! An authenticated request.

use std::sync::Arc;

use axum::{extract::ws::WebSocketUpgrade, http::HeaderMap};
use punctual_client::{Admin, Draft, Punctual, Workflow};
use punctual_core::{Enqueued, Trace, WorkflowId};

use crate::{
    app::App,
    auth::Caller,
    peer::Peer,
    problem::{Code, Problem},
};

/// The caller and the context of a request.
pub(crate) struct RequestContext {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    /// The upgrade to a socket, on routes that are sockets.
    pub(crate) upgrade: Option<WebSocketUpgrade>,
    /// The client's connection, if known; it is not kept open.
    pub(crate) peer: Option<Peer>,
}

/// The idempotency key of a request: a repeated request has its effect once.
#[derive(Debug, Clone)]
pub(crate) struct IdempotencyKey {
    pub(crate) key: String,
    pub(crate) fingerprint: [u8; 32],
}

impl RequestContext {
    pub(crate) fn punctual(&self) -> &Punctual {
        &self.app.punctual
    }

    /// Enqueues jobs; only once per idempotency key, if the request has one.
    pub(crate) async fn enqueue(&self, jobs: Vec<Draft>) -> Result<Vec<Enqueued>, Problem> {
        Ok(self.client().await?.enqueue_all(jobs).await?)
    }

    /// Submits a workflow; only once per idempotency key, if the request has one.
    pub(crate) async fn submit(&self, workflow: Workflow) -> Result<WorkflowId, Problem> {
        Ok(self.client().await?.submit(workflow).await?)
    }

    /// The client that enqueues jobs; with an idempotency key, a repeated request enqueues the same jobs.
    async fn client(&self) -> Result<Punctual, Problem> {
        let punctual = self.app.punctual.clone().continuing(trace_of(&self.headers));
        let Some(IdempotencyKey { key, fingerprint }) = &self.idempotency_key else { return Ok(punctual) };
        // Keys are scoped to a token, so that tokens do not share keys.
        let key = format!("{} {key}", self.caller.id());
        let client = punctual.idempotent_request(key, *fingerprint).await?;
        client.ok_or_else(|| {
            Problem::new(Code::KeyReused, "this Idempotency-Key was used for a different request in the last 24 hours")
        })
    }

    /// An admin client that records the caller's name with every action.
    pub(crate) fn admin(&self) -> Admin {
        self.app.punctual.clone().continuing(trace_of(&self.headers)).admin(self.caller.name())
    }
}

/// The trace context in the headers of a request.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<Trace> {
    let parent = headers.get("traceparent")?.to_str().ok()?;
    let states: Vec<&str> = headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok()).collect();
    Trace::read(parent, Some(&states.join(",")))
}
