//! How a job is defined.

use std::{future::Future, time::Duration};

use punctual_core::{LogLevel, RetryPolicy, spec};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Context, Failure};

/// A job that a worker can run: its payload is the type itself, its handler is [`run`](Job::run).
///
/// ```
/// use punctual_client::{Context, Failure, Job};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail { to: String }
///
/// impl Job for SendEmail {
///     const NAME: &'static str = "send-email";
///     type State = ();
///     type Output = ();
///
///     async fn run(self, ctx: Context, _state: ()) -> Result<(), Failure> {
///         ctx.info(format!("sending to {}", self.to));
///         Ok(())
///     }
/// }
/// ```
pub trait Job: Serialize + DeserializeOwned + Send + 'static {
    /// The name by which workers find the handler.
    const NAME: &'static str;
    /// The queue it stands in.
    const QUEUE: &'static str = spec::DEFAULT_QUEUE;
    /// 0 to 10, higher first.
    const PRIORITY: u8 = spec::DEFAULT_PRIORITY;
    /// How often it may be tried.
    const MAX_ATTEMPTS: u32 = spec::DEFAULT_MAX_ATTEMPTS;
    /// How long one attempt may take.
    const TIMEOUT: Duration = spec::DEFAULT_TIMEOUT;
    /// Whether the handler wants to know what the jobs returned that it waited for: see [`Context::parent_results`].
    const PARENT_RESULTS: bool = false;
    /// Lines of its log below this level are not kept.
    const LOG_LEVEL: LogLevel = LogLevel::Info;
    /// Keys of the payload that no admin surface may show, besides the common ones.
    const REDACT: &'static [&'static str] = &[];

    /// What the handler needs besides its payload: a connection pool, a mail client. Cloned for each run.
    type State: Clone + Send + Sync + 'static;
    /// What it returns; stored as the job's result.
    type Output: Serialize + Send;

    /// When to try again after a failure.
    fn retry() -> RetryPolicy {
        RetryPolicy::default()
    }

    /// Jobs of one queue that share a key share its limit: see
    /// [`Draft::concurrency_key`](crate::Draft::concurrency_key).
    fn concurrency_key(&self) -> Option<String> {
        None
    }

    /// Does the work. It may be run more than once: use [`Context::idempotency_token`] where that matters.
    fn run(self, ctx: Context, state: Self::State) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}
