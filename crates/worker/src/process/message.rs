//! Messages between a supervisor and its worker processes: one JSON object per line, over a socket that no other
//! process has.

use std::io;

use punctual_core::WorkerId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};

use crate::Stats;

/// Version of the messages. A child with another version is not used: both run the same program unless it was replaced
/// meanwhile.
pub(super) const VERSION: u32 = 1;
/// Maximum length of a message.
const MESSAGE_MAX_BYTES: u64 = 64 << 10;

/// Messages of a worker process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub(super) enum FromWorker {
    /// It works.
    WorkerStarted { version: u32, worker: WorkerId, pid: u32 },
    /// It has stopped gracefully.
    WorkerShutdown { worker: WorkerId, stats: Stats },
    /// An error keeps it from working.
    WorkerError { message: String },
    /// Its store has failed permanently.
    StoreFailed { store: String, reason: String },
    /// It is alive; with its statistics.
    Heartbeat { stats: Stats },
    /// It has stored a notification to a user.
    SendToUser { notification: u64, user: String },
    /// It has stored a notification to all users.
    Broadcast { notification: u64 },
}

/// Messages of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub(super) enum ToWorker {
    /// Claim no more jobs, finish the running ones, and exit.
    Drain,
}

pub(super) async fn send(to: &mut OwnedWriteHalf, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await
}

/// Reads messages. Not cancel safe: a caller that stops waiting for a message must not wait for another one.
pub(super) struct Messages(BufReader<OwnedReadHalf>);

impl Messages {
    pub(super) fn new(from: OwnedReadHalf) -> Self {
        Self(BufReader::new(from))
    }

    /// The next message; `None` once the other side has closed the link. A message that is not understood is an error.
    pub(super) async fn next<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let mut line = Vec::new();
        (&mut self.0).take(MESSAGE_MAX_BYTES).read_until(b'\n', &mut line).await?;
        if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
    }
}
