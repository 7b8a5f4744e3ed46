//! How a handler reports that it did not succeed.

use std::{error::Error, fmt, time::Duration};

use punctual_core::{JobError, Outcome, Retry, time::in_words};

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

    /// The outcome of the execution, to inspect it in a layer.
    pub const fn outcome(&self) -> &Outcome {
        &self.0
    }

    /// The outcome of the execution.
    pub fn into_outcome(self) -> Outcome {
        self.0
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    /// The message of the error, followed by those of its causes.
    fn from(error: E) -> Self {
        Self::new(with_causes(&error))
    }
}

/// What a handler may return as an error: a [`Failure`], any error type, `anyhow::Error`, a boxed error, or a text.
///
/// Errors that are no failures are retried by the job's policy. In a function that returns [`Failure`], `?` takes every
/// error type, but not `anyhow::Error` or a boxed error, which are no error types themselves; convert these first:
///
/// ```
/// use punctual_client::{Failure, IntoFailure};
/// fn load(id: u32) -> anyhow::Result<String> {
///     anyhow::bail!("order {id} not found")
/// }
/// fn ship(id: u32) -> Result<(), Failure> {
///     let order = load(id).map_err(IntoFailure::into_failure)?;
///     println!("shipping {order}");
///     Ok(())
/// }
/// assert_eq!(ship(7), Err(Failure::new("order 7 not found")));
/// ```
pub trait IntoFailure {
    /// Converts it into a failure.
    fn into_failure(self) -> Failure;
}

/// An implementation for `anyhow::Error` beside that of all error types would not be coherent. All of them convert into
/// a boxed error, and a failure survives the way there and back.
impl<E: Into<BoxedError>> IntoFailure for E {
    fn into_failure(self) -> Failure {
        let boxed: BoxedError = self.into();
        match boxed.downcast::<FailureError>() {
            Ok(error) => error.0,
            Err(error) => Failure::new(with_causes(&*error)),
        }
    }
}

type BoxedError = Box<dyn Error + Send + Sync>;

impl From<Failure> for BoxedError {
    fn from(failure: Failure) -> Self {
        Box::new(FailureError(failure))
    }
}

/// A failure as an error type, which [`Failure`] itself cannot be: every error type converts into it.
#[derive(Debug)]
struct FailureError(Failure);

impl fmt::Display for FailureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.0 {
            Outcome::Failed { fault, .. } => f.write_str(&fault.message),
            Outcome::Snoozed { after } => write!(f, "snoozed for {}", in_words(*after)),
            other => f.write_str(other.as_str()),
        }
    }
}

impl Error for FailureError {}

/// The message of an error, followed by those of its causes.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_of_any_kind_keeps_its_message_and_its_causes() {
        let parsed = || "x".parse::<u32>();
        let expected = Failure::new("reading the order: invalid digit found in string");
        assert_eq!(parsed().context("reading the order").unwrap_err().into_failure(), expected);
        let invalid = Failure::new("invalid digit found in string");
        assert_eq!(parsed().unwrap_err().into_failure(), invalid);
        assert_eq!(BoxedError::from(parsed().unwrap_err()).into_failure(), invalid);
        assert_eq!("out of paper".into_failure(), Failure::new("out of paper"));
    }

    #[test]
    fn a_failure_is_the_same_after_the_way_through_a_boxed_error() {
        for failure in [Failure::permanent("refused"), Failure::snooze(Duration::from_secs(3))] {
            assert_eq!(failure.clone().into_failure(), failure);
            assert_eq!(BoxedError::from(failure.clone()).into_failure(), failure);
        }
        assert_eq!(BoxedError::from(Failure::snooze(Duration::from_secs(3))).to_string(), "snoozed for 3.0 s");
    }
}
