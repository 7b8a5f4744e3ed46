//! Exit codes, and the output of errors for people and scripts.

use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use punctual::{
    Error,
    core::{Invalid, StoreError, redact},
};
use punctual_server::StartError;

/// An error that is caused neither by the command line nor by the store.
pub(crate) const FAILED: u8 = 1;
/// The command line, or a file that is its input, is invalid or cannot be read.
pub(crate) const USAGE: u8 = 2;
/// An item that the command line names, such as a job, a held lock or a token, was not found.
pub(crate) const NOT_FOUND: u8 = 3;
/// The store cannot be reached or used.
pub(crate) const STORE: u8 = 4;
/// The current state does not allow the action.
pub(crate) const REFUSED: u8 = 5;

/// A usage error that no error type of the library covers.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An item that was not found, of a kind that no error type of the library covers.
#[derive(Debug)]
pub(crate) struct NotFound(pub(crate) String);

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFound {}

/// A refused action that no error type of the library covers.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// An error of a server, or of the way to it.
#[derive(Debug)]
pub(crate) struct ServerError {
    pub(crate) exit_code: u8,
    pub(crate) kind: ServerErrorKind,
    pub(crate) message: String,
}

/// What follows from an error of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerErrorKind {
    /// The token does not have the role.
    Forbidden,
    /// A wait has ended before what it waited for.
    WaitEnded,
    /// The server is not ready; the same request may succeed later.
    Busy,
    /// The connection was lost: the request may have been carried out.
    Lost,
    /// There was no answer in time: the request may be carried out.
    Late,
    /// Another error.
    Other,
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

/// Prints an error and returns its exit code.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let (code, message) = (code_of(error), format!("{error:#}"));
    let message = redact::text(&message, &[]);
    if json {
        eprintln!("{}", serde_json::json!({"error": message, "exit_code": code}));
    } else {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
        anstream::eprintln!("{red}error:{red:#} {message}");
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
    if let Some(error) = error.downcast_ref::<ServerError>() {
        return error.exit_code;
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
