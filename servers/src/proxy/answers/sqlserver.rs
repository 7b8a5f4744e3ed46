//! SQL Server's protocol, TDS 7, without TLS. An encrypted connection is passed through unchanged, and none of its
//! answers is lost.

use std::collections::VecDeque;

use super::{Conversation, Piece, take};

const HEADER_BYTES: usize = 8;
/// The bit of a packet's status that marks the last packet of its message.
const IS_LAST: u8 = 1;
/// Packet types: SQL batch, procedure call, answer, cancellation, bulk data, transaction manager request, login, and
/// the messages before it.
const TYPES: [u8; 9] = [1, 3, 4, 6, 7, 14, 16, 17, 18];

#[derive(Default)]
pub(crate) struct Packets {
    request_bytes: Vec<u8>,
    /// The request, as far as it was received.
    request: Vec<u8>,
    answer_bytes: Vec<u8>,
    /// The answer, as far as it was received. Its last token states that the server is done.
    answer: Vec<u8>,
    requests: VecDeque<String>,
    is_encrypted: bool,
}

/// The first packet, if it is complete.
fn packet(bytes: &mut Vec<u8>, is_encrypted: &mut bool) -> Option<Vec<u8>> {
    *is_encrypted |= bytes.first().is_some_and(|kind| !TYPES.contains(kind));
    let length = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    if *is_encrypted { None } else { take(bytes, usize::from(length).max(HEADER_BYTES)) }
}

/// The printable ASCII characters of a request. Its texts are in UTF-16, between other values.
fn text(request: &[u8]) -> String {
    request.iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ').map(|byte| char::from(*byte)).collect()
}

impl Conversation for Packets {
    fn client_sent(&mut self, bytes: &[u8]) {
        self.request_bytes.extend(bytes);
        while let Some(packet) = packet(&mut self.request_bytes, &mut self.is_encrypted) {
            self.request.extend(&packet[HEADER_BYTES..]);
            if packet[1] & IS_LAST != 0 {
                self.requests.push_back(text(&std::mem::take(&mut self.request)));
            }
        }
    }

    fn server_sent(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.answer_bytes.extend(bytes);
        let mut pieces = Vec::new();
        while let Some(packet) = packet(&mut self.answer_bytes, &mut self.is_encrypted) {
            self.answer.extend(&packet);
            if packet[1] & IS_LAST != 0 {
                pieces.push(Piece { bytes: std::mem::take(&mut self.answer), answers: self.requests.pop_front() });
            }
        }
        if self.is_encrypted {
            self.answer.append(&mut self.answer_bytes);
            pieces.push(Piece { bytes: std::mem::take(&mut self.answer), answers: None });
        }
        pieces
    }
}
