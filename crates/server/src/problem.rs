//! Errors as HTTP responses: RFC 9457 documents with a stable code for programs.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use punctual_core::{Error, Invalid, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

/// An error. Its code is stable across versions; the detail is a message for people.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// URI of the kind of problem, derived from its code.
    #[serde(rename = "type")]
    kind: String,
    /// The kind of problem, as a short title.
    pub(crate) title: &'static str,
    /// HTTP status code of the response.
    status: u16,
    /// The kind of problem, as a stable code.
    pub(crate) code: Code,
    /// What happened, to which resource, and what to do.
    pub(crate) detail: String,
    /// The field of the request that is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $name:literal $status:ident $title:literal)*) => {
        /// A kind of problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
        pub(crate) enum Code {
            $($(#[$doc])* #[serde(rename = $name)] $code,)*
        }

        impl Code {
            const fn as_str(self) -> &'static str {
                match self { $(Self::$code => $name,)* }
            }

            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$code => StatusCode::$status,)* }
            }

            const fn title(self) -> &'static str {
                match self { $(Self::$code => $title,)* }
            }
        }
    };
}

codes! {
    /// A part of the request is not accepted.
    Invalid "invalid" BAD_REQUEST "Invalid request"
    /// The token is missing, invalid or expired.
    Unauthorized "unauthorized" UNAUTHORIZED "Authentication required"
    /// The token does not allow it.
    Forbidden "forbidden" FORBIDDEN "Forbidden"
    /// The resource does not exist.
    NotFound "not_found" NOT_FOUND "Not found"
    /// The resource exists, but not with this method.
    NotAllowed "method_not_allowed" METHOD_NOT_ALLOWED "Method not allowed"
    /// The current state does not allow it.
    Refused "refused" CONFLICT "Conflict with the current state"
    /// The same idempotency key was used for something else.
    KeyReused "idempotency_key_reused" UNPROCESSABLE_ENTITY "The idempotency key was used for another request"
    /// The wait timed out.
    TimedOut "timed_out" REQUEST_TIMEOUT "Request timed out"
    /// The body is larger than allowed.
    TooLarge "too_large" PAYLOAD_TOO_LARGE "Body too large"
    /// The content type is not JSON.
    NotJson "not_json" UNSUPPORTED_MEDIA_TYPE "The body must be JSON"
    /// Too many recent requests with invalid tokens.
    TooMany "too_many_requests" TOO_MANY_REQUESTS "Too many requests"
    /// The store cannot be reached, or is busy: the same may succeed later.
    Unavailable "unavailable" SERVICE_UNAVAILABLE "Service unavailable"
    /// An internal error of the server.
    Internal "internal" INTERNAL_SERVER_ERROR "Internal server error"
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:punctual:problem:{}", code.as_str()),
            title: code.title(),
            status: code.status().as_u16(),
            code,
            detail: detail.into(),
            field: None,
        }
    }

    /// A problem with a field of the request.
    pub(crate) fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Self {
        let (field, detail) = (field.into(), detail.into());
        Self { field: Some(field.clone()), ..Self::new(Code::Invalid, format!("{field}: {detail}")) }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Code::NotFound, detail)
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid.field, invalid.problem)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::BadCursor(_) => Self::invalid("after", error.to_string()),
            StoreError::UnknownParent(_) => Self::invalid("after", error.to_string()),
            StoreError::Superseded(_) => Self::new(Code::Refused, error.to_string()),
            StoreError::Unreachable { .. } | StoreError::Busy { .. } | StoreError::Closed => {
                tracing::warn!(%error, "the store is unavailable");
                Self::new(Code::Unavailable, "store unavailable or busy; try again later")
            }
            StoreError::ReadOnlyServer { .. } => {
                tracing::warn!(%error, "the store cannot be written");
                Self::new(Code::Unavailable, "server is read-only (standby?); try again later")
            }
            // The message may contain the store's address or parts of a statement: it is written to the log only.
            _ => {
                tracing::error!(%error, "the store failed");
                Self::new(Code::Internal, "internal error of the store; see the server's log")
            }
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid(invalid) => invalid.into(),
            Error::Store(error) => error.into(),
            Error::NotFound(_) | Error::NoSchedule(_) | Error::NoWorkflow(_) => Self::not_found(error.to_string()),
            Error::Refused(_)
            | Error::NothingToRetry(_)
            | Error::Owned { .. }
            | Error::LastAdmin(_)
            | Error::TokensValid(_) => Self::new(Code::Refused, error.to_string()),
            Error::TimedOut { .. } => Self::new(Code::TimedOut, error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        const TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.code.status(), [(header::CONTENT_TYPE, TYPE)], body).into_response();
        if self.code == Code::Unauthorized {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_server_is_unavailable_and_a_corrupt_row_is_not() {
        let (store, reason) = ("postgres://ada@db".to_owned(), "cannot execute INSERT".to_owned());
        let standby = Problem::from(StoreError::ReadOnlyServer { store, reason: reason.clone() });
        assert_eq!((standby.code, standby.status), (Code::Unavailable, 503));
        assert!(standby.detail.starts_with("server is read-only (standby?)"), "{}", standby.detail);
        assert!(!standby.detail.contains("ada"), "the address of the store is written to the log only");
        let corrupt = Problem::from(StoreError::CorruptRow { row: "job".to_owned(), reason });
        assert_eq!(corrupt.code, Code::Internal);
    }
}
