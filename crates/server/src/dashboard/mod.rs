//! The dashboard: pages rendered here, which can be read without JavaScript.
//!
//! | question | file |
//! |---|---|
//! | which pages exist, and which role do they need? | here |
//! | what is on a page? | `overview`, `jobs`, `job`, `workflows`, `schedules`, `queues`, `queue`, `workers`, `reports`, `notifications`, `api` |
//! | what surrounds it? | `layout` |
//! | what is the context of a request? | `page_context` |
//! | how are times, statuses and ids shown? | `components`, `chart` |
//! | how does a user log in? | `session` |
//! | how do open pages update? | `live`, `assets` |

mod api;
mod assets;
mod chart;
mod components;
mod job;
mod jobs;
mod layout;
mod live;
mod notifications;
mod overview;
mod page_context;
mod queue;
mod queues;
mod reports;
mod schedules;
mod session;
mod workers;
mod workflows;

use std::{future::Future, sync::Arc};

use axum::{
    RequestPartsExt, Router,
    extract::{RawPathParams, Request, State},
    http::Method,
    response::Response,
    routing::{MethodFilter, get, on},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use punctual_core::Role::{self, Admin, Read};
use serde::{Deserialize, de::DeserializeOwned};

use self::page_context::PageContext;
use crate::{
    app::App,
    auth,
    problem::{Code, Problem},
    request::RequestContext,
    route,
};

/// The result of a page handler.
type Answer = Result<Response, Problem>;

/// A page, or an action of its forms.
pub(crate) struct PageRoute {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) role: Role,
    run: Run,
}

type Run = Arc<
    dyn Fn(PageContext, RawPathParams, Option<String>, Bytes) -> BoxFuture<'static, Result<Response, Problem>>
        + Send
        + Sync,
>;

/// All pages and form actions.
pub(crate) fn pages() -> Vec<PageRoute> {
    vec![
        page("/", overview::show),
        page("/jobs", jobs::show),
        page("/jobs/{id}", job::show),
        form("/jobs/{id}/{verb}", job::act),
        form("/bulk", jobs::bulk),
        page("/workflows", workflows::list),
        page("/workflows/{id}", workflows::show),
        form("/workflows/{id}/{verb}", workflows::act),
        page("/schedules", schedules::list),
        page("/schedules/{name}", schedules::show),
        form("/schedules/{name}/{verb}", schedules::act),
        page("/queues", queues::show),
        page("/queues/{name}", queue::show),
        form("/queues/{name}/pause", queue::pause),
        form("/queues/{name}/resume", queue::resume),
        form("/queues/{name}/limits", queue::set_limits),
        form("/queues/{name}/defaults", queue::set_defaults),
        page("/workers", workers::show),
        page("/locks", workers::locks),
        form("/locks/{name}/free", workers::free),
        page("/reports", reports::show),
        page("/notifications", notifications::show),
        page("/api", api::show),
        page("/live", live::stream),
    ]
}

/// Adds the pages to the router.
pub(crate) fn add_to(mut router: Router<Arc<App>>) -> Router<Arc<App>> {
    router = router
        .route("/login", get(session::page).post(session::log_in))
        .route("/logout", axum::routing::post(session::log_out))
        .route("/assets/{file}", get(assets::serve));
    for page in pages() {
        let (path, page) = (page.path, Arc::new(page));
        let Ok(method) = MethodFilter::try_from(page.method.clone()) else { continue };
        let serve = move |State(app): State<Arc<App>>, request: Request| {
            let page = Arc::clone(&page);
            async move { page.serve(app, request).await }
        };
        router = router.route(path, on(method, serve));
    }
    router
}

/// A page, which needs the role `read`.
fn page<Q, F, H>(path: &'static str, handler: H) -> PageRoute
where
    Q: DeserializeOwned + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
    H: Fn(PageContext, Q) -> F + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    let run: Run = Arc::new(move |context, path, query, _| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler(context, route::params(&path, query.as_deref())?).await })
    });
    PageRoute { method: Method::GET, path, role: Read, run }
}

/// The action of a form, for administrators only.
fn form<B, F, H>(path: &'static str, handler: H) -> PageRoute
where
    B: DeserializeOwned + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
    H: Fn(PageContext, B) -> F + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    let run: Run = Arc::new(move |context, path, _, body| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler(context, route::form(&path, &body, &["csrf", "back"])?).await })
    });
    PageRoute { method: Method::POST, path, role: Admin, run }
}

/// The hidden fields of every form.
#[derive(Deserialize)]
struct Proof {
    #[serde(default)]
    csrf: String,
    back: Option<String>,
}

impl PageRoute {
    async fn serve(&self, app: Arc<App>, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let caller = match auth::authenticate(&app.tokens, &parts.headers).await {
            Ok(caller) => caller,
            Err(problem) if problem.code == Code::Unauthorized => return session::send_to_login(&parts),
            Err(problem) => return layout::bare_problem(problem),
        };
        let at = parts.uri.path_and_query().map_or("/", |at| at.as_str()).to_owned();
        let request = RequestContext {
            app: Arc::clone(&app),
            caller,
            headers: parts.headers.clone(),
            idempotency_key: None,
            upgrade: None,
            peer: None,
        };
        let mut context = PageContext::new(request, at);
        let answer = async {
            context.request.caller.must_have(self.role)?;
            let path =
                parts.extract::<RawPathParams>().await.map_err(|error| Problem::invalid("path", error.to_string()))?;
            let body = app.limits.read(&parts.headers, body).await?;
            if self.method == Method::POST {
                let proof: Proof = route::form(&path, &body, &[])?;
                auth::check_csrf(&context.request.caller, Some(proof.csrf.as_bytes()))?;
                context.back = proof.back.filter(|back| is_own(back));
            }
            (self.run)(context.clone(), path, parts.uri.query().map(str::to_owned), body).await
        };
        match answer.await {
            Ok(response) => response,
            Err(problem) => layout::problem(&context, problem),
        }
    }
}

/// Whether a URL is a path of this server.
fn is_own(address: &str) -> bool {
    // Browsers remove tabs and line breaks from a URL, and treat a backslash as a slash, before they search it for a
    // host.
    let is_path = address.strip_prefix('/').is_some_and(|rest| !rest.starts_with('/'));
    is_path && !address.contains(|c: char| c == '\\' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn redirects_lead_to_paths_of_this_server_only() {
        assert!(is_own("/") && is_own("/jobs?status=dead"));
        let foreign = ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: x"];
        let hidden = ["/\t/evil.example", "\t//evil.example", "/\n/evil.example", "/\u{0}/evil.example", "jobs"];
        for foreign in foreign.into_iter().chain(hidden) {
            assert!(!is_own(foreign), "{foreign:?}");
        }
    }
}
