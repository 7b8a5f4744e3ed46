//! Test helpers: a server on its own store, and a client.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use punctual_client::Punctual;
use punctual_core::Role;
use punctual_server::{RunningServer, Server};
use reqwest::{Client, Method, StatusCode, header::HeaderMap};
use serde_json::Value;
use tempfile::TempDir;

pub struct World {
    pub punctual: Punctual,
    pub server: RunningServer,
    pub client: Client,
    _folder: TempDir,
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    /// The body of a successful response.
    pub fn good(self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        self.body
    }

    /// Status and code of a problem.
    pub fn problem(&self) -> (u16, &str) {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        (self.status.as_u16(), self.body["code"].as_str().unwrap())
    }

    /// The invalid field and the detail.
    pub fn field(&self) -> (&str, &str) {
        assert_eq!(self.problem(), (400, "invalid"));
        (self.body["field"].as_str().unwrap_or(""), self.body["detail"].as_str().unwrap())
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(|server| server).await
    }

    pub async fn with(change: impl FnOnce(Server) -> Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
        let punctual = Punctual::connect(&url).await.unwrap();
        let server = change(Server::new(punctual.clone())).start("127.0.0.1:0".parse().unwrap()).await.unwrap();
        // The HTTP client needs a provider, even without TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Self { punctual, server, client, _folder: folder }
    }

    /// The secret of a new token with this role.
    pub async fn token(&self, role: Role) -> String {
        self.punctual.admin("test").create_token(role.as_str(), [role], None).await.unwrap().secret
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// Sends a request without a token.
    pub async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = self.client.request(method, self.url(path));
        self.send(match body {
            Some(body) => request.json(&body),
            None => request,
        })
        .await
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status, headers, body }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }
}

/// Waits until `done` returns true. Polls often, and fails with a message after a minute.
pub async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done().await {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
