//! How a job is defined.

use std::{future::Future, time::Duration};

use punctual_core::{LogLevel, RetryPolicy, spec};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Context, Failure};

/// A type of job that a worker can run: the payload is the type itself, the handler is [`run`](Job::run).
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
    /// The job name, by which workers find the handler.
    const NAME: &'static str;
    /// Target queue.
    const QUEUE: &'static str = spec::DEFAULT_QUEUE;
    /// Priority from 0 to 10, higher first.
    const PRIORITY: u8 = spec::DEFAULT_PRIORITY;
    /// Maximum attempts.
    const MAX_ATTEMPTS: u32 = spec::DEFAULT_MAX_ATTEMPTS;
    /// Timeout per attempt.
    const TIMEOUT: Duration = spec::DEFAULT_TIMEOUT;
    /// Whether the job receives the results of its parents: see [`Context::parent_results`].
    const PARENT_RESULTS: bool = false;
    /// Minimum level of stored log lines.
    const LOG_LEVEL: LogLevel = LogLevel::Info;
    /// Keys of the payload whose values user interfaces must not show, besides the common ones.
    const REDACT: &'static [&'static str] = &[];

    /// What the handler needs besides its payload, such as a connection pool or a mail client. Cloned for each
    /// execution.
    type State: Clone + Send + Sync + 'static;
    /// The return type of the handler; stored as the job's result.
    type Output: Serialize + Send;

    /// Retry policy after a failure.
    fn retry() -> RetryPolicy {
        RetryPolicy::default()
    }

    /// Concurrency key: jobs of a queue with the same key share a limit, see
    /// [`Draft::concurrency_key`](crate::Draft::concurrency_key).
    fn concurrency_key(&self) -> Option<String> {
        None
    }

    /// Runs the job. It may run more than once: use [`Context::idempotency_token`] where that matters.
    fn run(self, ctx: Context, state: Self::State) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}
