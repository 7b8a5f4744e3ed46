//! How a handler reports that it did not succeed.

use std::{error::Error, time::Duration};

use punctual_core::{JobError, Outcome, Retry};

/// Why a handler did not succeed, and whether and when to retry.
///
/// Any error converts into a failure with `?`, to be retried by the job's policy:
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
    /// Failed; retry by the job's policy.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(JobError::new(message), Retry::ByPolicy)
    }

    /// Failed permanently: no retry.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::of(JobError::new(message), Retry::Never)
    }

    /// Failed; retry after this time, while attempts remain.
    pub fn retry_after(delay: Duration, message: impl Into<String>) -> Self {
        Self::of(JobError::new(message), Retry::After(delay))
    }

    /// Not ready: run the job again after this time. Does not count as an attempt.
    pub const fn snooze(delay: Duration) -> Self {
        Self(Outcome::Snoozed { after: delay })
    }

    /// A failure with this error and this retry decision.
    pub const fn of(fault: JobError, retry: Retry) -> Self {
        Self(Outcome::Failed { fault, retry })
    }

    /// The outcome of the execution.
    pub fn into_outcome(self) -> Outcome {
        self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    /// The message of the error, followed by those of its causes.
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
