//! What a supervisor and its worker processes say to each other: one JSON object a line, over a socket that nobody else
//! has.

use std::io;

use punctual_core::WorkerId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
};

use crate::Stats;

/// Of what they say. A child of another version is not used: both are the same program, unless somebody has replaced it
/// meanwhile.
pub(super) const VERSION: u32 = 1;
/// A message.
const MESSAGE_MAX_BYTES: u64 = 64 << 10;

/// What a worker process says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub(super) enum FromWorker {
    /// It works.
    WorkerStarted { version: u32, worker: WorkerId, pid: u32 },
    /// It has ended its work in order.
    WorkerShutdown { worker: WorkerId, stats: Stats },
    /// Something is wrong that keeps it from working.
    WorkerError { message: String },
    /// Its store has failed for good.
    StoreFailed { store: String, reason: String },
    /// It is there, and has done so much.
    Heartbeat { stats: Stats },
    /// It has stored a notification to a user.
    SendToUser { notification: u64, user: String },
    /// It has stored one to everybody.
    Broadcast { notification: u64 },
}

/// What the supervisor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub(super) enum ToWorker {
    /// Claim no more, end what runs, and go.
    Drain,
}

pub(super) async fn send(to: &mut OwnedWriteHalf, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await
}

/// Reads messages. Whoever stops waiting for one must not wait for another.
pub(super) struct Messages(BufReader<OwnedReadHalf>);

impl Messages {
    pub(super) fn new(from: OwnedReadHalf) -> Self {
        Self(BufReader::new(from))
    }

    /// The next message; nothing once the other side is gone. One that is not understood is an error.
    pub(super) async fn next<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let mut line = Vec::new();
        (&mut self.0).take(MESSAGE_MAX_BYTES).read_until(b'\n', &mut line).await?;
        if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
    }
}
