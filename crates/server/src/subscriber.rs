//! A subscriber of the stream: receives its messages in order until it disconnects, loses its access, or the server
//! stops.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket, WebSocketUpgrade, close_code};
use punctual_client::Subscription;
use punctual_core::{Error, Notification};
use tokio::time::{self, Instant, MissedTickBehavior};

use crate::{
    app::App,
    auth::Caller,
    event_feed::{Delivery, Listener},
    stream_protocol::{Cursor, Message, StreamParams},
};

/// Maximum bytes of a message from a subscriber, which needs to send none.
const MESSAGE_MAX_BYTES: usize = 4 * 1024;
/// Read and write buffer of a socket. Small, since many sockets are idle.
const BUFFER_BYTES: usize = 1024;
/// Maximum duration of the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// A client that has left this many pings unanswered is gone.
const UNANSWERED_MAX_PINGS: u32 = 3;

/// A subscriber's filter and position.
pub(crate) struct Subscriber {
    pub(crate) params: StreamParams,
    pub(crate) cursor: Cursor,
    /// The last cursor that was sent.
    pub(crate) sent: String,
    pub(crate) listener: Option<Listener>,
    pub(crate) subscription: Option<Subscription>,
}

/// Close code and reason that are sent when a socket is closed.
struct CloseReason(Option<(u16, &'static str)>);

const DISCONNECTED: CloseReason = CloseReason(None);

/// Upgrades to a socket with small buffers and a small maximum message size.
pub(crate) fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(MESSAGE_MAX_BYTES)
        .max_frame_size(MESSAGE_MAX_BYTES)
}

/// Serves a socket until it ends.
pub(crate) async fn serve(app: Arc<App>, caller: Caller, mut socket: WebSocket, mut subscriber: Subscriber) {
    let CloseReason(reason) = run(&app, &caller, &mut socket, &mut subscriber).await;
    if let Some((code, reason)) = reason {
        let close = Frame::Close(Some(CloseFrame { code, reason: reason.into() }));
        let _ = time::timeout(CLOSE_TIMEOUT, close_with(&mut socket, close)).await;
    }
}

/// Sends the reason and reads until the client has answered: a connection that is closed with unread data is reset, and
/// the client may never see the reason.
async fn close_with(socket: &mut WebSocket, close: Frame) {
    if socket.send(close).await.is_ok() {
        while let Some(Ok(_)) = socket.recv().await {}
    }
}

async fn run(app: &App, caller: &Caller, socket: &mut WebSocket, subscriber: &mut Subscriber) -> CloseReason {
    let every = app.stream.ping_every;
    let mut ticks = time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Counted, not timed: after a pause of this process, answers may have arrived that were not read yet.
    let mut unanswered_pings = 0;
    if let Err(end) = send_message(app, socket, &Message::Open { cursor: &subscriber.sent }).await {
        return end;
    }
    loop {
        let done = tokio::select! {
            () = app.stopping.cancelled() => return stopping(),
            frame = socket.recv() => match frame {
                Some(Ok(Frame::Close(_)) | Err(_)) | None => return DISCONNECTED,
                Some(Ok(_)) => {
                    unanswered_pings = 0;
                    Ok(())
                }
            },
            delivery = next_delivery(&mut subscriber.listener) => send_events(app, socket, subscriber, delivery).await,
            notification = next_notification(&mut subscriber.subscription) => match notification {
                Ok(notification) => send_notification(app, socket, subscriber, &notification).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot read notifications for a stream subscriber");
                    return CloseReason(Some((close_code::AGAIN, "store unavailable; try again later")));
                }
            },
            _ = ticks.tick() => {
                if unanswered_pings == UNANSWERED_MAX_PINGS {
                    return DISCONNECTED;
                }
                unanswered_pings += 1;
                if !app.tokens.still_allows(caller).await {
                    return CloseReason(Some((close_code::POLICY, "the token was revoked or has expired")));
                }
                heartbeat(app, socket, subscriber).await
            }
        };
        if let Err(end) = done {
            return end;
        }
    }
}

const fn stopping() -> CloseReason {
    CloseReason(Some((close_code::AWAY, "the server is shutting down")))
}

async fn next_delivery(listener: &mut Option<Listener>) -> Delivery {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

async fn next_notification(subscription: &mut Option<Subscription>) -> Result<Notification, Error> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

/// Sends job events, and reports lost ones.
async fn send_events(
    app: &App,
    socket: &mut WebSocket,
    subscriber: &mut Subscriber,
    delivery: Delivery,
) -> Result<(), CloseReason> {
    if let Some((events, since)) = delivery.lost {
        // Sent with the previous cursor: a client that reconnects with it may still receive the lost events.
        send_message(app, socket, &Message::Missed { cursor: &subscriber.sent, events: Some(events), since }).await?;
    }
    if let Some(listener) = &mut subscriber.listener {
        listener.advance(&delivery);
        subscriber.cursor.events = Some(listener.cursor.clone());
    }
    let events: Vec<_> = delivery.events().filter(|event| subscriber.params.selects(event)).collect();
    let cursor = subscriber.cursor.to_string();
    if !events.is_empty() {
        send_message(app, socket, &Message::Events { cursor: &cursor, events }).await?;
        subscriber.sent.clone_from(&cursor);
    }
    if let Some(since) = delivery.truncated_at() {
        send_message(app, socket, &Message::Missed { cursor: &cursor, events: None, since }).await?;
        subscriber.sent = cursor;
    }
    Ok(())
}

/// Sends a notification or broadcast.
async fn send_notification(
    app: &App,
    socket: &mut WebSocket,
    subscriber: &mut Subscriber,
    notification: &Notification,
) -> Result<(), CloseReason> {
    subscriber.cursor.notification = Some(notification.id);
    if !subscriber.params.selects_notification(notification) {
        return Ok(());
    }
    subscriber.sent = subscriber.cursor.to_string();
    let message = match notification.user_id {
        Some(_) => Message::Notification { cursor: &subscriber.sent, notification },
        None => Message::Broadcast { cursor: &subscriber.sent, notification },
    };
    send_message(app, socket, &message).await
}

/// Pings the client, and sends the current cursor if it has moved.
async fn heartbeat(app: &App, socket: &mut WebSocket, subscriber: &mut Subscriber) -> Result<(), CloseReason> {
    let cursor = subscriber.cursor.to_string();
    if cursor != subscriber.sent {
        subscriber.sent = cursor;
        send_message(app, socket, &Message::Heartbeat { cursor: &subscriber.sent }).await?;
    }
    send(app, socket, Frame::Ping(bytes::Bytes::new())).await
}

async fn send_message(app: &App, socket: &mut WebSocket, message: &Message<'_>) -> Result<(), CloseReason> {
    let Ok(text) = serde_json::to_string(message) else {
        return Err(CloseReason(Some((close_code::ERROR, "internal server error"))));
    };
    send(app, socket, Frame::Text(text.into())).await
}

/// Sends a frame. The timeout disconnects a client that does not read; other subscribers are not affected.
async fn send(app: &App, socket: &mut WebSocket, frame: Frame) -> Result<(), CloseReason> {
    tokio::select! {
        sent = time::timeout(app.stream.send_timeout, socket.send(frame)) => match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(DISCONNECTED),
        },
        () = app.stopping.cancelled() => Err(stopping()),
    }
}
