//! Finds the ends of answers in the bytes of a server, and the requests that they answer.

mod postgres;
mod redis;
mod sqlserver;

/// The protocol between a client and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Postgres,
    Redis,
    SqlServer,
}

impl Protocol {
    pub(crate) fn conversation(self) -> Box<dyn Conversation> {
        match self {
            Self::Postgres => Box::<postgres::Messages>::default(),
            Self::Redis => Box::<redis::Replies>::default(),
            Self::SqlServer => Box::<sqlserver::Packets>::default(),
        }
    }
}

/// Bytes of a server that are passed on together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// The request whose answer these bytes complete, if any.
    pub(crate) answers: Option<String>,
}

impl Piece {
    pub(crate) fn plain(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), answers: None }
    }
}

/// The protocol state of one connection.
pub(crate) trait Conversation: Send {
    /// Called with bytes that the client has sent.
    fn client_sent(&mut self, bytes: &[u8]);

    /// Called with bytes that the server has sent. The end of an answer, from where the server states that it is done,
    /// is returned as a separate piece once it is complete.
    fn server_sent(&mut self, bytes: &[u8]) -> Vec<Piece>;
}

/// Removes and returns the first `count` bytes, if there are that many.
fn take(bytes: &mut Vec<u8>, count: usize) -> Option<Vec<u8>> {
    (bytes.len() >= count).then(|| bytes.drain(..count).collect())
}

/// A 32-bit number in big-endian order at a position.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(four) as usize)
}
