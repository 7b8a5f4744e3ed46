//! Which server is accessed, and how.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::{
    Certificate, Client, Url,
    header::{HeaderMap, HeaderValue},
    redirect::Policy,
};

use crate::{exit::Usage, secret::Secret};

/// Maximum duration of connecting, unless the timeout of a request is shorter.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server, and how to access it.
#[derive(Debug)]
pub(crate) struct ServerSettings {
    pub(super) url: Url,
    token: Option<Secret>,
    ca_file: Option<PathBuf>,
    pub(super) timeout: Duration,
}

impl ServerSettings {
    /// Checks the URL and the timeout. Errors do not contain a URL with a password.
    pub(crate) fn new(
        url: &str,
        token: Option<Secret>,
        ca_file: Option<PathBuf>,
        timeout: Duration,
    ) -> Result<Self, Usage> {
        if timeout.is_zero() {
            return Err(Usage("--request-timeout: must be longer than 0s".into()));
        }
        Ok(Self { url: parse(url)?, token: token.filter(|token| !token.0.is_empty()), ca_file, timeout })
    }

    /// Whether requests carry a token.
    pub(super) const fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Whether the token can be read on the network.
    pub(super) fn exposes_token(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        self.has_token() && self.url.scheme() == "http" && !is_local
    }

    /// A client that sends the token with every request, and to no other server.
    pub(super) fn client(&self) -> Result<Client, Usage> {
        // The client needs a provider, even without TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .user_agent(concat!("punctual/", env!("CARGO_PKG_VERSION")))
            .default_headers(self.headers()?)
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT.min(self.timeout));
        let client = match &self.ca_file {
            // Without TLS, the certificates of the system are not needed, and a container may have none.
            _ if self.url.scheme() == "http" => client.tls_certs_only([]),
            Some(file) => client.tls_certs_only(certificates(file)?),
            None => client,
        };
        client.build().map_err(|error| {
            let cause = super::failure::cause(&error);
            Usage(format!("cannot use the certificates of this system: {cause}; name others with --ca-file"))
        })
    }

    fn headers(&self) -> Result<HeaderMap, Usage> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let mut value = HeaderValue::try_from(format!("Bearer {}", token.0.trim()))
                .map_err(|_| Usage("--token: contains characters that no token has".into()))?;
            value.set_sensitive(true);
            headers.insert(reqwest::header::AUTHORIZATION, value);
        }
        Ok(headers)
    }
}

/// Parses the URL of a server, which may have a path if a proxy serves it below one.
fn parse(text: &str) -> Result<Url, Usage> {
    let wrong = |problem: &str| Usage(format!("invalid server URL: {problem}; expected https://punctual.example"));
    let url = Url::parse(text.trim()).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(wrong(&format!("unsupported scheme `{}`", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it contains a user or a password; servers are accessed with --token"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it has a query or a fragment"));
    }
    Ok(url)
}

fn certificates(file: &Path) -> Result<Vec<Certificate>, Usage> {
    let shown = file.display();
    let pem = fs::read(file).map_err(|error| Usage(format!("--ca-file: cannot read {shown}: {error}")))?;
    let found = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| Usage(format!("--ca-file: {shown} contains no valid certificate; expected a PEM file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_servers_are_accepted_and_no_password_is_repeated() {
        for good in ["https://punctual.example", "http://127.0.0.1:7878/", "https://ops.example/punctual"] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for (bad, problem) in [
            ("", "invalid server URL: relative URL without a base"),
            ("punctual.example:443", "unsupported scheme `punctual.example`"),
            ("sqlite:punctual.db", "unsupported scheme `sqlite`"),
            ("https://ada:opensesame@punctual.example", "it contains a user or a password"),
            ("https://punctual.example/?token=opensesame", "it has a query or a fragment"),
            ("https://", "empty host"),
        ] {
            let refused = parse(bad).unwrap_err().to_string();
            assert!(refused.contains(problem) && !refused.contains("opensesame"), "{bad}: {refused}");
        }
    }

    #[test]
    fn a_token_is_in_no_debug_output() {
        let token = Some(Secret("opensesame".into()));
        let settings = ServerSettings::new("https://punctual.example", token, None, Duration::from_secs(1)).unwrap();
        let client = settings.client().map(|client| format!("{client:?}")).unwrap_or_default();
        assert!(!format!("{settings:?} {client}").contains("opensesame"));
    }
}
