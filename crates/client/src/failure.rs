//! How a handler says that it did not succeed.

use std::{error::Error, time::Duration};

use punctual_core::{JobError, Outcome, Retry};

/// Why a handler did not succeed, and what it wants done about it.
///
/// Any error becomes one with `?`, to be retried as the job's policy says:
///
/// ```
/// use punctual_client::Failure;
/// use std::time::Duration;
/// fn parse(text: &str) -> Result<u32, Failure> {
///     if text.is_empty() {
///         return Err(Failure::snooze(Duration::from_secs(60)));
///     }
///     Ok(text.parse()?)
/// }
/// assert!(parse("x").is_err());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Failure(Outcome);

impl Failure {
    /// Failed; to be retried as the job's policy says.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(JobError::new(message), Retry::ByPolicy)
    }

    /// Failed, and trying again would not help.
    pub fn for_good(message: impl Into<String>) -> Self {
        Self::of(JobError::new(message), Retry::Never)
    }

    /// Failed; to be retried after this time, while attempts remain.
    pub fn retry_after(delay: Duration, message: impl Into<String>) -> Self {
        Self::of(JobError::new(message), Retry::After(delay))
    }

    /// Not failed, but not done: run it again after this time. Spends no attempt.
    pub const fn snooze(delay: Duration) -> Self {
        Self(Outcome::Snoozed { after: delay })
    }

    /// A fault with what is wanted done about it.
    pub const fn of(fault: JobError, retry: Retry) -> Self {
        Self(Outcome::Failed { fault, retry })
    }

    /// What it means for the execution.
    pub fn into_outcome(self) -> Outcome {
        self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    /// The error's text, followed by those of its causes.
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(&format!(": {inner}"));
            cause = inner.source();
        }
        Self::new(message)
    }
}
