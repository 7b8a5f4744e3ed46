//! Redis's protocol, versions 2 and 3, without TLS.

use std::collections::VecDeque;

use super::{Conversation, Piece, take};

#[derive(Default)]
pub(crate) struct Replies {
    request_bytes: Vec<u8>,
    answer_bytes: Vec<u8>,
    requests: VecDeque<String>,
}

/// The line that begins at a position, and the position of the next line.
fn line(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let end = bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
    Some((&bytes[at..at + end], at + end + 2))
}

/// The end of the value that begins at a position, if the value is complete.
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (head, next) = line(bytes, at)?;
    let (kind, rest) = head.split_first()?;
    let count = std::str::from_utf8(rest).ok().and_then(|count| count.parse::<i64>().ok()).unwrap_or(0).max(-1);
    match kind {
        b'$' | b'!' | b'=' if count >= 0 => {
            let end = next + count as usize + 2;
            (bytes.len() >= end).then_some(end)
        }
        b'*' | b'~' | b'>' => (0..count).try_fold(next, |at, _| value_end(bytes, at)),
        b'%' => (0..2 * count).try_fold(next, |at, _| value_end(bytes, at)),
        _ => Some(next),
    }
}

impl Conversation for Replies {
    fn client_sent(&mut self, bytes: &[u8]) {
        self.request_bytes.extend(bytes);
        while let Some(request) = value_end(&self.request_bytes, 0).and_then(|end| take(&mut self.request_bytes, end)) {
            // The command and its first arguments; each follows a line with its length.
            let parts = request.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"$"));
            let text: Vec<_> = parts.take(4).map(|part| String::from_utf8_lossy(part).trim().to_owned()).collect();
            self.requests.push_back(text.join(" "));
        }
    }

    fn server_sent(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.answer_bytes.extend(bytes);
        let mut pieces = Vec::new();
        while let Some(bytes) = value_end(&self.answer_bytes, 0).and_then(|end| take(&mut self.answer_bytes, end)) {
            // A push message on a channel is not an answer.
            let answers = if bytes[0] == b'>' { None } else { self.requests.pop_front() };
            pieces.push(Piece { bytes, answers });
        }
        pieces
    }
}
