//! How a job is defined.

use std::time::Duration;

use punctual_core::{LogLevel, RetryPolicy, spec};
use serde::{Serialize, de::DeserializeOwned};

use crate::Unique;

/// A type of job: its payload is the type itself, and the constants are its options. `#[derive(Job)]` of the crate
/// `punctual` implements it.
///
/// ```
/// use punctual_client::{Draft, Job};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct SendEmail { to: String }
///
/// impl Job for SendEmail {
///     const NAME: &'static str = "send-email";
///     const QUEUE: &'static str = "mail";
/// }
///
/// let draft = Draft::from(SendEmail { to: "ada@example.com".into() }).priority(9);
/// ```
///
/// Only jobs and drafts can be enqueued:
///
/// ```compile_fail
/// # async fn example(punctual: &punctual_client::Punctual) {
/// punctual.enqueue("not a job").await;
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "expected a `Draft`, or a type that implements `Job`",
    note = "derive it: `#[derive(Serialize, Deserialize, Job)]`",
    note = "or enqueue `Draft::new(name, &payload)`, which takes any payload that implements `Serialize`"
)]
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
    /// Whether the job receives the results of its parents: see
    /// [`Context::parent_results`](crate::Context::parent_results).
    const PARENT_RESULTS: bool = false;
    /// Minimum level of stored log lines.
    const LOG_LEVEL: LogLevel = LogLevel::Info;
    /// Keys of the payload whose values user interfaces must not show, besides the common ones.
    const REDACT: &'static [&'static str] = &[];

    /// Retry policy after a failure.
    fn retry() -> RetryPolicy {
        RetryPolicy::default()
    }

    /// Concurrency key: jobs of a queue with the same key share a limit, see
    /// [`Draft::concurrency_key`](crate::Draft::concurrency_key).
    fn concurrency_key(&self) -> Option<String> {
        None
    }

    /// Unique key, see [`Draft::unique`](crate::Draft::unique).
    fn unique(&self) -> Option<Unique> {
        None
    }
}
