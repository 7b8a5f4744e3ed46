//! Formats times, numbers and statuses for people.

use std::{
    io::{self, IsTerminal},
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use anstyle::{AnsiColor, Color, RgbColor, Style};
use indicatif::ProgressBar;
use jiff::tz::TimeZone;
pub(crate) use punctual::core::{
    number::in_thousands as number,
    time::{Span, in_words, parse_instant},
};
use punctual::{Status, Timestamp, core::LogLevel};
use tracing_subscriber::fmt::{format::Writer, time::FormatTime};

/// The status line on the screen, if there is one: log lines must not be written into it.
static STATUS_LINE: OnceLock<ProgressBar> = OnceLock::new();

/// Writes log lines above `line` from now on.
pub(crate) fn keep_below_log(line: &ProgressBar) {
    // Only `up` has a status line, and it has one.
    let _ = STATUS_LINE.set(line.clone());
}

/// Log lines that are held back until the terminal leaves full-screen mode.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);
/// Maximum bytes held back; later lines are dropped.
const HELD_MAX_BYTES: usize = 64 * 1024;

/// Holds log lines back if standard error is the terminal.
pub(crate) fn hold_log() {
    if io::stderr().is_terminal() {
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }
}

/// Writes the log lines that were held back, and stops holding.
pub(crate) fn release_log() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take();
    // Errors are ignored: standard error may be closed.
    let _ = io::Write::write_all(&mut io::stderr(), &held.unwrap_or_default());
}

fn held(keep: impl FnOnce(&mut Vec<u8>)) -> bool {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(log) = held.as_mut() else { return false };
    if log.len() < HELD_MAX_BYTES {
        keep(log);
    }
    true
}

/// Writes log lines to standard error, above the status line.
#[derive(Debug)]
pub(crate) struct LogWriter;

impl LogWriter {
    pub(crate) const fn new() -> Self {
        Self
    }
}

impl io::Write for LogWriter {
    /// Errors are ignored: standard error may be closed, and the program must continue.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if held(|log| log.extend(bytes)) {
            return Ok(bytes.len());
        }
        let write = || io::stderr().write(bytes).unwrap_or(bytes.len());
        Ok(STATUS_LINE.get().map_or_else(write, |line| line.suspend(write)))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time of day, for logs that people watch.
#[derive(Debug)]
pub(crate) struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        line.write_str(&jiff::Zoned::now().strftime("%H:%M:%S").to_string())
    }
}

/// The colour of a status: the same in the terminal as in the dashboard.
pub(crate) fn status_style(status: Status) -> Style {
    let color: Color = match status {
        Status::Waiting => RgbColor(100, 116, 139).into(),
        Status::Scheduled => RgbColor(139, 92, 246).into(),
        Status::Queued => AnsiColor::Blue.into(),
        Status::Processing => AnsiColor::Yellow.into(),
        Status::Succeeded => AnsiColor::Green.into(),
        Status::Failed | Status::Retrying => RgbColor(234, 115, 23).into(),
        Status::Dead => AnsiColor::Red.into(),
        Status::Cancelled | Status::Deleted => AnsiColor::BrightBlack.into(),
    };
    Style::new().fg_color(Some(color))
}

/// A rounded number in few digits: `9,999`, `12.3k`, `10.0M`.
pub(crate) fn roughly(count: u64) -> String {
    match count {
        0..10_000 => number(count),
        10_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{:.1}G", count as f64 / 1e9),
    }
}

/// A rate in few digits: `0/s`, `9.9/s`, `51.2k/s`.
pub(crate) fn per_second(rate: f64) -> String {
    match rate {
        0.0 => "0/s".to_owned(),
        ..10.0 => format!("{rate:.1}/s"),
        _ => format!("{}/s", roughly(rate.round() as u64)),
    }
}

/// Less important text.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Important text.
pub(crate) const BOLD: Style = Style::new().bold();

/// An instant relative to `now`: `4 min ago`, `in 42 s`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", in_words(at.since(now))) } else { format!("{} ago", in_words(now.since(at))) }
}

/// The exact instant in the user's time zone.
pub(crate) fn exact(at: Timestamp) -> String {
    local(at, "%Y-%m-%d %H:%M:%S%.3f %Z")
}

/// An instant in the user's time zone.
pub(crate) fn local(at: Timestamp, format: &str) -> String {
    in_zone(at, &TimeZone::system(), format)
}

/// An instant in a time zone.
pub(crate) fn in_zone(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => at.to_string(),
    }
}

/// An amount of memory from the configuration: `256MiB`, `64MB`, `1GiB`, or a number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Bytes(pub(crate) u64);

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        const UNITS: [(&str, u64); 7] = [
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("KB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("B", 1),
        ];
        let found = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (digits, unit) = found.unwrap_or((&text, 1));
        let bytes = digits.trim().parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
        bytes
            .map(Self)
            .ok_or_else(|| format!("invalid size `{text}`: expected a number and a unit, such as 256MiB, 1GiB or 64MB"))
    }
}

/// Parses a log level of the command line.
pub(crate) fn parse_log_level(text: &str) -> Result<LogLevel, String> {
    let level = LogLevel::named(text);
    if level.as_str() == text { Ok(level) } else { Err("unknown level; expected debug, info, warn or error".into()) }
}

/// Parses an instant in the past: a time, or a duration before now.
pub(crate) fn parse_past(text: &str) -> Result<Past, String> {
    match text.parse::<Span>() {
        Ok(Span(ago)) => Ok(Past::Ago(ago)),
        Err(_) => parse_instant(text)
            .map(Past::At)
            .map_err(|error| format!("{error}; or a time span before now, such as 24h")),
    }
}

/// An instant, or a duration before now.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Past {
    At(Timestamp),
    Ago(Duration),
}

impl Past {
    /// The instant relative to `now`.
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => now.before(ago),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_are_written_for_people() {
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(number(7), "7");
        assert_eq!(in_words(Duration::from_millis(42)), "42 ms");
        assert_eq!(in_words(Duration::from_secs(240)), "4 min");
    }

    #[test]
    fn rates_and_counts_are_short() {
        assert_eq!([0, 9_999, 12_345, 10_000_000].map(roughly), ["0", "9,999", "12.3k", "10.0M"]);
        assert_eq!([0.0, 0.04, 9.94, 10.0, 51_200.0].map(per_second), ["0/s", "0.0/s", "9.9/s", "10/s", "51.2k/s"]);
    }

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, seconds) in [("90s", 90), ("5m", 300), ("1h 30m", 5_400), ("7d", 604_800), ("2000ms", 2)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["", "x", "-5s", "5"] {
            assert!(text.parse::<Span>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn memory_is_read_in_every_unit() {
        for (text, bytes) in [("256MiB", 256 << 20), ("1 GiB", 1 << 30), ("64MB", 64_000_000), ("12", 12), ("3B", 3)] {
            assert_eq!(Bytes::try_from(text.to_owned()), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "x", "-5MiB", "1.5GiB", "99999999999GiB"] {
            assert!(Bytes::try_from(text.to_owned()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn instants_are_read_with_and_without_a_zone() {
        assert!(parse_instant("2026-03-01T12:00:00Z").is_ok());
        assert!(parse_instant("2026-03-01 12:00").is_ok());
        for text in ["", "tomorrow", "12026-03-01T12:00:00Z", "1812-03-01T12:00:00Z", "2026-02-31 12:00"] {
            assert!(parse_instant(text).is_err(), "{text}");
        }
    }
}
