//! Exit codes, and the output of errors for people and scripts.

use std::{env, ffi::OsString, process::ExitCode};

use anstyle::{AnsiColor, Style};
use clap::error::ErrorKind;
use punctual::{
    Error,
    core::{Invalid, StoreError, redact},
    sqlite::BackupError,
};
use punctual_server::StartError;

/// An error that is caused neither by the command line nor by the store.
pub(crate) const FAILED: u8 = 1;
/// The command line, or a file that is its input, is invalid or cannot be read.
pub(crate) const USAGE: u8 = 2;
/// An item that the command line names, such as a job, a held lock or a token, was not found.
pub(crate) const NOT_FOUND: u8 = 3;
/// The store or the server cannot be reached or used.
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

/// Prints the error of a command line that could not be parsed, or the help that it asked for; returns the exit code.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && wants_json(env::args_os()) {
        return report(&Usage(usage_in_words(error)).into(), true);
    }
    // Errors are ignored: the reader may have left.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { USAGE } else { 0 })
}

/// Whether a command line that could not be parsed asks for JSON.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// The error without the usage and the hints that follow it, on one line.
fn usage_in_words(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a command is missing; --help lists all".to_owned();
    }
    let text = error.render().to_string();
    let paragraphs = text.split("\n\n").filter(|part| !part.starts_with("Usage:") && !part.starts_with("For more"));
    let line = |part: &str| part.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let text = paragraphs.map(line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
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
            StartError::Store(error) => code_of_store(error),
            StartError::NoTokens(_) | StartError::NoTls(_) => REFUSED,
            StartError::BadCertificate { .. } | StartError::CannotListen { .. } => FAILED,
        };
    }
    if let Some(error) = error.downcast_ref::<BackupError>() {
        return match error {
            BackupError::NotFound(_) => NOT_FOUND,
            BackupError::Refused(_) => REFUSED,
            BackupError::File(..) => FAILED,
            BackupError::Store(_) => STORE,
        };
    }
    if let Some(error) = error.downcast_ref::<ServerError>() {
        return error.exit_code;
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return code_of_store(error);
    }
    match error.downcast_ref::<Error>() {
        Some(Error::Invalid(_)) => USAGE,
        Some(Error::NotFound(_) | Error::NoSchedule(_) | Error::NoWorkflow(_)) => NOT_FOUND,
        Some(
            Error::Refused(_)
            | Error::Owned { .. }
            | Error::NothingToRetry(_)
            | Error::LastAdmin(_)
            | Error::TokensValid(_),
        ) => REFUSED,
        Some(Error::Store(error)) => code_of_store(error),
        Some(Error::TimedOut { .. }) | None => FAILED,
    }
}

fn code_of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::InvalidUrl { .. } | StoreError::UnknownScheme { .. } | StoreError::BadCursor(_) => USAGE,
        StoreError::UnknownParent(_) => NOT_FOUND,
        StoreError::Superseded(_) => REFUSED,
        _ => STORE,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn an_error_of_the_command_line_is_one_line() {
        for (line, expected) in [
            ("punctual", "a command is missing; --help lists all"),
            ("punctual enqueue", "the following required arguments were not provided: <NAME>"),
            ("punctual jobs show", "the following required arguments were not provided: <ID>"),
            ("punctual enqueue x --priority high", "invalid value 'high' for '--priority <PRIORITY>': invalid digit"),
        ] {
            let text = usage_in_words(&Cli::try_parse_from(line.split(' ')).unwrap_err());
            assert!(text.starts_with(expected) && !text.contains('\n') && !text.contains("Usage"), "{line}: {text}");
        }
    }

    #[test]
    fn json_is_an_option_only_before_a_double_dash() {
        let wants = |line: &str| wants_json(line.split(' ').map(OsString::from));
        assert!(wants("punctual stats --json --wrong"));
        assert!(!wants("punctual stats --wrong") && !wants("punctual enqueue -- --json"));
    }
}
