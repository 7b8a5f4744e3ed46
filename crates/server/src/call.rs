//! A request that was let in.

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

/// Who asks, and what of.
pub(crate) struct Call {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) once: Option<IdempotencyKey>,
    /// The way to a socket, where the route is one.
    pub(crate) upgrade: Option<WebSocketUpgrade>,
    /// The client, while its connection is open.
    pub(crate) peer: Option<Peer>,
}

/// A request that counts once, however often it is sent.
#[derive(Debug, Clone)]
pub(crate) struct IdempotencyKey {
    pub(crate) key: String,
    pub(crate) fingerprint: [u8; 32],
}

impl Call {
    pub(crate) fn punctual(&self) -> &Punctual {
        &self.app.punctual
    }

    /// Enqueues jobs; once, if the request says so.
    pub(crate) async fn enqueue(&self, jobs: Vec<Draft>) -> Result<Vec<Enqueued>, Problem> {
        Ok(self.maker().await?.enqueue_all(jobs).await?)
    }

    /// Submits a workflow; once, if the request says so.
    pub(crate) async fn submit(&self, workflow: Workflow) -> Result<WorkflowId, Problem> {
        Ok(self.maker().await?.submit(workflow).await?)
    }

    /// Makes jobs: always the same ones, if the request counts once.
    async fn maker(&self) -> Result<Punctual, Problem> {
        let punctual = self.app.punctual.clone().continuing(trace_of(&self.headers));
        let Some(IdempotencyKey { key, fingerprint }) = &self.once else { return Ok(punctual) };
        // Keys of one token say nothing of those of another.
        let key = format!("{} {key}", self.caller.id());
        let once = punctual.idempotent_request(key, *fingerprint).await?;
        once.ok_or_else(|| {
            Problem::new(Code::KeyReused, "this Idempotency-Key was used for another request within a day")
        })
    }

    /// What the caller may see and do; what is done is kept with their name.
    pub(crate) fn admin(&self) -> Admin {
        self.app.punctual.clone().continuing(trace_of(&self.headers)).admin(self.caller.name())
    }
}

/// The trace that a request is a part of, as its sender says.
pub(crate) fn trace_of(headers: &HeaderMap) -> Option<Trace> {
    let parent = headers.get("traceparent")?.to_str().ok()?;
    let states: Vec<&str> = headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok()).collect();
    Trace::read(parent, Some(&states.join(",")))
}
