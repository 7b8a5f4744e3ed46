//! Durations as texts.

use std::time::Duration;

/// As `punctual_core::limits::TIMEOUT_MIN` and `TIMEOUT_MAX`.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(1);
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Units that may follow each other, with their milliseconds, from the largest.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const DAY_S: u64 = 24 * 3_600;

/// Parses `1500ms`, `90s`, `5m`, `1h 30m` or `7d`: what `punctual_core::time::Span` reads, without its rarer forms.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if let Some(days) = text.strip_suffix('d') {
        return days.parse::<u32>().ok().map(|days| Duration::from_secs(u64::from(days) * DAY_S));
    }
    let (mut rest, mut total_ms, mut units) = (text, 0_u64, UNITS.iter());
    loop {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len()));
        // Each unit is searched for after the one before it.
        let (_, unit_ms) = units.find(|(name, _)| *name == unit)?;
        total_ms = total_ms.checked_add(number.parse::<u64>().ok()?.checked_mul(*unit_ms)?)?;
        rest = after.trim_start_matches(' ');
        if rest.is_empty() {
            return Some(Duration::from_millis(total_ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{limits, time::Span};

    use super::*;

    #[test]
    fn a_duration_means_what_it_means_to_core() {
        assert_eq!([TIMEOUT_MIN, TIMEOUT_MAX], [limits::TIMEOUT_MIN, limits::TIMEOUT_MAX]);
        for text in ["1500ms", "90s", "5m", "1h 30m", "1h30m", "2h 5s 3ms", "7d", "0s"] {
            assert_eq!(parse(text), text.parse::<Span>().ok().map(|span| span.0), "{text:?}");
            assert!(parse(text).is_some(), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "5", "s", "5 apples", "5m 1h", "5m 5m", "-5s", "1.5s", "5s,", "99999999999999999999s", "1d 2h"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
