//! How much of an attempt's log is kept.

use punctual_core::{
    job::cut_bytes,
    limits::{LOG_LINE_MAX_BYTES, LOG_MAX_BYTES, LOG_MAX_LINES},
};

/// Numbers the lines of a log, and counts what it has no room for.
#[derive(Debug, Default)]
pub(crate) struct LogBook {
    lines: usize,
    bytes: usize,
    cut_lines: usize,
    cut_bytes: usize,
}

impl LogBook {
    /// A line as it is kept, with its number; nothing if there is no room for it.
    pub(crate) fn add(&mut self, message: String) -> Option<(u32, String)> {
        let bytes = message.len().min(LOG_LINE_MAX_BYTES);
        // Once a line was left out, all later ones are: what is kept is the log's beginning, whole.
        if self.cut_lines > 0 || self.lines + 1 >= LOG_MAX_LINES || self.bytes + bytes > LOG_MAX_BYTES {
            self.cut_lines += 1;
            self.cut_bytes += message.len();
            return None;
        }
        self.lines += 1;
        self.bytes += bytes;
        Some((self.lines as u32, cut_bytes(message, LOG_LINE_MAX_BYTES)))
    }

    /// Lines that it had room for have been lost on their way.
    pub(crate) const fn lose(&mut self, lines: usize, bytes: usize) {
        self.cut_lines += lines;
        self.cut_bytes += bytes;
    }

    /// What the log ends with, if something was left out.
    pub(crate) fn last_line(&self) -> Option<(u32, String)> {
        let (lines, bytes) = (self.cut_lines, self.cut_bytes);
        let message = format!("the log is full, or came too fast: {lines} more lines with {bytes} bytes are not kept");
        (lines > 0).then(|| (self.lines as u32 + 1, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_counted() {
        let mut book = LogBook::default();
        assert_eq!(book.add("one".into()), Some((1, "one".into())));
        assert_eq!(book.last_line(), None);
        for _ in 2..LOG_MAX_LINES {
            assert!(book.add("x".into()).is_some());
        }
        assert_eq!((book.add("ab".into()), book.add("c".into())), (None, None));
        let says = "the log is full, or came too fast: 2 more lines with 3 bytes are not kept".to_owned();
        assert_eq!(book.last_line(), Some((LOG_MAX_LINES as u32, says)));
    }

    #[test]
    fn a_log_of_long_lines_ends_at_its_bytes() {
        let mut book = LogBook::default();
        let long = "x".repeat(LOG_LINE_MAX_BYTES);
        let kept = std::iter::from_fn(|| book.add(long.clone())).count();
        assert_eq!(kept, LOG_MAX_BYTES / LOG_LINE_MAX_BYTES);
        assert!(book.add("short".into()).is_none(), "what is kept has no holes");
    }
}
