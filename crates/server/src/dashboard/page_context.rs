//! The context of a request for a page.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::Markup;
use punctual_client::Admin;
use punctual_core::{Role, Timestamp};

use crate::{app::App, auth, request::RequestContext};

/// Cookie with the message that the next page shows after an action.
const FLASH_COOKIE: &str = "punctual_flash";
const FLASH_MAX_CHARS: usize = 300;

/// The request, its time, and where to return to.
#[derive(Clone)]
pub(super) struct PageContext {
    pub(super) request: Arc<RequestContext>,
    pub(super) now: Timestamp,
    /// The path and query of the page.
    pub(super) at: String,
    /// The page from which a form was sent.
    pub(super) back: Option<String>,
}

impl PageContext {
    pub(super) fn new(request: RequestContext, at: String) -> Self {
        let now = request.punctual().store().now();
        Self { request: Arc::new(request), now, at, back: None }
    }

    pub(super) fn app(&self) -> &App {
        &self.request.app
    }

    pub(super) fn admin(&self) -> Admin {
        self.request.admin()
    }

    /// Whether the user may change anything.
    pub(super) fn may_change(&self) -> bool {
        self.request.caller.has(Role::Admin)
    }

    /// The CSRF token of the session.
    pub(super) fn csrf(&self) -> &str {
        self.request.caller.csrf.as_deref().unwrap_or_default()
    }

    /// The message about the action that was performed before this page.
    pub(super) fn flash(&self) -> Option<String> {
        let message = auth::cookie(&self.request.headers, FLASH_COOKIE).filter(|message| !message.is_empty())?;
        form_urlencoded::parse(message.as_bytes())
            .next()
            .map(|(message, _)| message.chars().take(FLASH_MAX_CHARS).collect())
    }

    /// Removes the message once a page has shown it.
    pub(super) fn clear_flash(&self, response: &mut Response) {
        if self.flash().is_some() {
            add_cookie(response, &format!("{FLASH_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"));
        }
    }

    /// The server's origin, as the browser addresses it.
    pub(super) fn origin(&self) -> String {
        let host =
            self.request.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7878");
        format!("{}://{host}", if self.app().has_tls { "https" } else { "http" })
    }

    /// Redirects to the page of the form, or to `to`, which shows the message.
    pub(super) fn done(&self, to: &str, message: &str) -> Response {
        let to = self.back.as_deref().unwrap_or(to);
        let mut response = redirect(to);
        let message: String = message.chars().take(FLASH_MAX_CHARS).collect();
        let message: String = form_urlencoded::byte_serialize(message.as_bytes()).collect();
        add_cookie(&mut response, &format!("{FLASH_COOKIE}={message}; Path=/; Max-Age=30; HttpOnly; SameSite=Strict"));
        response
    }
}

/// Redirects to a page.
pub(super) fn redirect(to: &str) -> Response {
    // An address that is not a valid header value is replaced by the overview.
    let to = HeaderValue::try_from(to).unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

pub(super) fn add_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// An HTML document, which may run only scripts of this server and load nothing from elsewhere.
pub(super) fn html(status: StatusCode, page: Markup) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (status, headers, page.into_string()).into_response()
}
