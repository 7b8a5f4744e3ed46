//! The routes, with the layers that every request and response passes through.

use std::{any::Any, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{MethodFilter, get, on},
};
use punctual_client::trace;
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::CatchPanicLayer,
    compression::CompressionLayer,
    request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer},
    set_header::SetResponseHeaderLayer,
    trace::TraceLayer,
};

use crate::{
    app::App,
    dashboard, health, metrics, openapi,
    problem::{Code, Problem},
    request::trace_of,
    router, unread,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Builds the service.
pub(crate) fn service(app: Arc<App>) -> Router {
    let routes = router::routes();
    let document: Arc<str> = openapi::document(&routes).to_string().into();
    let document = move || async move { ([(header::CONTENT_TYPE, "application/json")], document.to_string()) };
    let mut router = probe_routes().route("/v1/openapi.json", get(document));
    for route in routes {
        let (path, route) = (route.path, Arc::new(route));
        let Ok(method) = MethodFilter::try_from(route.method.clone()) else { continue };
        let serve = move |State(app): State<Arc<App>>, request: Request| {
            let route = Arc::clone(&route);
            async move { route.serve(&app, request).await.unwrap_or_else(IntoResponse::into_response) }
        };
        router = router.route(path, on(method, serve));
    }
    let has_tls = app.has_tls;
    let router = dashboard::add_to(router)
        .fallback(dashboard::not_found)
        .method_not_allowed_fallback(|| async { Problem::new(Code::NotAllowed, "method not allowed for this path") })
        .with_state(app);
    with_layers(router, has_tls)
}

/// Builds the service of a worker's health endpoints: no API, no dashboard.
pub(crate) fn probes(app: Arc<App>) -> Router {
    let has_tls = app.has_tls;
    let not_found = || async { Problem::not_found("path not found; expected /healthz, /readyz or /metrics") };
    with_layers(probe_routes().fallback(not_found).with_state(app), has_tls)
}

/// The routes for probes and for Prometheus.
fn probe_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::serve))
}

/// Adds the layers that every request and response passes through.
fn with_layers(router: Router, has_tls: bool) -> Router {
    let header = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
    };
    let layers = ServiceBuilder::new()
        .layer(SetRequestIdLayer::new(REQUEST_ID, RandomIds))
        .layer(TraceLayer::new_for_http().make_span_with(span).on_response(answered))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::X_FRAME_OPTIONS, "DENY"))
        .layer(header(header::REFERRER_POLICY, "same-origin"))
        .layer(header(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"))
        .option_layer(has_tls.then(|| header(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000")))
        .layer(CompressionLayer::new())
        .layer(middleware::from_fn(unread::finish))
        .layer(CatchPanicLayer::custom(panicked));
    router.layer(layers)
}

/// The span of a request. It has no query, which may contain personal data.
fn span(request: &Request) -> tracing::Span {
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).unwrap_or_default();
    let span = tracing::debug_span!(
        "http",
        otel.kind = "server",
        id,
        http.request.method = %request.method(),
        url.path = request.uri().path(),
        http.response.status_code = tracing::field::Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if let Some(parent) = trace_of(request.headers()) {
        trace::adopt(&span, &parent);
    }
    if let Some(route) = request.extensions().get::<MatchedPath>() {
        trace::name(&span, || format!("{} {}", request.method(), route.as_str()));
        trace::describe(&span, "http.route", route.as_str());
    }
    span
}

/// Records the response in the request's span.
fn answered<B>(response: &axum::http::Response<B>, took: Duration, span: &tracing::Span) {
    let status = response.status();
    tracing::debug!(status = status.as_u16(), took_ms = took.as_secs_f64() * 1_000.0, "answered");
    if span.is_disabled() {
        return;
    }
    // Signed, because OpenTelemetry has no unsigned integers.
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        trace::fail(span, status.as_str(), status.canonical_reason().unwrap_or_default());
    }
}

fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!("a request handler panicked");
    let mut response = Problem::new(Code::Internal, "see the server's log").into_response();
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// Generates a request id unless the client has sent one.
#[derive(Clone, Copy)]
struct RandomIds;

impl MakeRequestId for RandomIds {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        HeaderValue::try_from(format!("{:032x}", fastrand::u128(..))).ok().map(RequestId::new)
    }
}
