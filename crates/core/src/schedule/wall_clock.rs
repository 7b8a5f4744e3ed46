//! Converts the times of a cron expression to instants, in time zones whose offset changes.
//!
//! Between two changes, local time and instants differ by a constant. So each search examines one such period after the
//! other, and only their borders need a decision:
//!
//! - An expression with `*` in its seconds, minutes or hours follows the clock: a time that the clock skips does not
//!   occur, a time that it shows twice occurs twice.
//! - Any other expression names times of day, and each occurs once per day: a time that the clock skips occurs when the
//!   gap ends, a time that it shows twice occurs the first time.

use croner::{Cron, errors::CronError};
use jiff::{
    SignedDuration, Timestamp as Instant,
    civil::DateTime,
    tz::{Offset, TimeZone},
};

use crate::Timestamp;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// The first occurrence after `after`.
pub(super) fn next(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Result<Option<Timestamp>, String> {
    let Some(mut start) = whole_second(after).checked_add(SECOND).ok() else { return Ok(None) };
    let once_a_day = names_times_of_day(cron);
    let mut known: Option<DateTime> = None;
    loop {
        let stretch = Stretch::around(zone, start);
        let mut from = stretch.offset.to_datetime(start);
        if once_a_day && let Some((begin, before)) = stretch.begin {
            let left = before.to_datetime(begin);
            let entered = stretch.offset.to_datetime(begin);
            if start == begin && matches_within(cron, left, entered)? {
                return Ok(instant(begin));
            }
            from = from.max(left);
        }
        // A time that an earlier search found and that lies ahead is still the next one.
        let time = match known.filter(|known| *known >= from) {
            Some(time) => time,
            None => match found(cron.find_next_occurrence(&from, true))? {
                Some(time) => time,
                None => return Ok(None),
            },
        };
        let Ok(at) = stretch.offset.to_timestamp(time) else { return Ok(None) };
        match stretch.end {
            Some(end) if at >= end => (start, known) = (end, once_a_day.then_some(time)),
            _ => return Ok(instant(at)),
        }
    }
}

/// The last occurrence at or before `at`.
pub(super) fn last(cron: &Cron, zone: &TimeZone, at: Timestamp) -> Result<Option<Timestamp>, String> {
    let (mut start, once_a_day) = (whole_second(at), names_times_of_day(cron));
    while start >= Instant::UNIX_EPOCH {
        let stretch = Stretch::around(zone, start);
        let time = found(cron.find_previous_occurrence(&stretch.offset.to_datetime(start), true))?;
        let Some((begin, before)) = stretch.begin else {
            return Ok(time.and_then(|time| stretch.offset.to_timestamp(time).ok()).and_then(instant));
        };
        let (left, entered) = (before.to_datetime(begin), stretch.offset.to_datetime(begin));
        let lowest = if once_a_day { entered.max(left) } else { entered };
        if let Some(time) = time.filter(|time| *time >= lowest)
            && let Ok(at) = stretch.offset.to_timestamp(time)
        {
            return Ok(instant(at));
        }
        if once_a_day && matches_within(cron, left, entered)? {
            return Ok(instant(begin));
        }
        start = begin - SECOND;
    }
    Ok(None)
}

/// A period during which the offset of a zone does not change.
struct Stretch {
    offset: Offset,
    /// When it began, and the previous offset; nothing if there was no change before.
    begin: Option<(Instant, Offset)>,
    /// When the next one begins; nothing if there are no further changes.
    end: Option<Instant>,
}

impl Stretch {
    fn around(zone: &TimeZone, at: Instant) -> Self {
        let begin = zone.preceding(at + SignedDuration::from_nanos(1)).next().map(|change| change.timestamp());
        Self {
            offset: zone.to_offset(at),
            begin: begin.map(|begin| (begin, zone.to_offset(begin - SECOND))),
            end: zone.following(at).next().map(|change| change.timestamp()),
        }
    }
}

/// Whether an expression names times of day instead of following the clock.
fn names_times_of_day(cron: &Cron) -> bool {
    let fields: Vec<&str> = cron.pattern.as_str().split_whitespace().collect();
    let of_day = fields.len().saturating_sub(3);
    !fields.iter().take(of_day).any(|field| field.contains('*'))
}

/// Whether a time from `from` up to `until` matches.
fn matches_within(cron: &Cron, from: DateTime, until: DateTime) -> Result<bool, String> {
    Ok(from < until && found(cron.find_next_occurrence(&from, true))?.is_some_and(|time| time < until))
}

/// The result of a search, which gives up after some thousand years.
fn found(time: Result<DateTime, CronError>) -> Result<Option<DateTime>, String> {
    match time {
        Ok(time) => Ok(Some(time)),
        Err(CronError::TimeSearchLimitExceeded | CronError::InvalidTime | CronError::InvalidDate) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn whole_second(at: Timestamp) -> Instant {
    Instant::from_second(at.as_micros().div_euclid(1_000_000)).unwrap_or(Instant::MAX)
}

/// The timestamp, if it is in the supported range.
fn instant(at: Instant) -> Option<Timestamp> {
    let micros = at.as_microsecond();
    (Timestamp::MIN.as_micros()..=Timestamp::MAX.as_micros()).contains(&micros).then(|| Timestamp::from_micros(micros))
}
