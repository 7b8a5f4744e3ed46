//! One who listens to the stream: what they hear is sent, in order, for as long as they are there, may listen, and the
//! server runs.

use std::{sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket, WebSocketUpgrade, close_code};
use punctual_client::Subscription;
use punctual_core::{Error, Notification};
use tokio::time::{self, Instant, MissedTickBehavior};

use crate::{
    api::stream::{Cursor, Message, Wish},
    app::App,
    auth::Caller,
    event_feed::{Heard, Listener},
};

/// Bytes that a listener may send in one message: they need say nothing.
const HEARD_MAX_BYTES: usize = 4 * 1024;
/// Bytes that are read at once, and that are gathered before they are sent. Small, since many are idle.
const BUFFER_BYTES: usize = 1024;
/// Maximum duration of the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// A client that has left this many pings unanswered is gone.
const UNANSWERED_MAX_PINGS: u32 = 3;

/// How many may listen, how far they may be behind, and how it is found out that they are gone.
#[derive(Debug, Clone, Copy)]
pub struct StreamLimits {
    /// Sockets at once.
    pub sockets_max: usize,
    /// Looks at the store, four in a second, that a reader may be behind before they miss something.
    pub behind_max_looks: usize,
    /// Interval between pings. A client that leaves three pings unanswered is disconnected.
    pub ping_every: Duration,
    /// Maximum duration of sending one message; a client that does not read it by then is disconnected.
    pub send_timeout: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            sockets_max: 20_000,
            behind_max_looks: 32,
            ping_every: Duration::from_secs(20),
            send_timeout: Duration::from_secs(60),
        }
    }
}

/// What somebody listens to, and where they are.
pub(crate) struct Subscriber {
    pub(crate) wish: Wish,
    pub(crate) cursor: Cursor,
    /// The cursor that they were last told.
    pub(crate) sent: String,
    pub(crate) listener: Option<Listener>,
    pub(crate) subscription: Option<Subscription>,
}

/// Why a socket is closed, as its other end is told.
struct End(Option<(u16, &'static str)>);

const GONE: End = End(None);

/// A socket with small buffers, which takes only small messages.
pub(crate) fn bounded(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(HEARD_MAX_BYTES)
        .max_frame_size(HEARD_MAX_BYTES)
}

/// Serves a socket until it ends.
pub(crate) async fn serve(app: Arc<App>, caller: Caller, mut socket: WebSocket, mut ears: Subscriber) {
    let End(reason) = talk(&app, &caller, &mut socket, &mut ears).await;
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

async fn talk(app: &App, caller: &Caller, socket: &mut WebSocket, ears: &mut Subscriber) -> End {
    let every = app.stream.ping_every;
    let mut ticks = time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Counted, not timed: after a pause of this process, answers may have arrived that were not read yet.
    let mut unanswered_pings = 0;
    if let Err(end) = say(app, socket, &Message::Open { cursor: &ears.sent }).await {
        return end;
    }
    loop {
        let done = tokio::select! {
            () = app.stopping.cancelled() => return stopping(),
            frame = socket.recv() => match frame {
                Some(Ok(Frame::Close(_)) | Err(_)) | None => return GONE,
                Some(Ok(_)) => {
                    unanswered_pings = 0;
                    Ok(())
                }
            },
            heard = next_heard(&mut ears.listener) => tell(app, socket, ears, heard).await,
            told = next_told(&mut ears.subscription) => match told {
                Ok(told) => pass_on(app, socket, ears, &told).await,
                Err(error) => {
                    tracing::warn!(%error, "a listener cannot be told what there is");
                    return End(Some((close_code::AGAIN, "the store cannot be reached; try again later")));
                }
            },
            _ = ticks.tick() => {
                if unanswered_pings == UNANSWERED_MAX_PINGS {
                    return GONE;
                }
                unanswered_pings += 1;
                if !app.tokens.still_allows(app, caller).await {
                    return End(Some((close_code::POLICY, "the token was revoked or has expired")));
                }
                beat(app, socket, ears).await
            }
        };
        if let Err(end) = done {
            return end;
        }
    }
}

const fn stopping() -> End {
    End(Some((close_code::AWAY, "the server is shutting down")))
}

async fn next_heard(listener: &mut Option<Listener>) -> Heard {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

async fn next_told(subscription: &mut Option<Subscription>) -> Result<Notification, Error> {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

/// Tells what happened to jobs, and what is not told.
async fn tell(app: &App, socket: &mut WebSocket, ears: &mut Subscriber, heard: Heard) -> Result<(), End> {
    if let Some((events, since)) = heard.lost {
        // With the cursor of before: whoever comes back by it may still learn what it was.
        say(app, socket, &Message::Missed { cursor: &ears.sent, events: Some(events), since }).await?;
    }
    if let Some(listener) = &mut ears.listener {
        listener.has_heard(&heard);
        ears.cursor.events = Some(listener.cursor.clone());
    }
    let events: Vec<_> = heard.events().filter(|event| ears.wish.selects(event)).collect();
    let cursor = ears.cursor.to_string();
    if !events.is_empty() {
        say(app, socket, &Message::Events { cursor: &cursor, events }).await?;
        ears.sent.clone_from(&cursor);
    }
    if let Some(since) = heard.too_much() {
        say(app, socket, &Message::Missed { cursor: &cursor, events: None, since }).await?;
        ears.sent = cursor;
    }
    Ok(())
}

/// Passes on what the user was told, or everybody.
async fn pass_on(app: &App, socket: &mut WebSocket, ears: &mut Subscriber, told: &Notification) -> Result<(), End> {
    ears.cursor.notification = Some(told.id);
    if !ears.wish.hears(told) {
        return Ok(());
    }
    ears.sent = ears.cursor.to_string();
    let message = match told.user_id {
        Some(_) => Message::Notification { cursor: &ears.sent, told },
        None => Message::Broadcast { cursor: &ears.sent, told },
    };
    say(app, socket, &message).await
}

/// Asks whether they are still there, and says how far things have come.
async fn beat(app: &App, socket: &mut WebSocket, ears: &mut Subscriber) -> Result<(), End> {
    let cursor = ears.cursor.to_string();
    if cursor != ears.sent {
        ears.sent = cursor;
        say(app, socket, &Message::Heartbeat { cursor: &ears.sent }).await?;
    }
    send(app, socket, Frame::Ping(bytes::Bytes::new())).await
}

async fn say(app: &App, socket: &mut WebSocket, message: &Message<'_>) -> Result<(), End> {
    let Ok(text) = serde_json::to_string(message) else {
        return Err(End(Some((close_code::ERROR, "a fault of the server"))));
    };
    send(app, socket, Frame::Text(text.into())).await
}

/// Sends a frame. Whoever does not read it holds up nobody but themselves, and not for ever.
async fn send(app: &App, socket: &mut WebSocket, frame: Frame) -> Result<(), End> {
    tokio::select! {
        sent = time::timeout(app.stream.send_timeout, socket.send(frame)) => match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(GONE),
        },
        () = app.stopping.cancelled() => Err(stopping()),
    }
}
