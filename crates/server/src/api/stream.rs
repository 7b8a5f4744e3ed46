//! The live stream.

use axum::{extract::ws::WebSocketUpgrade, response::Response};
use punctual_client::Subscription;
use punctual_core::StoreError;

use crate::{
    event_feed::Listener,
    problem::{Code, Problem},
    request::RequestContext,
    stream_protocol::{Cursor, Kind, StreamParams},
    subscriber::{self, Subscriber},
};

fn invalid_cursor() -> Problem {
    Problem::invalid("cursor", "invalid cursor; expected the cursor of the last message, or none to start now")
}

pub(crate) async fn open(
    request: RequestContext,
    params: StreamParams,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Problem> {
    if params.user.is_none() && params.kind.contains(&Kind::Notifications) {
        return Err(Problem::invalid("user", "is required for notifications"));
    }
    let Ok(slot) = std::sync::Arc::clone(&request.app.sockets).try_acquire_owned() else {
        return Err(Problem::new(Code::Unavailable, "too many stream subscribers; try again later"));
    };
    let from = params.cursor.as_deref().map(|text| Cursor::parse(text).ok_or_else(invalid_cursor)).transpose()?;
    let (after, since) = from.map(|from| (from.notification, from.events)).unwrap_or_default();
    let listener = listener(&request, &params, since.as_deref()).await?;
    let (notification, subscription) = subscription(&request, &params, after).await?.unzip();
    let cursor = Cursor { notification, events: listener.as_ref().map(|listener| listener.cursor.clone()) };
    let subscriber = Subscriber { params, sent: cursor.to_string(), cursor, listener, subscription };
    let alive = request.app.open_sockets.token();
    Ok(subscriber::bounded(upgrade).on_upgrade(move |socket| async move {
        subscriber::serve(request.app, request.caller, socket, subscriber).await;
        drop((slot, alive));
    }))
}

async fn listener(
    request: &RequestContext,
    params: &StreamParams,
    since: Option<&str>,
) -> Result<Option<Listener>, Problem> {
    if !params.wants(Kind::Events) {
        return Ok(None);
    }
    match request.app.event_feed.subscribe(since).await {
        Ok(listener) => Ok(Some(listener)),
        Err(StoreError::BadCursor(_)) => Err(invalid_cursor()),
        Err(error) => Err(error.into()),
    }
}

async fn subscription(
    request: &RequestContext,
    params: &StreamParams,
    after: Option<u64>,
) -> Result<Option<(u64, Subscription)>, Problem> {
    if !params.wants(Kind::Notifications) && !params.wants(Kind::Broadcasts) {
        return Ok(None);
    }
    let after = match after {
        Some(after) => after,
        None => request.punctual().store().last_notification().await?,
    };
    // No user has an empty name, so that only notifications to all users arrive.
    let user = params.user.clone().unwrap_or_default();
    Ok(Some((after, request.punctual().subscribe(user, Some(after)).await?)))
}
