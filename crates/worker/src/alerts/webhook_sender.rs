//! Sends one POST request: HTTP/1.1, with TLS for `https`, without redirects, within a timeout.

use std::{sync::Arc, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, Uri,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use punctual_core::time::in_words;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time,
};
use tokio_rustls::TlsConnector;

/// Maximum bytes of a response body that are read.
const RESPONSE_MAX_BYTES: usize = 2 << 10;

/// The parsed URL of a webhook.
pub(super) struct Target {
    uri: Uri,
    https: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
}

/// A response.
pub(super) struct WebhookResponse {
    pub(super) status: u16,
    /// The beginning of its body.
    pub(super) body: String,
    /// The delay in its `retry-after` header.
    pub(super) retry_after: Option<Duration>,
}

impl Target {
    /// Parses a URL. Errors do not contain it, since it may hold a secret.
    pub(super) fn of(url: &str) -> Result<Self, String> {
        let wrong = || "invalid URL; expected for example https://ops.example/alerts".to_owned();
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("invalid URL; expected https:// or http://".to_owned()),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty()).ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(
                "must not contain a user or a password; requests are authenticated by their signature".to_owned()
            );
        }
        let rest = authority.as_str().trim_start_matches(authority.host());
        if !rest.is_empty() && authority.port_u16().is_none() {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if https { 443 } else { 80 });
        Ok(Self { https, host, port, uri })
    }

    pub(super) const fn is_https(&self) -> bool {
        self.https
    }
}

/// The HTTP client.
pub(super) struct WebhookSender {
    tls: Option<TlsConnector>,
}

impl WebhookSender {
    /// Creates a client; with TLS, it trusts the certificates of the system.
    pub(super) fn new(with_tls: bool) -> Result<Self, String> {
        Ok(Self { tls: if with_tls { Some(connector()?) } else { None } })
    }

    /// Sends `body` and returns the response, or why there is none.
    pub(super) async fn post(
        &self,
        target: &Target,
        headers: &[(&'static str, String)],
        body: String,
        timeout: Duration,
    ) -> Result<WebhookResponse, String> {
        let path = target.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = target.uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::post(if path.is_empty() { "/" } else { path })
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, concat!("punctual/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        let exchange = time::timeout(timeout, self.exchange(target, request)).await;
        exchange.map_err(|_| format!("no response within {}", in_words(timeout)))?
    }

    async fn exchange(&self, target: &Target, request: Request<Full<Bytes>>) -> Result<WebhookResponse, String> {
        let address = (target.host.as_str(), target.port);
        let stream = TcpStream::connect(address).await.map_err(|error| format!("cannot connect: {error}"))?;
        match &self.tls {
            Some(tls) if target.https => {
                let name = ServerName::try_from(target.host.clone()).map_err(|error| error.to_string())?;
                let stream =
                    tls.connect(name, stream).await.map_err(|error| format!("TLS handshake failed: {error}"))?;
                exchange_over(stream, request).await
            }
            _ => exchange_over(stream, request).await,
        }
    }
}

async fn exchange_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> Result<WebhookResponse, String> {
    let broken = |error: hyper::Error| format!("the connection was lost: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok(read(response).await)
    };
    // The connection must be polled while the response is read, and no longer.
    tokio::select! {
        answer = exchange => answer,
        () = async { let _ = connection.await; std::future::pending().await } => Err("the connection was lost".to_owned()),
    }
}

async fn read(response: Response<Incoming>) -> WebhookResponse {
    let (parts, mut body) = response.into_parts();
    let seconds = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let mut text = Vec::new();
    // A response that breaks off in its body is still a response.
    while text.len() < RESPONSE_MAX_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        text.extend(frame.into_data().unwrap_or_default());
    }
    text.truncate(RESPONSE_MAX_BYTES);
    let body = String::from_utf8_lossy(&text).trim().to_owned();
    WebhookResponse { status: parts.status.as_u16(), body, retry_after: seconds.map(Duration::from_secs) }
}

/// Trusts the certificates of the system, or of the file that `SSL_CERT_FILE` names.
fn connector() -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err("no trusted certificates found on this system; install them, or set SSL_CERT_FILE".into());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
