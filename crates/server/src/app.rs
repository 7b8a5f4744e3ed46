//! What all requests share.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use punctual_client::Punctual;
use punctual_core::store::Metric;
use tokio::{sync::Semaphore, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    auth::Tokens,
    counter_cache::CounterCache,
    event_feed::EventFeed,
    health::Readiness,
    history::History,
    problem::{Code, Problem},
    subscriber::StreamLimits,
};

/// The server, as those see it who answer a request.
pub(crate) struct App {
    pub(crate) punctual: Punctual,
    pub(crate) tokens: Tokens,
    /// Only this machine can reach it, so that it may answer without tokens while there are none.
    pub(crate) may_be_open: bool,
    /// What the store is, and where, without any secret.
    pub(crate) store_name: String,
    pub(crate) history: History,
    pub(crate) readiness: Readiness,
    /// Whether browsers come by TLS, so that a cookie may insist on it.
    pub(crate) has_tls: bool,
    pub(crate) limits: RequestLimits,
    pub(crate) meter: CounterCache,
    /// What those count of themselves who work beside the server.
    pub(crate) metrics: Box<dyn Fn() -> Vec<Metric> + Send + Sync>,
    /// The server is about to end: whoever waits answers now.
    pub(crate) stopping: CancellationToken,
    /// What happens to jobs, for those who listen.
    pub(crate) follower: Arc<EventFeed>,
    pub(crate) stream: StreamLimits,
    /// So many more may listen. They are no connections as others are: those count only until somebody listens.
    pub(crate) sockets: Arc<Semaphore>,
    /// Those who listen, for whom the end of the server waits.
    pub(crate) open_sockets: TaskTracker,
}

/// How large a request may be, and how long it may take to come.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// How long a connection may take to begin, the head of a request to come, and a connection may be idle.
    pub head_timeout: Duration,
    /// Bytes of a body.
    pub body_max_bytes: usize,
    /// How long a body may take to come.
    pub body_timeout: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        let patience = Duration::from_secs(30);
        Self { head_timeout: patience, body_max_bytes: 32 * 1024 * 1024, body_timeout: patience }
    }
}

impl RequestLimits {
    /// Reads a body, as far as it keeps to the limits.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
        let too_large = || {
            let detail = format!("the body has more than {} bytes; send it in parts", self.body_max_bytes);
            Problem::new(Code::TooLarge, detail)
        };
        // What would have to be unpacked could be of any size then.
        if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Problem::new(Code::NotJson, "send the body as it is, without Content-Encoding"));
        }
        let said = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if said.is_some_and(|length| length > self.body_max_bytes) {
            return Err(too_large());
        }
        match time::timeout(self.body_timeout, Limited::new(body, self.body_max_bytes).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => Err(Problem::invalid("body", format!("cannot be read: {error}"))),
            Err(_) => {
                let detail = format!("the body did not come within {} s", self.body_timeout.as_secs());
                Err(Problem::new(Code::TimedOut, detail))
            }
        }
    }
}
