//! Authentication: by API token, by browser session, or, on loopback addresses while no tokens exist, without any.

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::http::{HeaderMap, Method, header, uri::Authority};
use punctual_client::{Punctual, admin::hash_secret};
use punctual_core::{Role, Token, TokenId};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::{
    sync::{Mutex, Semaphore},
    time::{self, Instant},
};

use crate::problem::{Code, Problem};

/// The session cookie. Only this server reads it.
pub(crate) const SESSION_COOKIE: &str = "punctual_session";
/// The header with the CSRF token, sent by scripts of the dashboard.
const CSRF_HEADER: &str = "x-csrf-token";
/// How long the list of tokens is cached: the maximum delay before a revoked token is refused.
const CACHE_MAX_AGE: Duration = Duration::from_secs(1);
/// Delay of the answer to an invalid token.
const PENALTY: Duration = Duration::from_millis(500);
/// Maximum number of requests delayed by [`PENALTY`] at the same time; further ones are refused at once.
const PENALTY_MAX_COUNT: usize = 64;

/// The authenticated sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// `None` on a server that is open.
    token: Option<Token>,
    /// The CSRF token of the session.
    pub(crate) csrf: Option<String>,
}

impl Caller {
    /// The caller's name, recorded with every action.
    pub(crate) fn name(&self) -> String {
        self.token.as_ref().map_or_else(|| "local".to_owned(), |token| format!("token:{}", token.name))
    }

    /// The caller's id, for internal keys; it is not displayed.
    pub(crate) fn id(&self) -> String {
        self.token_id().map_or_else(|| "local".to_owned(), |id| id.to_string())
    }

    /// The id of the caller's token; for a session, of the token that it was started with.
    pub(crate) fn token_id(&self) -> Option<TokenId> {
        self.token.as_ref().map(|token| token.session_of.unwrap_or(token.id))
    }

    /// The browser session, if the caller is one.
    pub(crate) fn session(&self) -> Option<&Token> {
        self.token.as_ref().filter(|token| token.session_of.is_some())
    }

    /// The name that pages display.
    pub(crate) fn display_name(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.name.as_str())
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.token.as_ref().is_none_or(|token| token.allows(role))
    }

    pub(crate) fn must_have(&self, role: Role) -> Result<(), Problem> {
        if self.has(role) {
            return Ok(());
        }
        Err(Problem::new(Code::Forbidden, format!("requires a token with the role {role}")))
    }
}

/// Authenticates an API request and, unless its method is safe, checks its CSRF token.
pub(crate) async fn caller(tokens: &Tokens, method: &Method, headers: &HeaderMap) -> Result<Caller, Problem> {
    let caller = authenticate(tokens, headers).await?;
    if !method.is_safe() {
        check_csrf(&caller, headers.get(CSRF_HEADER).map(|value| value.as_bytes()))?;
    }
    Ok(caller)
}

/// Authenticates a request without a CSRF check: the handler of a form checks the token in the form's field.
pub(crate) async fn authenticate(tokens: &Tokens, headers: &HeaderMap) -> Result<Caller, Problem> {
    if let Some(secret) = bearer(headers)? {
        let token = tokens.find(secret).await?;
        if token.session_of.is_some() {
            return Err(Problem::new(Code::Unauthorized, "invalid token: this is the secret of a browser session"));
        }
        return Ok(Caller { token: Some(token), csrf: None });
    }
    if let Some(secret) = cookie(headers, SESSION_COOKIE) {
        let known = tokens.known(secret, CACHE_MAX_AGE).await?.filter(|token| token.session_of.is_some());
        if let Some(token) = known {
            return Ok(Caller { token: Some(token), csrf: Some(csrf(secret)) });
        }
    }
    if tokens.may_be_absent && tokens.is_empty().await? {
        check_local(headers)?;
        return Ok(Caller { token: None, csrf: None });
    }
    Err(Problem::new(
        Code::Unauthorized,
        "authentication required: send a token as `Authorization: Bearer …`; create one with `punctual tokens create`",
    ))
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let bearer = value.to_str().ok().and_then(|value| value.split_once(' '));
    let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, secret)| secret.trim());
    bearer
        .map(Some)
        .ok_or_else(|| Problem::new(Code::Unauthorized, "invalid Authorization header: expected `Bearer …`"))
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// The CSRF token of a session: a digest of the session's secret, so that it cannot be made without the secret.
fn csrf(secret: &str) -> String {
    let digest = Sha256::new().chain_update("csrf:").chain_update(secret).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses requests of a session without its CSRF token: another site may have made the browser send them.
pub(crate) fn check_csrf(caller: &Caller, proof: Option<&[u8]>) -> Result<(), Problem> {
    let Some(expected) = &caller.csrf else { return Ok(()) };
    if proof.is_some_and(|proof| bool::from(proof.ct_eq(expected.as_bytes()))) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "invalid CSRF token; reload the page"))
}

