//! Failures of requests: what the user reads, and the exit code. The texts of a server's problems are those of the
//! store's errors.

use std::{error::Error, time::Duration};

use reqwest::StatusCode;
use serde::Deserialize;

use crate::{
    exit::{self, ServerError, ServerErrorKind},
    format::Span,
};

/// A problem as a server describes it.
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    code: String,
    detail: String,
}

/// The innermost cause of an error: the others only say that a request failed.
pub(super) fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// Where a request went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'a> {
    /// The URL of the server.
    pub(super) server: &'a str,
    pub(super) has_token: bool,
    pub(super) timeout: Duration,
}

impl Sent<'_> {
    /// A request without an answer.
    pub(super) fn unanswered(self, error: &reqwest::Error) -> ServerError {
        let (server, cause) = (self.server, cause(error));
        if error.is_timeout() && !error.is_connect() {
            let message = format!("no answer from the server {server} within {}", Span(self.timeout));
            return failure(exit::STORE, ServerErrorKind::Late, message);
        }
        let is_plain = server.starts_with("http://");
        let advice = match cause.as_str() {
            cause if cause.contains("certificate") => "; name the certificate that signed it with --ca-file",
            cause if cause.contains("corrupt message") => "; if it does not speak TLS, use http://",
            _ if is_plain && !error.is_connect() => "; if it speaks TLS, use https://",
            _ => "",
        };
        let kind = if error.is_connect() { ServerErrorKind::Other } else { ServerErrorKind::Lost };
        failure(exit::STORE, kind, format!("cannot reach the server {server}: {cause}{advice}"))
    }

    /// An answer that is not one of the API: that of a proxy, or of another program.
    pub(super) fn foreign(self, status: StatusCode, content_type: &str) -> ServerError {
        let what = if content_type.is_empty() { "without content" } else { content_type };
        let message = format!(
            "{} answered {status} ({what}), which is not an answer of Punctual's API; check the URL, and proxies before it",
            self.server
        );
        let kind = match status {
            StatusCode::SERVICE_UNAVAILABLE => ServerErrorKind::Busy,
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => ServerErrorKind::Lost,
            _ => ServerErrorKind::Other,
        };
        failure(exit::STORE, kind, message)
    }

    /// A redirect, which is not followed: the token is for this server only.
    pub(super) fn redirected(self, to: &str) -> ServerError {
        let message = format!("the server {} redirects to {to}; use that URL", self.server);
        failure(exit::STORE, ServerErrorKind::Other, message)
    }

    /// An answer that this version does not understand.
    pub(super) fn unreadable(self, error: &serde_json::Error) -> ServerError {
        let message = format!(
            "the answer of the server {} cannot be read: {error}; is it of another version than {}?",
            self.server,
            env!("CARGO_PKG_VERSION")
        );
        failure(exit::STORE, ServerErrorKind::Other, message)
    }

    /// A server of another version.
    pub(super) fn of_version(self, version: &str) -> ServerError {
        let message = format!(
            "the server {} has version {version}, but this program has version {}; use the program of its version",
            self.server,
            env!("CARGO_PKG_VERSION")
        );
        failure(exit::STORE, ServerErrorKind::Other, message)
    }

    /// A problem that the server describes.
    pub(super) fn refused(self, Problem { code, detail }: Problem) -> ServerError {
        use ServerErrorKind::{Busy, Forbidden, Other, WaitEnded};
        let server = self.server;
        match code.as_str() {
            "invalid" if detail.starts_with("after: parents: ") => failure(exit::NOT_FOUND, Other, own_words(&detail)),
            "invalid" if detail.starts_with("after: cursor: ") => failure(exit::USAGE, Other, own_words(&detail)),
            "invalid" | "not_json" | "too_large" => failure(exit::USAGE, Other, detail),
            // The only detail that names no resource: the server lacks the route.
            "not_found" if detail.starts_with("path not found") => self.unknown_route(),
            "method_not_allowed" => self.unknown_route(),
            "not_found" => failure(exit::NOT_FOUND, Other, detail),
            "refused" | "idempotency_key_reused" => failure(exit::REFUSED, Other, detail),
            "timed_out" => failure(exit::FAILED, WaitEnded, detail),
            "unauthorized" if !self.has_token => {
                let how = "set PUNCTUAL_TOKEN or --token, or use a context with one";
                failure(exit::REFUSED, Other, format!("the server {server} requires a token: {how}"))
            }
            "unauthorized" => failure(exit::REFUSED, Other, format!("the server {server} rejects the token: {detail}")),
            "forbidden" => failure(exit::REFUSED, Forbidden, format!("the server {server} refuses it: {detail}")),
            "too_many_requests" => failure(exit::REFUSED, Busy, format!("the server {server}: {detail}")),
            "unavailable" => failure(exit::STORE, Busy, format!("the server {server}: {detail}")),
            _ => failure(exit::STORE, Other, format!("the server {server}: {detail}")),
        }
    }

    fn unknown_route(self) -> ServerError {
        let message = format!(
            "the server {} does not know this request; it is older than this program ({}), or the URL is wrong",
            self.server,
            env!("CARGO_PKG_VERSION")
        );
        failure(exit::STORE, ServerErrorKind::Other, message)
    }
}

/// The text of an error that names its field itself, without the name that the API adds.
fn own_words(detail: &str) -> String {
    detail.trim_start_matches("after: ").to_owned()
}

fn failure(exit_code: u8, kind: ServerErrorKind, message: String) -> ServerError {
    ServerError { exit_code, kind, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Sent<'_> = Sent { server: "https://a.example", has_token: true, timeout: Duration::from_secs(30) };

    fn refused(sent: Sent<'_>, code: &str, detail: &str) -> (u8, String) {
        let error = sent.refused(Problem { code: code.into(), detail: detail.into() });
        (error.exit_code, error.message)
    }

    #[test]
    fn problems_have_the_exit_codes_and_texts_of_the_same_errors_of_a_store() {
        let as_they_are =
            [("invalid", "priority: must be between 0 and 10, not 11", 2), ("not_found", "job x not found", 3)];
        for (code, detail, exit_code) in as_they_are {
            assert_eq!(refused(SENT, code, detail), (exit_code, detail.to_owned()));
        }
        let (code, text) = refused(SENT, "forbidden", "requires a token with the role admin");
        assert_eq!((code, text.contains("https://a.example") && text.contains("role admin")), (5, true), "{text}");
        let (code, text) = refused(Sent { has_token: false, ..SENT }, "unauthorized", "authentication required");
        assert_eq!((code, text.contains("PUNCTUAL_TOKEN")), (5, true), "{text}");
        assert_eq!(refused(SENT, "unavailable", "store unavailable").0, 4);
        assert_eq!(refused(SENT, "unheard_of", "what").0, 4);
    }

    #[test]
    fn a_route_that_is_missing_is_not_a_resource_that_is_missing() {
        let (code, text) = refused(SENT, "not_found", "path not found; GET /v1/openapi.json lists all paths");
        assert_eq!((code, text.contains("older than this program")), (4, true), "{text}");
    }
}
