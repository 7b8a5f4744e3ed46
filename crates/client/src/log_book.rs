//! Limits the log of an attempt.

use punctual_core::{
    job::cut_bytes,
    limits::{LOG_LINE_MAX_BYTES, LOG_MAX_BYTES, LOG_MAX_LINES},
};

/// Numbers the lines of a log, and counts the lines that do not fit.
#[derive(Debug, Default)]
pub(crate) struct LogBook {
    lines: usize,
    bytes: usize,
    cut_lines: usize,
    cut_bytes: usize,
}

impl LogBook {
    /// A line as it is stored, with its number; `None` if it does not fit.
    pub(crate) fn add(&mut self, message: String) -> Option<(u32, String)> {
        let bytes = message.len().min(LOG_LINE_MAX_BYTES);
        // Once a line was dropped, all later ones are, too: the stored log is the beginning of the whole log, without
        // gaps.
        if self.cut_lines > 0 || self.lines + 1 >= LOG_MAX_LINES || self.bytes + bytes > LOG_MAX_BYTES {
            self.cut_lines += 1;
            self.cut_bytes += message.len();
            return None;
        }
        self.lines += 1;
        self.bytes += bytes;
        Some((self.lines as u32, cut_bytes(message, LOG_LINE_MAX_BYTES)))
    }

    /// Counts lines that did fit but were lost before they were stored.
    pub(crate) const fn lose(&mut self, lines: usize, bytes: usize) {
        self.cut_lines += lines;
        self.cut_bytes += bytes;
    }

    /// The last line of the log, if lines were dropped.
    pub(crate) fn last_line(&self) -> Option<(u32, String)> {
        let (lines, bytes) = (self.cut_lines, self.cut_bytes);
        let message =
            format!("the log is full, or was written too fast: {lines} more lines with {bytes} bytes were dropped");
        (lines > 0).then(|| (self.lines as u32 + 1, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let mut book = LogBook::default();
        assert_eq!(book.add("one".into()), Some((1, "one".into())));
        assert_eq!(book.last_line(), None);
        for _ in 2..LOG_MAX_LINES {
            assert!(book.add("x".into()).is_some());
        }
        assert_eq!((book.add("ab".into()), book.add("c".into())), (None, None));
        let message = "the log is full, or was written too fast: 2 more lines with 3 bytes were dropped".to_owned();
        assert_eq!(book.last_line(), Some((LOG_MAX_LINES as u32, message)));
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
