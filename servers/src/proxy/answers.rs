//! Where in the bytes of a server an answer ends, and to what request.

mod postgres;
mod redis;
mod sqlserver;

/// What a client and its server speak.
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

/// Bytes of a server that pass together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    /// The request whose answer is complete with them, if one is.
    pub(crate) answers: Option<String>,
}

impl Piece {
    pub(crate) fn plain(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), answers: None }
    }
}

/// One connection.
pub(crate) trait Conversation: Send {
    /// The client has sent bytes.
    fn asked(&mut self, bytes: &[u8]);

    /// The server has sent bytes. The end of an answer, from where the server has said that it is done, is a piece of
    /// its own, and comes when it is complete.
    fn answered(&mut self, bytes: &[u8]) -> Vec<Piece>;
}

/// Takes the first bytes away, if there are so many.
fn take(bytes: &mut Vec<u8>, count: usize) -> Option<Vec<u8>> {
    (bytes.len() >= count).then(|| bytes.drain(..count).collect())
}

/// A number of four bytes, the highest first, from a place on.
fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(four) as usize)
}
