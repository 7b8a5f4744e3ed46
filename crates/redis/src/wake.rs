//! Wake-ups between processes, by a channel of Redis. A message may be lost: claims also poll.

use std::time::Duration;

use futures_util::StreamExt;
use redis::{RedisResult, aio::PubSub};
use tokio::{sync::watch, task::JoinSet, time};

use crate::server::{Server, in_time};

/// How long after a lost connection the listener reconnects.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// A listener that has received nothing for this long checks its connection.
const PING_AFTER: Duration = Duration::from_secs(10);

/// Wakes tasks that wait for work.
#[derive(Debug)]
pub(crate) struct Wakes {
    sender: watch::Sender<()>,
    /// Aborted with its owner.
    _listener: JoinSet<()>,
}

impl Wakes {
    /// Wake-ups within this process only.
    pub(crate) fn of_process() -> Self {
        Self { sender: watch::Sender::new(()), _listener: JoinSet::new() }
    }

    /// Wake-ups within this process, and those published on a channel.
    pub(crate) fn listen_to(server: Server, channel: String) -> Self {
        let (sender, mut listener) = (watch::Sender::new(()), JoinSet::new());
        listener.spawn(listen(server, channel, sender.clone()));
        Self { sender, _listener: listener }
    }

    pub(crate) fn wake(&self) {
        self.sender.send_replace(());
    }

    /// Subscribes to all wake-ups from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<()> {
        self.sender.subscribe()
    }
}

async fn listen(server: Server, channel: String, sender: watch::Sender<()>) {
    loop {
        if let Ok(mut listener) = server.listen(&channel).await {
            // Messages may have been missed before the subscription.
            sender.send_replace(());
            while let Ok(true) = next_message(&mut listener).await {
                sender.send_replace(());
            }
        }
        time::sleep(RETRY_AFTER).await;
    }
}

/// Waits for a message, or for a check of the connection; false if the connection is closed.
async fn next_message(listener: &mut PubSub) -> RedisResult<bool> {
    if let Ok(message) = time::timeout(PING_AFTER, listener.on_message().next()).await {
        return Ok(message.is_some());
    }
    in_time(listener.ping::<redis::Value>()).await.map(|_| true)
}
