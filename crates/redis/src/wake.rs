//! Hints between processes, by a channel of Redis. One may be lost; polling is the truth.

use std::time::Duration;

use futures_util::StreamExt;
use redis::{RedisResult, aio::PubSub};
use tokio::{sync::watch, task::JoinSet, time};

use crate::server::{Server, in_time};

/// How long after a lost connection the listener tries again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// A listener that has heard nothing for so long asks whether its connection still lives.
const ASK_AFTER: Duration = Duration::from_secs(10);

/// Something may have come for somebody who waits.
#[derive(Debug)]
pub(crate) struct Wakes {
    sender: watch::Sender<()>,
    /// Ends with its owner.
    _ears: JoinSet<()>,
}

impl Wakes {
    /// Those of this process alone.
    pub(crate) fn of_process() -> Self {
        Self { sender: watch::Sender::new(()), _ears: JoinSet::new() }
    }

    /// Those of this process, and what is said on a channel.
    pub(crate) fn listen_to(server: Server, channel: String) -> Self {
        let (sender, mut ears) = (watch::Sender::new(()), JoinSet::new());
        ears.spawn(listen(server, channel, sender.clone()));
        Self { sender, _ears: ears }
    }

    pub(crate) fn wake(&self) {
        self.sender.send_replace(());
    }

    /// Hears everything from now on.
    pub(crate) fn listen(&self) -> watch::Receiver<()> {
        self.sender.subscribe()
    }
}

async fn listen(server: Server, channel: String, sender: watch::Sender<()>) {
    loop {
        if let Ok(mut ears) = server.listen(&channel).await {
            // Something may have been said while nobody listened.
            sender.send_replace(());
            while let Ok(true) = hear(&mut ears).await {
                sender.send_replace(());
            }
        }
        time::sleep(RETRY_AFTER).await;
    }
}

/// Waits until something was said, or until it is known that the connection still lives; false if it does not.
async fn hear(ears: &mut PubSub) -> RedisResult<bool> {
    if let Ok(said) = time::timeout(ASK_AFTER, ears.on_message().next()).await {
        return Ok(said.is_some());
    }
    in_time(ears.ping::<redis::Value>()).await.map(|_| true)
}
