//! Reads lines of a program's output with a maximum length.

use std::os::fd::AsFd;

use punctual_client::Context;
use punctual_core::{LogLevel, limits};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 64 << 10;
/// Maximum number of log lines per report.
const REPORT_MAX_LINES: usize = 200;
/// Maximum number of bytes that are read from the output written so far.
const REST_MAX_BYTES: usize = 1 << 20;
/// Maximum length of a log line, with space for the remark that it was cut.
const LOG_LINE_BYTES: usize = limits::LOG_LINE_MAX_BYTES - 64;

/// A line without its line break.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: Vec<u8>,
    /// Number of bytes that were cut.
    pub(super) cut: usize,
}

impl Line {
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim_ascii().is_empty()
    }

    /// The line as text. Invalid UTF-8 is replaced.
    pub(super) fn to_text(&self) -> String {
        let text = String::from_utf8_lossy(self.text.trim_ascii_end());
        if self.cut > 0 { format!("{text}… ({} more bytes)", self.cut) } else { text.into_owned() }
    }
}

/// Reads lines, and only the beginning of longer ones. Cancel safe.
#[derive(Debug)]
pub(super) struct Lines<R> {
    source: R,
    max_bytes: usize,
    buffer: Vec<u8>,
    /// Start of the unread part of the buffer.
    at: usize,
    line: Line,
}

impl<R: AsyncRead + AsFd + Unpin> Lines<R> {
    pub(super) fn new(source: R, max_bytes: usize) -> Self {
        Self { source, max_bytes, buffer: Vec::new(), at: 0, line: Line::default() }
    }

    /// A reader for log lines.
    pub(super) fn of_log(source: R) -> Self {
        Self::new(source, LOG_LINE_BYTES)
    }

    /// The next line; the last one may lack a line break. `None` at the end of the output.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.buffered() {
                return Some(line);
            }
            // A program that writes without pause must not starve other tasks: yield between two reads.
            tokio::task::yield_now().await;
            let read = self.source.read_buf(&mut self.buffer).await;
            if read.unwrap_or(0) == 0 {
                return self.rest();
            }
        }
    }

    /// An incomplete line at the end of the output.
    pub(super) fn rest(&mut self) -> Option<Line> {
        (self.line != Line::default()).then(|| std::mem::take(&mut self.line))
    }

    /// A complete line in the buffer.
    pub(super) fn buffered(&mut self) -> Option<Line> {
        let new = &self.buffer[self.at..];
        let end = new.iter().position(|byte| *byte == b'\n');
        let part = &new[..end.unwrap_or(new.len())];
        let limit = self.max_bytes.saturating_sub(self.line.text.len()).min(part.len());
        self.line.text.extend_from_slice(&part[..limit]);
        self.line.cut += part.len() - limit;
        match end {
            Some(end) => {
                self.at += end + 1;
                Some(std::mem::take(&mut self.line))
            }
            None => {
                self.buffer.clear();
                self.buffer.reserve(READ_BYTES);
                self.at = 0;
                None
            }
        }
    }

    /// Reads what has been written so far without waiting, even if the runtime was not notified of it. Returns the
    /// number of bytes.
    pub(super) fn read_now(&mut self) -> usize {
        let mut part = [0; 4_096];
        let bytes = nix::unistd::read(self.source.as_fd(), &mut part).unwrap_or(0);
        self.buffer.extend_from_slice(&part[..bytes]);
        bytes
    }

    /// Whether there is no unread output.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.buffered().is_none() && self.line == Line::default() && self.read_now() == 0
    }
}

/// Copies a program's standard error to the log of its attempt.
#[derive(Debug)]
pub(super) struct Log<R> {
    lines: Lines<R>,
    /// The last line that was not blank.
    pub(super) last: Option<String>,
}

impl<R: AsyncRead + AsFd + Unpin> Log<R> {
    pub(super) fn new(source: R) -> Self {
        Self { lines: Lines::of_log(source), last: None }
    }

    /// Copies the next lines to the log; returns false at the end of the output.
    pub(super) async fn copy_next(&mut self, ctx: &Context) -> bool {
        let Some(first) = self.lines.next().await else { return false };
        self.copy(ctx, Some(first));
        true
    }

    /// Copies what has been written so far to the log, including an incomplete line: what follows belongs to the next
    /// job.
    pub(super) fn copy_rest(&mut self, ctx: &Context) {
        let mut limit = REST_MAX_BYTES;
        loop {
            while self.copy(ctx, None) {}
            let read = if limit > 0 { self.lines.read_now() } else { 0 };
            if read == 0 {
                break;
            }
            limit = limit.saturating_sub(read);
        }
        let rest = self.lines.rest();
        self.copy(ctx, rest);
    }

    /// Copies lines to the log; returns whether there were any.
    fn copy(&mut self, ctx: &Context, first: Option<Line>) -> bool {
        let lines = first.into_iter().chain(std::iter::from_fn(|| self.lines.buffered()));
        let lines: Vec<Line> = lines.take(REPORT_MAX_LINES).collect();
        if let Some(last) = lines.iter().rfind(|line| !line.is_blank()) {
            self.last = Some(last.to_text());
        }
        ctx.log_all(lines.iter().map(|line| (LogLevel::Info, line.to_text())));
        !lines.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use nix::fcntl::{FcntlArg, fcntl};
    use tokio::{io::AsyncWriteExt, net::unix::pipe};

    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_the_last_may_lack_a_line_break() {
        let (mut writer, reader) = pipe::pipe().unwrap();
        let mut lines = Lines::new(reader, 4);
        writer.write_all(b"one\n\nlonger\nla").await.unwrap();
        let line = |text: &str, cut| Some(Line { text: text.into(), cut });
        assert_eq!(lines.next().await, line("one", 0));
        assert_eq!(lines.next().await, line("", 0));
        assert_eq!(lines.next().await, line("long", 2));
        assert_eq!(lines.buffered(), None);
        writer.write_all(b"st").await.unwrap();
        assert!(!lines.is_quiet());
        assert_eq!(lines.read_now(), 2);
        assert_eq!(lines.read_now(), 0);
        drop(writer);
        assert_eq!(lines.next().await, line("last", 0));
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn reading_endless_output_does_not_starve_other_tasks() {
        let (mut writer, reader) = pipe::pipe().unwrap();
        let capacity = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(8 * READ_BYTES as i32)).unwrap() as usize;
        writer.write_all(&b"y\n".repeat(capacity / 2)).await.unwrap();
        drop(writer);
        let turns = Arc::new(AtomicUsize::new(0));
        let others = turns.clone();
        tokio::spawn(async move {
            loop {
                others.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let mut lines = Lines::new(reader, 4);
        while lines.next().await.is_some() {}
        assert!(turns.load(Ordering::Relaxed) >= 8);
    }
}
