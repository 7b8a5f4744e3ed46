//! A route of the API: path, role, parameters, body, answer. The router and the OpenAPI document are generated from the
//! same routes, so that they cannot differ.

use std::{any::TypeId, future::Future, sync::Arc};

use axum::{
    RequestPartsExt,
    body::Body,
    extract::{RawPathParams, Request, ws::WebSocketUpgrade},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use punctual_core::Role;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::{
    app::App,
    auth::{self, Caller},
    problem::{Code, Problem},
    request::{IdempotencyKey, RequestContext},
};

/// A route of the API.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) role: Role,
    /// What the route does, in one sentence.
    pub(crate) about: &'static str,
    /// Schema of the path and query parameters.
    pub(crate) params: Describe,
    pub(crate) body: Option<Describe>,
    /// Schema of the answer; `None` if it has no body.
    pub(crate) answer: Option<Describe>,
    /// The route is a socket; `answer` describes its messages.
    pub(crate) is_socket: bool,
    run: Run,
}

/// Writes the JSON schema of a type.
pub(crate) type Describe = fn(&mut SchemaGenerator) -> Schema;
type Run = Arc<
    dyn Fn(RequestContext, RawPathParams, Option<String>, Bytes) -> BoxFuture<'static, Result<Response, Problem>>
        + Send
        + Sync,
>;

/// No parameters, or an empty body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

fn describe<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}

/// The schema itself, instead of a reference to it.
fn describe_here<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    T::json_schema(schemas)
}

/// A route that reads.
pub(crate) fn get<Q, R, F, H>(path: &'static str, role: Role, about: &'static str, handler: H) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Future<Output = Result<R, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q) -> F + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    let run: Run = Arc::new(move |request, path, query, _| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let known_tag = request.headers.get(header::IF_NONE_MATCH).cloned();
            let answer = handler(request, params(&path, query.as_deref())?).await?;
            Ok(tagged(to_json(&answer)?, known_tag.as_ref()))
        })
    });
    let (params, answer) = (describe_here::<Q> as Describe, answer_of::<R>());
    Route { method: Method::GET, path, role, about, params, body: None, answer, is_socket: false, run }
}

/// What identifies and describes a route that changes something.
struct Endpoint {
    method: Method,
    path: &'static str,
    role: Role,
    about: &'static str,
}

/// A route that changes something.
fn write<Q, B, R, F, H>(endpoint: Endpoint, handler: H) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Future<Output = Result<R, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q, B) -> F + Send + Sync + 'static,
{
    let Endpoint { method, path, role, about } = endpoint;
    let handler = Arc::new(handler);
    // PUT replaces the stored value: a missing body would erase it.
    let needs_body = method == Method::PUT;
    let run: Run = Arc::new(move |request, path, query, body| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            if needs_body && body.is_empty() {
                return Err(Problem::invalid(
                    "body",
                    "must not be empty; expected a JSON object, {} to clear the settings",
                ));
            }
            let (params, body) = (params(&path, query.as_deref())?, parse(&request.headers, &body)?);
            let answer = handler(request, params, body).await?;
            if TypeId::of::<R>() == TypeId::of::<()>() {
                return Ok(StatusCode::NO_CONTENT.into_response());
            }
            Ok(json(to_json(&answer)?))
        })
    });
    let body = (TypeId::of::<B>() != TypeId::of::<Nothing>()).then_some(describe::<B> as Describe);
    let (params, answer) = (describe_here::<Q> as Describe, answer_of::<R>());
    Route { method, path, role, about, params, body, answer, is_socket: false, run }
}

/// A `POST` route that changes something.
pub(crate) fn post<Q, B, R, F, H>(path: &'static str, role: Role, about: &'static str, handler: H) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Future<Output = Result<R, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q, B) -> F + Send + Sync + 'static,
{
    write(Endpoint { method: Method::POST, path, role, about }, handler)
}

/// A `PUT` route: replaces a resource.
pub(crate) fn put<Q, B, R, F, H>(path: &'static str, role: Role, about: &'static str, handler: H) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Future<Output = Result<R, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q, B) -> F + Send + Sync + 'static,
{
    write(Endpoint { method: Method::PUT, path, role, about }, handler)
}

/// A `PATCH` route: changes parts of a resource.
pub(crate) fn patch<Q, B, R, F, H>(path: &'static str, role: Role, about: &'static str, handler: H) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Future<Output = Result<R, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q, B) -> F + Send + Sync + 'static,
{
    write(Endpoint { method: Method::PATCH, path, role, about }, handler)
}

/// A `DELETE` route: removes a resource.
pub(crate) fn delete<Q, B, R, F, H>(path: &'static str, role: Role, about: &'static str, handler: H) -> Route
where
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    B: DeserializeOwned + JsonSchema + Send + 'static,
    R: Serialize + JsonSchema + 'static,
    F: Future<Output = Result<R, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q, B) -> F + Send + Sync + 'static,
{
    write(Endpoint { method: Method::DELETE, path, role, about }, handler)
}

/// A route that is a socket; `M` is the type of its messages.
pub(crate) fn listen<M, Q, F, H>(path: &'static str, role: Role, about: &'static str, handler: H) -> Route
where
    M: JsonSchema + 'static,
    Q: DeserializeOwned + JsonSchema + Send + 'static,
    F: Future<Output = Result<Response, Problem>> + Send + 'static,
    H: Fn(RequestContext, Q, WebSocketUpgrade) -> F + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    let run: Run = Arc::new(move |mut request, path, query, _| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let upgrade =
                request.upgrade.take().ok_or_else(|| Problem::invalid("Upgrade", "expected a WebSocket upgrade"))?;
            handler(request, params(&path, query.as_deref())?, upgrade).await
        })
    });
    let (params, answer) = (describe_here::<Q> as Describe, Some(describe::<M> as Describe));
    Route { method: Method::GET, path, role, about, params, body: None, answer, is_socket: true, run }
}