/// Refuses a socket that a page of another site opens with a session of this server: browsers send the cookie along,
/// and let any page read the messages of the socket.
pub(crate) fn check_origin(caller: &Caller, headers: &HeaderMap) -> Result<(), Problem> {
    if caller.csrf.is_none() || is_own_origin(headers) == Some(true) {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "cross-site request refused; authenticate with a token instead of a session"))
}

/// Whether the `Origin` of the request is this server; `None` if the request has no `Origin`.
fn is_own_origin(headers: &HeaderMap) -> Option<bool> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    Some(origin.split_once("://").is_some_and(|(_, authority)| authority == host && !host.is_empty()))
}

/// An open server answers only requests to a loopback name or address, and none that pages of other sites send.
/// Otherwise any page that a browser on this machine opens could use the API.
fn check_local(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |what: &str| {
        let detail = format!(
            "{what}; while no tokens exist, only requests from this machine are accepted: create a token with `punctual tokens create`"
        );
        Err(Problem::new(Code::Forbidden, detail))
    };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !is_local_name(host) {
        return refused("the host name of the request is not a loopback name");
    }
    if is_own_origin(headers) == Some(false) {
        return refused("cross-site request refused");
    }
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    if site.is_some_and(|site| site == "cross-site") {
        return refused("cross-site request refused");
    }
    Ok(())
}

fn is_local_name(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_matches(['[', ']']);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The tokens of the store, cached for a short time.
pub(crate) struct Tokens {
    punctual: Punctual,
    /// The server listens on a loopback address only, so that it may answer without tokens while none exist.
    may_be_absent: bool,
    known: Mutex<Option<(Instant, Arc<Vec<Token>>)>>,
    penalties: Semaphore,
}

impl Tokens {
    pub(crate) fn new(punctual: Punctual, may_be_absent: bool) -> Self {
        Self { punctual, may_be_absent, known: Mutex::default(), penalties: Semaphore::new(PENALTY_MAX_COUNT) }
    }

    /// All tokens, sessions included, from a cache not older than `age`.
    pub(crate) async fn all(&self, age: Duration) -> Result<Arc<Vec<Token>>, Problem> {
        let mut known = self.known.lock().await;
        if let Some((at, tokens)) = &*known
            && at.elapsed() < age
        {
            return Ok(Arc::clone(tokens));
        }
        let tokens = Arc::new(self.punctual.store().tokens().await?);
        *known = Some((Instant::now(), Arc::clone(&tokens)));
        Ok(tokens)
    }

    /// The token with this secret. If the cache does not have it, the store is queried, because the token may be new;
    /// requests with invalid tokens are delayed, and the number of delayed requests is limited.
    pub(crate) async fn find(&self, secret: &str) -> Result<Token, Problem> {
        if let Some(token) = self.known(secret, CACHE_MAX_AGE).await? {
            return Ok(token);
        }
        let Ok(_slot) = self.penalties.try_acquire() else {
            return Err(Problem::new(Code::TooMany, "too many requests with invalid tokens; try again later"));
        };
        if let Some(token) = self.known(secret, Duration::ZERO).await? {
            return Ok(token);
        }
        time::sleep(PENALTY).await;
        Err(Problem::new(Code::Unauthorized, "invalid, expired or revoked token"))
    }

    /// The token with this secret, from a cache not older than `age`, if it is valid now.
    async fn known(&self, secret: &str, age: Duration) -> Result<Option<Token>, Problem> {
        let (hash, tokens) = (hash_secret(secret), self.all(age).await?);
        // Compares all tokens in constant time, so that timing reveals nothing.
        let matches = |token: &Token| bool::from(token.hash.ct_eq(&hash));
        let found = tokens.iter().fold(None, |found, token| if matches(token) { Some(token) } else { found });
        let now = self.punctual.store().now();
        Ok(found.filter(|token| token.is_valid(now)).cloned())
    }

    /// Whether a caller that was authenticated earlier is still valid. While the store does not answer, the caller
    /// stays valid.
    pub(crate) async fn still_allows(&self, caller: &Caller) -> bool {
        let Ok(tokens) = self.all(CACHE_MAX_AGE).await else { return true };
        match &caller.token {
            Some(own) => tokens.iter().any(|token| token.id == own.id && token.is_valid(self.punctual.store().now())),
            None => self.may_be_absent && self.is_empty().await.unwrap_or(true),
        }
    }

    /// Whether no token was created since the store was initialised or opened. Not cached: another process may have
    /// created the first one just now.
    async fn is_empty(&self) -> Result<bool, Problem> {
        Ok(self.punctual.store().tokens().await?.is_empty())
    }

    /// Clears the cache after a change.
    pub(crate) async fn clear_cache(&self) {
        *self.known.lock().await = None;
    }
}
