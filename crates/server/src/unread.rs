//! Handles requests that are refused before their body was read. A short remainder is read and dropped, so that the
//! connection can be reused; otherwise the answer closes the connection, because the next request on it would be read
//! from the middle of that body.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    extract::Request,
    http::{HeaderValue, Version, header},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::time;

/// Maximum bytes of an unread body that are read and dropped.
const DRAIN_MAX_BYTES: usize = 64 * 1024;
/// Timeout for reading them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Answers a request, then drops the rest of its body or closes the connection.
pub(crate) async fn finish(request: Request, next: Next) -> Response {
    let is_http1 = matches!(request.version(), Version::HTTP_10 | Version::HTTP_11);
    if !is_http1 || request.body().is_end_stream() {
        return next.run(request).await;
    }
    // A client that sent `Expect` waits for `100 Continue` before it sends its body: reading would request the body.
    let waits = request.headers().contains_key(header::EXPECT);
    let (parts, body) = request.into_parts();
    let body = SharedBody(Arc::new(Mutex::new(body)));
    let mut rest = SharedBody(Arc::clone(&body.0));
    let mut response = next.run(Request::from_parts(parts, Body::new(body))).await;
    let is_read = rest.is_end_stream() || !waits && drain(&mut rest).await;
    if !is_read {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads the rest of a body if it is short; returns whether its end was reached.
async fn drain(rest: &mut SharedBody) -> bool {
    if rest.size_hint().lower() > DRAIN_MAX_BYTES as u64 {
        return false;
    }
    let reading = async {
        let mut read = 0;
        while let Some(frame) = rest.frame().await {
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > DRAIN_MAX_BYTES {
                return false;
            }
        }
        true
    };
    time::timeout(DRAIN_TIMEOUT, reading).await.unwrap_or(false)
}

/// A shared request body: the part that its reader leaves unread can be read after the reader is dropped.
struct SharedBody(Arc<Mutex<Body>>);

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Pin::new(&mut *body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}
