//! Exit codes, and errors as a person or a script wants to read them.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use punctual::{
    Error,
    core::{Invalid, StoreError, redact},
};
use punctual_server::StartError;

/// Something went wrong that is no fault of the command line or the store.
pub(crate) const FAILED: u8 = 1;
/// The command line, or what it names, is wrong.
pub(crate) const USAGE: u8 = 2;
/// There is no such job.
pub(crate) const NOT_FOUND: u8 = 3;
/// The store cannot be reached or used.
pub(crate) const STORE: u8 = 4;
/// The state machine forbids it.
pub(crate) const REFUSED: u8 = 5;

/// An error of usage that no type of the library tells.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// There is no such thing, of a kind that no type of the library tells.
#[derive(Debug)]
pub(crate) struct NotFound(pub(crate) String);

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}

/// Something is in the way, of a kind that no type of the library tells.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Prints an error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let (code, said) = (code_of(error), format!("{error:#}"));
    let said = redact::text(&said, &[]);
    if json {
        eprintln!("{}", serde_json::json!({"error": said, "exit_code": code}));
    } else {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        anstream::eprintln!("{red}error:{red:#} {said}");
    }
    ExitCode::from(code)
}

fn code_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<Usage>().is_some() || error.downcast_ref::<Invalid>().is_some() {
        return USAGE;
    }
    if error.downcast_ref::<NotFound>().is_some() {
        return NOT_FOUND;
    }
    if error.downcast_ref::<Refusal>().is_some() {
        return REFUSED;
    }
    if let Some(error) = error.downcast_ref::<StartError>() {
        return match error {
            StartError::Store(_) => STORE,
            StartError::NoTokens(_) | StartError::NoTls(_) => REFUSED,
            StartError::BadCertificate { .. } | StartError::CannotListen { .. } => FAILED,
        };
    }
    if error.downcast_ref::<StoreError>().is_some() {
        return STORE;
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Invalid(_) | Error::Store(StoreError::BadCursor(_))) => USAGE,
        Some(
            Error::NotFound(_)
            | Error::NoSchedule(_)
            | Error::NoWorkflow(_)
            | Error::Store(StoreError::UnknownParent(_)),
        ) => NOT_FOUND,
        Some(
            Error::Refused(_)
            | Error::Owned { .. }
            | Error::NothingToRetry(_)
            | Error::LastAdmin(_)
            | Error::TokensValid(_)
            | Error::Store(StoreError::Superseded(_)),
        ) => REFUSED,
        Some(Error::Store(_)) => STORE,
        Some(Error::TimedOut { .. }) | None => FAILED,
    }
}
