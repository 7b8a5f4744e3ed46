//! Sends requests. Reads, and writes with an idempotency key, are repeated after a failure that may pass; other writes
//! are not, since the first request may have been carried out.

use std::{fmt::Display, time::Duration};

use punctual::trace;
use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{CONTENT_TYPE, LOCATION},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time;

use super::{
    failure::{Problem, Sent},
    settings::ServerSettings,
};
use crate::{
    exit::{self, ServerError, ServerErrorKind, Usage},
    traces,
};

/// Pauses before a request is repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(1)];
/// Timeout of a request that changes many jobs.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// A client of one server.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    url: Url,
    /// The URL as messages show it.
    server: String,
    has_token: bool,
    timeout: Duration,
}

impl Http {
    pub(super) fn new(settings: ServerSettings) -> Result<Self, Usage> {
        let (client, has_token) = (settings.client()?, settings.has_token());
        let ServerSettings { url, timeout, .. } = settings;
        let server = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client, url, server, has_token, timeout })
    }

    /// The URL of the server.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn get(&self, path: &[&str]) -> Call<'_> {
        Call { is_repeatable: true, ..self.call(Method::GET, path) }
    }

    pub(super) fn post(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::POST, path)
    }

    pub(super) fn put(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::PUT, path)
    }

    pub(super) fn patch(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::PATCH, path)
    }

    pub(super) fn delete(&self, path: &[&str]) -> Call<'_> {
        self.call(Method::DELETE, path)
    }

    fn call(&self, method: Method, path: &[&str]) -> Call<'_> {
        let mut url = self.url.clone();
        // These would disappear from the path, or change it.
        let odd = path.iter().find(|part| matches!(**part, "" | "." | ".."));
        // Only URLs without a path, which are refused, have no segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("v1").extend(path);
        }
        Call {
            http: self,
            method,
            url,
            body: None,
            key: None,
            timeout: self.timeout,
            is_repeatable: false,
            odd_name: odd.map(|part| (*part).to_owned()),
        }
    }

    /// Refuses a server of another version: its answers may have another meaning.
    pub(super) fn check_version(&self, version: &str) -> Result<(), ServerError> {
        fn line(version: &str) -> Vec<&str> {
            version.split('.').take(2).collect()
        }
        if line(version) == line(env!("CARGO_PKG_VERSION")) {
            return Ok(());
        }
        Err(self.sent(self.timeout).of_version(version))
    }

    fn sent(&self, timeout: Duration) -> Sent<'_> {
        Sent { server: &self.server, has_token: self.has_token, timeout }
    }
}

/// A request to a route.
#[derive(Debug)]
pub(super) struct Call<'a> {
    http: &'a Http,
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    /// The idempotency key.
    key: Option<String>,
    timeout: Duration,
    is_repeatable: bool,
    /// A name that cannot be part of a URL.
    odd_name: Option<String>,
}

impl Call<'_> {
    /// Adds a query parameter.
    pub(super) fn query(mut self, name: &str, value: impl Display) -> Self {
        self.url.query_pairs_mut().append_pair(name, &value.to_string());
        self
    }

    /// Adds a query parameter, if it has a value.
    pub(super) fn query_some(self, name: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sets the body.
    pub(super) fn json(self, body: &impl Serialize) -> serde_json::Result<Self> {
        Ok(Self { body: Some(serde_json::to_vec(body)?), ..self })
    }

    /// Lets the request take effect once, however often it is sent.
    pub(super) fn once(self) -> Self {
        Self { key: Some(format!("{:032x}", fastrand::u128(..))), is_repeatable: true, ..self }
    }

    /// Sets the timeout, if it is longer than usual.
    pub(super) fn within(self, timeout: Duration) -> Self {
        Self { timeout: self.timeout.max(timeout), ..self }
    }

    /// Sends the request and reads its answer.
    pub(super) async fn answer<T: DeserializeOwned>(self) -> Result<T, ServerError> {
        let body = self.send().await?;
        serde_json::from_slice(&body).map_err(|error| self.sent().unreadable(&error))
    }

    /// Sends a request whose answer does not matter.
    pub(super) async fn done(self) -> Result<(), ServerError> {
        self.send().await.map(drop)
    }

    fn sent(&self) -> Sent<'_> {
        self.http.sent(self.timeout)
    }

    async fn send(&self) -> Result<Vec<u8>, ServerError> {
        if let Some(name) = &self.odd_name {
            let message = match name.as_str() {
                "" => "the name must not be empty".to_owned(),
                name => format!("the name `{name}` cannot be part of a URL; use the store itself"),
            };
            return Err(ServerError { exit_code: exit::USAGE, kind: ServerErrorKind::Other, message });
        }
        for pause in PAUSES {
            match self.attempt().await {
                Err(error) if self.may_repeat(&error) => time::sleep(pause).await,
                Err(error) => return Err(self.noted(error)),
                answered => return answered,
            }
        }
        self.attempt().await.map_err(|error| self.noted(error))
    }

    fn may_repeat(&self, error: &ServerError) -> bool {
        self.is_repeatable && matches!(error.kind, ServerErrorKind::Busy | ServerErrorKind::Lost)
    }

    /// Says what is not known: whether a write without an answer was carried out.
    fn noted(&self, error: ServerError) -> ServerError {
        let is_unknown = matches!(error.kind, ServerErrorKind::Lost | ServerErrorKind::Late);
        let may_be_done = self.method != Method::GET && is_unknown;
        let note = if may_be_done { "; the request may have been carried out" } else { "" };
        ServerError { message: format!("{}{note}", error.message), ..error }
    }

    async fn attempt(&self) -> Result<Vec<u8>, ServerError> {
        let mut request = self.http.client.request(self.method.clone(), self.url.clone()).timeout(self.timeout);
        if let Some(body) = &self.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        if let Some(key) = &self.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(trace) = trace::current().or_else(traces::given) {
            request = request.header("traceparent", trace.parent.to_string());
            request = match &trace.state {
                Some(state) => request.header("tracestate", state),
                None => request,
            };
        }
        let response = request.send().await.map_err(|error| self.sent().unanswered(&error))?;
        self.read(response).await
    }

    async fn read(&self, response: Response) -> Result<Vec<u8>, ServerError> {
        let (status, sent) = (response.status(), self.sent());
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
        if status == StatusCode::NO_CONTENT {
            return Ok(Vec::new());
        }
        if status.is_redirection() {
            return Err(sent.redirected(header(LOCATION)));
        }
        let expected = if status.is_success() { "application/json" } else { "application/problem+json" };
        if content_type != expected {
            return Err(sent.foreign(status, &content_type));
        }
        let body = response.bytes().await.map_err(|error| sent.unanswered(&error))?;
        if status.is_success() {
            return Ok(body.into());
        }
        let problem: Problem = serde_json::from_slice(&body).map_err(|_| sent.foreign(status, &content_type))?;
        Err(sent.refused(problem))
    }
}