fn answer_of<R: JsonSchema + 'static>() -> Option<Describe> {
    (TypeId::of::<R>() != TypeId::of::<()>()).then_some(describe::<R> as Describe)
}

impl Route {
    /// Serves a request: authenticates it, parses it and runs the handler.
    pub(crate) async fn serve(&self, app: &Arc<App>, request: Request) -> Result<Response, Problem> {
        let (mut parts, body) = request.into_parts();
        let caller = auth::caller(&app.tokens, &parts.method, &parts.headers).await?;
        caller.must_have(self.role)?;
        let path =
            parts.extract::<RawPathParams>().await.map_err(|error| Problem::invalid("path", error.to_string()))?;
        let upgrade = if self.is_socket { Some(upgrade(&caller, &mut parts).await?) } else { None };
        let body = app.limits.read(&parts.headers, body).await?;
        let idempotency_key = idempotency_key(&parts.headers, parts.uri.path(), &body)?;
        let query = parts.uri.query().map(str::to_owned);
        let peer = parts.extensions.get().cloned();
        let request =
            RequestContext { app: Arc::clone(app), caller, headers: parts.headers, idempotency_key, upgrade, peer };
        (self.run)(request, path, query, body).await
    }
}

/// The upgrade to a socket, refused to pages of other sites.
async fn upgrade(caller: &Caller, parts: &mut Parts) -> Result<WebSocketUpgrade, Problem> {
    auth::check_origin(caller, &parts.headers)?;
    let upgrade = parts.extract::<WebSocketUpgrade>().await;
    upgrade.map_err(|error| Problem::invalid("Upgrade", format!("expected a WebSocket upgrade over HTTP/1.1: {error}")))
}

/// The idempotency key of a request, if it has one.
fn idempotency_key(headers: &HeaderMap, path: &str, body: &[u8]) -> Result<Option<IdempotencyKey>, Problem> {
    const KEY: &str = "idempotency-key";
    const KEY_MAX_CHARS: usize = 255;
    let Some(key) = headers.get(KEY) else { return Ok(None) };
    let key = key.to_str().ok().filter(|key| (1..=KEY_MAX_CHARS).contains(&key.len()));
    let key = key.ok_or_else(|| {
        Problem::invalid("Idempotency-Key", format!("must be 1 to {KEY_MAX_CHARS} visible ASCII characters"))
    })?;
    let mut hash = Sha256::new();
    hash.update((path.len() as u64).to_le_bytes());
    hash.update(path);
    hash.update(body);
    Ok(Some(IdempotencyKey { key: key.to_owned(), fingerprint: hash.finalize().into() }))
}

/// Parses path and query parameters as one set.
pub(crate) fn params<Q: DeserializeOwned>(path: &RawPathParams, query: Option<&str>) -> Result<Q, Problem> {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(path.iter());
    let mut text = text.finish();
    if let Some(query) = query {
        text.push('&');
        text.push_str(query);
    }
    let pairs = serde_html_form::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| located(&error, "query"))
}

/// Parses a form of a page together with the path parameters, without the fields that all forms carry.
pub(crate) fn form<B: DeserializeOwned>(path: &RawPathParams, body: &[u8], carried: &[&str]) -> Result<B, Problem> {
    let own = form_urlencoded::parse(body).filter(|(name, _)| !carried.contains(&&**name));
    let text = form_urlencoded::Serializer::new(String::new()).extend_pairs(own).finish();
    params(path, Some(&text))
}

/// Parses a JSON body. An absent body counts as `{}`.
fn parse<B: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<B, Problem> {
    if body.is_empty() {
        return serde_json::from_str("{}").map_err(|error| Problem::invalid("body", error.to_string()));
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(Code::NotJson, "invalid Content-Type: expected application/json"));
    }
    // Deserializing would accept an array as the fields in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::invalid("body", "must be a JSON object"));
    }
    let mut text = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut text).map_err(|error| located(&error, "body"))?;
    text.end().map_err(|error| Problem::invalid("body", error.to_string()))?;
    Ok(parsed)
}

/// A problem that names the invalid field, or `whole` if no field is known.
fn located<E: std::fmt::Display>(error: &serde_path_to_error::Error<E>, whole: &str) -> Problem {
    let path = error.path().to_string();
    Problem::invalid(if path == "." { whole.to_owned() } else { path }, error.inner().to_string())
}

fn to_json<R: Serialize>(answer: &R) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(answer)
        .map_err(|error| Problem::new(Code::Internal, format!("the response cannot be written as JSON: {error}")))
}

fn json(body: Vec<u8>) -> Response {
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))], body)
        .into_response()
}

/// A JSON response with an `ETag`, or 304 if the client has this version already.
fn tagged(body: Vec<u8>, known_tag: Option<&HeaderValue>) -> Response {
    let digest = Sha256::digest(&body);
    let digits: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("W/\"{digits}\"");
    let known_tags = known_tag.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_known = known_tags.split(',').any(|known| known.trim() == tag);
    let mut response = if is_known { (StatusCode::NOT_MODIFIED, Body::empty()).into_response() } else { json(body) };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    // A browser may cache the response, but must revalidate it each time.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}
