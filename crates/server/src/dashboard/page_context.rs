//! Somebody looks at a page.

use std::sync::Arc;

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::Markup;
use punctual_client::Admin;
use punctual_core::{Role, Timestamp};

use super::layout;
use crate::{app::App, auth, call::Call};

/// Tells the next page what was done.
const SAID_COOKIE: &str = "punctual_said";
const SAID_MAX_CHARS: usize = 300;

/// Who looks, at what, and when.
#[derive(Clone)]
pub(super) struct PageContext {
    pub(super) call: Arc<Call>,
    pub(super) now: Timestamp,
    /// The address, with its query.
    pub(super) at: String,
    /// Where a form was sent from.
    pub(super) back: Option<String>,
}

impl PageContext {
    pub(super) fn new(call: Call, at: String) -> Self {
        let now = call.punctual().store().now();
        Self { call: Arc::new(call), now, at, back: None }
    }

    pub(super) fn app(&self) -> &App {
        &self.call.app
    }

    pub(super) fn admin(&self) -> Admin {
        self.call.admin()
    }

    /// Whether they may change anything.
    pub(super) fn may_change(&self) -> bool {
        self.call.caller.has(Role::Admin)
    }

    /// What their forms carry.
    pub(super) fn csrf(&self) -> &str {
        self.call.caller.csrf.as_deref().unwrap_or_default()
    }

    /// What was done a moment ago.
    pub(super) fn said(&self) -> Option<String> {
        let said = auth::cookie(&self.call.headers, SAID_COOKIE).filter(|said| !said.is_empty())?;
        form_urlencoded::parse(said.as_bytes()).next().map(|(said, _)| said.chars().take(SAID_MAX_CHARS).collect())
    }

    /// Where the server is, as the browser calls it.
    pub(super) fn origin(&self) -> String {
        let host = self.call.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7878");
        format!("{}://{host}", if self.app().has_tls { "https" } else { "http" })
    }

    /// A whole page.
    pub(super) fn html(&self, page: layout::Page<'_>, content: &Markup) -> Response {
        let mut response = html(StatusCode::OK, layout::page(self, page, content));
        if self.said().is_some() {
            add_cookie(&mut response, &format!("{SAID_COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"));
        }
        response
    }

    /// Back to where the form was, or to that page, with a word of what was done.
    pub(super) fn done(&self, to: &str, said: &str) -> Response {
        let to = self.back.as_deref().unwrap_or(to);
        let mut response = redirect(to);
        let said: String = said.chars().take(SAID_MAX_CHARS).collect();
        let said: String = form_urlencoded::byte_serialize(said.as_bytes()).collect();
        add_cookie(&mut response, &format!("{SAID_COOKIE}={said}; Path=/; Max-Age=30; HttpOnly; SameSite=Strict"));
        response
    }
}

/// To another page.
pub(super) fn redirect(to: &str) -> Response {
    // What cannot be a header cannot be an address either.
    let to = HeaderValue::try_from(to).unwrap_or_else(|_| HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

pub(super) fn add_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// A document, which runs no script but ours and loads nothing from elsewhere.
pub(super) fn html(status: StatusCode, page: Markup) -> Response {
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    (status, headers, page.into_string()).into_response()
}
