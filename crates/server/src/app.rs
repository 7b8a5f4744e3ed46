//! State and limits that all requests share.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use punctual_client::{Punctual, admin::Retention};
use punctual_core::store::Metric;
use tokio::{sync::Semaphore, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    auth::Tokens,
    counter_cache::CounterCache,
    event_feed::EventFeed,
    history::History,
    problem::{Code, Problem},
    readiness::Readiness,
};

/// The server's shared state, as request handlers see it.
pub(crate) struct App {
    pub(crate) punctual: Punctual,
    pub(crate) tokens: Tokens,
    /// Kind and address of the store, without secrets.
    pub(crate) store_name: String,
    pub(crate) history: History,
    /// Retention periods of the store, if they are known.
    pub(crate) retention: Option<Retention>,
    pub(crate) readiness: Readiness,
    /// Whether browsers connect with TLS, so that cookies can be marked `Secure`.
    pub(crate) has_tls: bool,
    pub(crate) limits: RequestLimits,
    pub(crate) counter_cache: CounterCache,
    /// Metrics of the workers that run beside the server.
    pub(crate) metrics: Box<dyn Fn() -> Vec<Metric> + Send + Sync>,
    /// Why the worker beside the server is not ready, if it is not.
    pub(crate) worker_problem: Box<dyn Fn() -> Option<String> + Send + Sync>,
    /// Cancelled when the server is about to stop: waiting requests answer at once.
    pub(crate) stopping: CancellationToken,
    /// Distributes job events to the subscribers of the stream.
    pub(crate) event_feed: Arc<EventFeed>,
    pub(crate) stream: StreamLimits,
    /// Limits the number of stream subscribers. Sockets are counted apart from other connections, which count only
    /// until their upgrade to a socket.
    pub(crate) sockets: Arc<Semaphore>,
    /// Open stream sockets; the server waits for them when it stops.
    pub(crate) open_sockets: TaskTracker,
}

/// Size limits and timeouts of requests.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// Timeout for the first bytes of a connection and for the head of a request, and idle timeout of a connection.
    pub head_timeout: Duration,
    /// Maximum bytes of a request body.
    pub body_max_bytes: usize,
    /// Timeout for receiving a request body.
    pub body_timeout: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        let timeout = Duration::from_secs(30);
        Self { head_timeout: timeout, body_max_bytes: 32 * 1024 * 1024, body_timeout: timeout }
    }
}

impl RequestLimits {
    /// Reads a request body within the limits.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
        let too_large = || {
            let detail = format!("the body has more than {} bytes; send several smaller requests", self.body_max_bytes);
            Problem::new(Code::TooLarge, detail)
        };
        // Compressed bodies are refused: their unpacked size would not be bounded.
        if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Problem::new(
                Code::NotJson,
                "compressed bodies are not accepted; send the body without Content-Encoding",
            ));
        }
        let declared =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > self.body_max_bytes) {
            return Err(too_large());
        }
        match time::timeout(self.body_timeout, Limited::new(body, self.body_max_bytes).collect()).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
            Ok(Err(error)) => Err(Problem::invalid("body", format!("cannot be read: {error}"))),
            Err(_) => {
                let detail = format!("the body was not received within {} s", self.body_timeout.as_secs());
                Err(Problem::new(Code::TimedOut, detail))
            }
        }
    }
}

/// Limits of the stream: number of subscribers, backlog, and detection of dead clients.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    /// Maximum concurrent sockets.
    pub sockets_max: usize,
    /// Number of polls of the store, four per second, that a reader may be behind before it misses events.
    pub behind_max_polls: usize,
    /// Interval between pings. A client that leaves three pings unanswered is disconnected.
    pub ping_every: Duration,
    /// Maximum duration of sending one message; a client that does not read within this time is disconnected.
    pub send_timeout: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            sockets_max: 20_000,
            behind_max_polls: 32,
            ping_every: Duration::from_secs(20),
            send_timeout: Duration::from_secs(60),
        }
    }
}
