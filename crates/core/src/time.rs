//! Instants and durations. Every engine stores instants with microsecond precision.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{SignedDuration, civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant, in microseconds since the Unix epoch.
///
/// Every engine stores exactly this precision, so that a value that is read equals the value that was written.
///
/// ```
/// use punctual_core::Timestamp;
/// let t: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
/// assert_eq!(t.to_string(), "2026-03-01T12:00:00.000000Z");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z. Nothing is scheduled before it.
    pub const MIN: Self = Self(0);
    /// 9999-12-30T00:00:00Z. Nothing is scheduled after it.
    pub const MAX: Self = Self(253_402_128_000_000_000);

    /// The instant this many microseconds after the epoch, limited to [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    pub const fn from_micros(micros: i64) -> Self {
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This instant plus `delay`, at most [`MAX`](Self::MAX).
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros))
    }

    /// This instant minus `delay`, at least [`MIN`](Self::MIN).
    #[must_use]
    pub fn before(self, delay: Duration) -> Self {
        let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_sub(micros))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => write!(f, "{} µs", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for an invalid instant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid time `{0}`: expected a time between 1970 and 9999 with a zone, such as 2026-03-01T12:00:00Z or 2026-03-01T12:00:00+01:00"
)]
pub struct BadTimestamp(String);

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        let bad = || BadTimestamp(text.chars().take(64).collect());
        let instant: jiff::Timestamp = text.parse().map_err(|_| bad())?;
        let micros = instant.as_microsecond();
        if (Self::MIN.0..=Self::MAX.0).contains(&micros) { Ok(Self(micros)) } else { Err(bad()) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A duration with a unit that suits its size: `42 ms`, `3.2 s`, `4 min`, `2 h`, `5 d`.
pub fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        _ if duration.is_zero() => "0 s".to_owned(),
        _ if seconds < 0.001 => format!("{} µs", duration.as_micros()),
        _ if seconds < 1.0 => format!("{} ms", duration.as_millis()),
        _ if seconds < 10.0 => format!("{seconds:.1} s"),
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

/// A duration as users write it: `90s`, `5m`, `1h 30m`, `7d`, `1500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("invalid duration `{text}`: expected a number and a unit, such as 1500ms, 90s, 5m, 1h 30m or 7d")
        };
        let parsed: SignedDuration = match text.strip_suffix('d').map(str::trim).map(str::parse::<u32>) {
            Some(Ok(days)) => SignedDuration::from_hours(i64::from(days) * 24),
            _ => text.parse().map_err(|_| wrong())?,
        };
        Duration::try_from(parsed).map(Self).map_err(|_| wrong())
    }
}

/// In the syntax that is accepted as input.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 24 * 3_600;
        match (self.0.as_secs(), self.0.subsec_nanos()) {
            (seconds, 0) if seconds > 0 && seconds.is_multiple_of(DAY) => write!(f, "{}d", seconds / DAY),
            _ => write!(f, "{:#}", SignedDuration::try_from(self.0).unwrap_or(SignedDuration::MAX)),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// An instant as users write it: with a zone, or in the machine's local time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct When(pub Timestamp);

/// With a zone, so that it is the same instant on every machine.
impl Serialize for When {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl TryFrom<String> for When {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        parse_instant(&text).map(Self)
    }
}

/// Parses [`When`].
pub fn parse_instant(text: &str) -> Result<Timestamp, String> {
    let local = || -> Option<Timestamp> {
        let civil: DateTime = text.parse().ok()?;
        civil.to_zoned(TimeZone::system()).ok()?.timestamp().to_string().parse().ok()
    };
    text.parse().ok().or_else(local).ok_or_else(|| {
        format!("invalid time `{text}`: expected 2026-03-01T12:00:00Z, or 2026-03-01 12:00 for the local zone, between 1970 and 9999")
    })
}

/// Durations are milliseconds in every stored or transmitted JSON document.
pub mod millis {
    use super::*;

    /// Writes whole milliseconds.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// Reads whole milliseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_millis(u64::deserialize(deserializer)?))
    }
}

/// The same for an optional duration.
pub mod some_millis {
    use super::*;

    /// Writes whole milliseconds, or nothing.
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    /// Reads whole milliseconds, or nothing.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_stays_within_the_bounds() {
        assert_eq!(Timestamp::MAX.after(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.before(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
    }

    #[test]
    fn a_text_comes_back_as_it_was() {
        for micros in [0, 1, 1_700_000_000_123_456, Timestamp::MAX.as_micros()] {
            let instant = Timestamp::from_micros(micros);
            assert_eq!(instant.to_string().parse(), Ok(instant));
        }
    }

    #[test]
    fn a_span_is_written_as_it_may_be_typed() {
        let millis = [0, 1_500, 90_000, 300_000, 5_400_000, 36 * 3_600_000, 7 * 24 * 3_600_000];
        let written = millis.map(|millis| Span(Duration::from_millis(millis)).to_string());
        assert_eq!(written, ["0s", "1s 500ms", "1m 30s", "5m", "1h 30m", "36h", "7d"]);
        for text in written {
            assert_eq!(text.parse::<Span>().map(|span| span.to_string()), Ok(text));
        }
    }

    #[test]
    fn absurd_dates_are_refused() {
        for text in ["", "tomorrow", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "\0"] {
            assert!(text.parse::<Timestamp>().is_err(), "{text:?}");
        }
    }
}
