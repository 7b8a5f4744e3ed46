//! PostgreSQL's protocol, version 3, without TLS.

use std::collections::{HashMap, VecDeque};

use super::{Conversation, Piece, number, take};

/// The codes of requests for encryption, which are answered by one byte.
const ENCRYPTION_REQUESTS: [usize; 2] = [80_877_103, 80_877_104];

#[derive(Default)]
pub(crate) struct Messages {
    request_bytes: Vec<u8>,
    answer_bytes: Vec<u8>,
    /// Whether the client has sent its startup message. Messages before that have no type byte.
    started: bool,
    /// The number of one-byte answers that are still to come.
    bytes_due: usize,
    /// The texts of prepared statements, by name.
    statements: HashMap<Vec<u8>, String>,
    /// The statements that were bound since the last request ended.
    bound: Vec<String>,
    requests: VecDeque<String>,
    /// The end of an answer, as far as it was received.
    held: Vec<u8>,
}

/// The first message, if it is complete: its length is at `length_at`, and counts from there.
fn message(bytes: &mut Vec<u8>, length_at: usize) -> Option<Vec<u8>> {
    let length = number(bytes, length_at)?;
    take(bytes, length_at + length)
}

impl Messages {
    fn read_request(&mut self, kind: u8, body: &[u8]) {
        let mut texts = body.split(|byte| *byte == 0);
        let (first, second) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match kind {
            b'Q' => self.requests.push_back(text(first)),
            b'P' => drop(self.statements.insert(first.to_vec(), text(second))),
            b'B' => self.bound.push(self.statements.get(second).cloned().unwrap_or_default()),
            b'S' => {
                let request = std::mem::take(&mut self.bound).join("; ");
                self.requests.push_back(request);
            }
            _ => {}
        }
    }

    fn next_request(&mut self) -> Option<()> {
        if self.started {
            let message = message(&mut self.request_bytes, 1)?;
            self.read_request(message[0], &message[5..]);
            return Some(());
        }
        let message = message(&mut self.request_bytes, 0)?;
        let is_encryption = number(&message, 4).is_some_and(|code| ENCRYPTION_REQUESTS.contains(&code));
        self.bytes_due += usize::from(is_encryption);
        self.started = !is_encryption;
        Some(())
    }

    fn next_answer(&mut self) -> Option<Option<Piece>> {
        if self.bytes_due > 0 {
            let byte = take(&mut self.answer_bytes, 1)?;
            self.bytes_due -= 1;
            return Some(Some(Piece::plain(&byte)));
        }
        let message = message(&mut self.answer_bytes, 1)?;
        Some(match message[0] {
            b'Z' => {
                let mut bytes = std::mem::take(&mut self.held);
                bytes.extend(message);
                Some(Piece { bytes, answers: self.requests.pop_front() })
            }
            b'C' => {
                self.held.extend(message);
                None
            }
            _ if !self.held.is_empty() => {
                self.held.extend(message);
                None
            }
            _ => Some(Piece::plain(&message)),
        })
    }
}

impl Conversation for Messages {
    fn client_sent(&mut self, bytes: &[u8]) {
        self.request_bytes.extend(bytes);
        while self.next_request().is_some() {}
    }

    fn server_sent(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.answer_bytes.extend(bytes);
        std::iter::from_fn(|| self.next_answer()).flatten().collect()
    }
}
