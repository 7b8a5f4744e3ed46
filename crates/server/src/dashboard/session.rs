//! Login: a token is exchanged for a browser session.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header, request::Parts},
    response::Response,
};
use maud::{Markup, html};
use punctual_core::Role;
use serde::Deserialize;

use super::{
    is_own, layout,
    page_context::{add_cookie, html as document, redirect},
};
use crate::{
    app::{App, RequestLimits},
    auth::{self, SESSION_COOKIE},
    problem::{Code, Problem},
};

/// Lifetime of a session.
const SESSION: Duration = Duration::from_secs(12 * 3_600);

/// Maximum bytes of a login request, which needs no authentication.
const LOGIN_MAX_BYTES: usize = 8 * 1024;

/// The login form.
#[derive(Deserialize)]
struct Login {
    token: String,
    to: Option<String>,
}

/// The query parameters of the login page: the page to open after the login.
#[derive(Deserialize)]
pub(super) struct LoginQuery {
    to: Option<String>,
}

/// Redirects to the login page, which returns to the requested page afterwards.
pub(super) fn send_to_login(parts: &Parts) -> Response {
    let requested = parts.uri.path_and_query().map_or("/", |at| at.as_str());
    if parts.method != Method::GET || requested == "/" {
        return redirect("/login");
    }
    let to: String = form_urlencoded::byte_serialize(requested.as_bytes()).collect();
    redirect(&format!("/login?to={to}"))
}

pub(super) async fn page(request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let login = serde_html_form::from_str(query).unwrap_or(LoginQuery { to: None });
    document(StatusCode::OK, form(login.to.as_deref(), None))
}

pub(super) async fn log_in(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let login = async {
        check_site(&parts.headers)?;
        let limits = RequestLimits { body_max_bytes: LOGIN_MAX_BYTES.min(app.limits.body_max_bytes), ..app.limits };
        let body = limits.read(&parts.headers, body).await?;
        serde_html_form::from_bytes::<Login>(&body).map_err(|error| Problem::invalid("token", error.to_string()))
    };
    let login = match login.await {
        Ok(login) => login,
        Err(problem) => return refuse(None, &problem),
    };
    let to = login.to.filter(|to| is_own(to));
    match start_session(&app, login.token.trim()).await {
        Ok(secret) => {
            let mut response = redirect(to.as_deref().unwrap_or("/"));
            add_cookie(&mut response, &cookie(&app, &secret, SESSION));
            response
        }
        Err(problem) => refuse(to.as_deref(), &problem),
    }
}

async fn start_session(app: &App, secret: &str) -> Result<String, Problem> {
    let token = app.tokens.find(secret).await?;
    if token.session_of.is_some() || !token.allows(Role::Read) {
        return Err(Problem::new(Code::Forbidden, "the token needs the role read or admin to use the dashboard"));
    }
    let created = app.punctual.admin(&token.name).create_session(&token, SESSION).await?;
    app.tokens.clear_cache().await;
    tracing::info!(token = token.name, "logged in");
    Ok(created.secret)
}

fn refuse(to: Option<&str>, problem: &Problem) -> Response {
    document(problem.code.status(), form(to, Some(&problem.detail)))
}

pub(super) async fn log_out(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let end = async {
        let caller = auth::authenticate(&app.tokens, &parts.headers).await?;
        let body = app.limits.read(&parts.headers, body).await?;
        let proof = form_urlencoded::parse(&body).find(|(name, _)| name == "csrf").map(|(_, proof)| proof.into_owned());
        auth::check_csrf(&caller, proof.as_deref().map(str::as_bytes))?;
        if let Some(session) = caller.session() {
            app.punctual.admin(caller.name()).revoke_token(session.id, true).await?;
            app.tokens.clear_cache().await;
        }
        Ok::<(), Problem>(())
    };
    if let Err(problem) = end.await
        && problem.code != Code::Unauthorized
    {
        return layout::bare_problem(problem);
    }
    let mut response = redirect("/login");
    add_cookie(&mut response, &cookie(&app, "", Duration::ZERO));
    response
}

/// Refuses logins that pages of other sites send.
fn check_site(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let own = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
    match text(header::ORIGIN) {
        Some(origin) if !own(origin) => Err(Problem::new(Code::Forbidden, "cross-site request refused")),
        _ => Ok(()),
    }
}

fn cookie(app: &App, secret: &str, lifetime: Duration) -> String {
    let secure = if app.has_tls { "; Secure" } else { "" };
    let seconds = lifetime.as_secs();
    format!("{SESSION_COOKIE}={secret}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

fn form(to: Option<&str>, problem: Option<&str>) -> Markup {
    layout::bare(
        "Log in",
        &html! {
            h1 { "Punctual" }
            p.muted { "Log in with a token. Create one with " code { "punctual tokens create NAME --role admin" } "." }
            @if let Some(problem) = problem { p.wrong role="alert" { (problem) } }
            form method="post" action="/login" {
                @if let Some(to) = to { input type="hidden" name="to" value=(to); }
                label for="token" { "Token" }
                input #token type="password" name="token" required autofocus autocomplete="current-password"
                    placeholder="punctual_…" spellcheck="false";
                button.primary type="submit" { "Log in" }
            }
        },
    )
}
