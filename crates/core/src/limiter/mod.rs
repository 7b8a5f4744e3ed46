//! Limits: how many jobs of a queue and of each concurrency key in it may start now, and which key is next.
//!
//! A limiter counts live leases and recent starts. Slots are never returned to it explicitly, so none can leak. An
//! execution whose job was cancelled counts until its handler has ended, at most until its lease ends.
//!
//! A claim reads [`Candidates`], chooses the jobs that start, and writes the [`Records`] of those.

mod candidates;
mod lines;

use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use self::{
    candidates::{CandidateQueue, Candidates, Choice, KeyLimiter, LimitKey, Records, StartRecord},
    lines::{Line, Order, QueueLimiter, choose},
};
use crate::{AttemptId, Invalid, Timestamp, WorkerId, check, limits};

/// Concurrency and rate limits of a queue, for the queue as a whole and for each concurrency key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum concurrent jobs of the queue, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Maximum number of starts of the queue per period, such as `100/1m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Maximum concurrent jobs per concurrency key. Default: 1; 0 means unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_concurrency: Option<u32>,
    /// Maximum number of starts per concurrency key and period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_rate: Option<Rate>,
    /// Whether the concurrency keys take turns, regardless of the number of their jobs. Jobs without a key count as one
    /// key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fair: bool,
    /// Number of turns of a key per turn of a key without a weight.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
}

/// The length of one turn of a key of weight 1.
const TURN: u64 = 1 << 20;

/// The limits of a queue without settings.
static NONE: Limits = Limits {
    concurrency: None,
    rate: None,
    key_concurrency: None,
    key_rate: None,
    fair: false,
    weights: BTreeMap::new(),
};

impl Limits {
    /// The limits of a queue without settings.
    pub fn none() -> &'static Self {
        &NONE
    }

    /// Rejects invalid limits; the error names the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        check_count("concurrency", self.concurrency, 1)?;
        check_count("key_concurrency", self.key_concurrency, 0)?;
        self.rate.map_or(Ok(()), |rate| rate.check("rate"))?;
        self.key_rate.map_or(Ok(()), |rate| rate.check("key_rate"))?;
        if self.weights.len() > limits::WEIGHTS_MAX_COUNT {
            return Err(Invalid::too_long("weights", self.weights.len(), limits::WEIGHTS_MAX_COUNT, "keys"));
        }
        if !self.weights.is_empty() && !self.fair {
            return Err(Invalid::new("weights", "allowed only together with `fair`"));
        }
        for (key, weight) in &self.weights {
            check::name("weights", key, limits::KEY_MAX_CHARS)?;
            check::range("weights", *weight, 1..=limits::WEIGHT_MAX)?;
        }
        Ok(())
    }

    /// Whether jobs without a key are limited, too.
    pub const fn guard_all(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some() || self.fair
    }

    /// How many jobs of the queue may start now.
    pub fn free(&self, passed: &LimitUsage, now: Timestamp) -> u32 {
        free(self.concurrency, self.rate, passed, now)
    }

    /// How many jobs of a key may start now by the limits of the key alone.
    pub fn key_free(&self, passed: &LimitUsage, now: Timestamp) -> u32 {
        free(self.key_limit(), self.key_rate, passed, now)
    }

    /// Whether jobs of a key may start now, by the limits of the key alone.
    pub fn key_state(&self, passed: &LimitUsage, now: Timestamp) -> KeyState {
        if self.key_free(passed, now) > 0 {
            return KeyState::Open;
        }
        let reopens_at = self.key_rate.and_then(|rate| rate.reopens_at(&passed.starts, now));
        reopens_at.map_or(KeyState::Full, KeyState::OpensAt)
    }

    /// How many jobs of a key may run at once.
    pub const fn key_limit(&self) -> Option<u32> {
        match self.key_concurrency {
            None => Some(1),
            Some(0) => None,
            some => some,
        }
    }

    /// Starts up to this time no longer count for any of the rates; nothing if there are no rates.
    pub fn horizon(&self, now: Timestamp) -> Option<Timestamp> {
        self.rate.into_iter().chain(self.key_rate).map(|rate| rate.horizon(now)).min()
    }

    /// How far each start advances a key's turn; jobs without a key have weight 1.
    pub fn step(&self, key: Option<&str>) -> u64 {
        let weight = key.and_then(|key| self.weights.get(key)).copied().unwrap_or(1);
        if self.fair { TURN / u64::from(weight.max(1)) } else { 0 }
    }
}

fn check_count(field: &'static str, count: Option<u32>, min: u32) -> Result<(), Invalid> {
    count.map_or(Ok(()), |count| check::range(field, count, min..=limits::CONCURRENCY_MAX))
}

fn free(limit: Option<u32>, rate: Option<Rate>, passed: &LimitUsage, now: Timestamp) -> u32 {
    let slots = limit.map_or(u32::MAX, |limit| limit.saturating_sub(passed.running));
    slots.min(rate.map_or(u32::MAX, |rate| rate.free(&passed.starts, now)))
}

/// Whether jobs of a key may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyState {
    /// A job may start now.
    Open,
    /// No job may start before a slot is freed, or before its rate allows a start at this time. The key must be checked
    /// then: a freed slot leads to a check, the passing of time does not.
    OpensAt(Timestamp),
    /// No job may start before a slot is freed.
    Full,
}

/// The usage of a limit: current executions and recent starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitUsage {
    /// Live leases, and [occupied slots](OccupiedSlot).
    pub running: u32,
    /// The number of starts per moment, see [`Rate::moment`].
    pub starts: Vec<(Timestamp, u32)>,
}

/// A slot in a limit that is occupied by an execution whose job was cancelled. It is released when the handler has
/// ended, or when the lease ends, which is no longer extended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccupiedSlot {
    /// The execution.
    pub attempt: AttemptId,
    /// The worker that was notified to stop the handler.
    pub worker: WorkerId,
    /// The job's concurrency key, if it has one.
    pub key: Option<String>,
    /// When the lease ends.
    pub until: Timestamp,
}

/// Number of starts per period, in any span of that length. Written as `100/1m` in all interfaces.
///
/// ```
/// use punctual_core::limiter::Rate;
/// let rate: Rate = "100/1m".parse().unwrap();
/// assert_eq!((rate.count, rate.period.as_secs()), (100, 60));
/// assert_eq!(rate.to_string(), "100/1m");
/// assert_eq!("5/7d".parse::<Rate>().unwrap().period.as_secs(), 7 * 86_400);
/// assert!("1m".parse::<Rate>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of starts.
    pub count: u32,
    /// The length of the period.
    pub period: Duration,
}

/// The number of moments in which a period is counted, so that the stored counters stay few. Whole milliseconds are
/// divisible by it, so that starts at the earliest possible time do not drift.
const MOMENTS: i64 = 50;

impl Rate {
    fn check(self, field: &'static str) -> Result<(), Invalid> {
        check_count(field, Some(self.count), 1)?;
        check::duration(field, self.period, limits::RATE_PERIOD_MIN, limits::RATE_PERIOD_MAX)
    }

    /// The end of the moment in which a start at `now` is counted. Because it is not before the start, a start is never
    /// dropped from the count too early.
    pub fn moment(self, now: Timestamp) -> Timestamp {
        let (length, now) = ((self.period.as_micros() as i64 / MOMENTS).max(1), now.as_micros());
        Timestamp::from_micros(now + (length - now.rem_euclid(length)) % length)
    }

    /// Starts up to this time no longer count.
    pub fn horizon(self, now: Timestamp) -> Timestamp {
        now.before(self.period)
    }

    fn free(self, starts: &[(Timestamp, u32)], now: Timestamp) -> u32 {
        let horizon = self.horizon(now);
        let lately = starts.iter().filter(|(at, _)| *at > horizon);
        lately.fold(self.count, |free, (_, count)| free.saturating_sub(*count))
    }

    /// The earliest time of the next start, given earlier starts; `now` if it is allowed already.
    pub fn opens_at(self, starts: &[(Timestamp, u32)], now: Timestamp) -> Timestamp {
        if self.free(starts, now) > 0 {
            return now;
        }
        let mut ends: Vec<Timestamp> =
            starts.iter().map(|(at, _)| at.after(self.period)).filter(|at| *at > now).collect();
        ends.sort_unstable();
        ends.into_iter().find(|end| self.free(starts, *end) > 0).unwrap_or(now)
    }

    /// Like [`opens_at`](Self::opens_at), if that is later than now.
    pub fn reopens_at(self, starts: &[(Timestamp, u32)], now: Timestamp) -> Option<Timestamp> {
        Some(self.opens_at(starts, now)).filter(|at| *at > now)
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid rate `{text}`: expected a number per period, such as 100/1m or 5/s");
        let (count, period) = text.split_once('/').ok_or_else(wrong)?;
        let count = count.trim().parse().map_err(|_| wrong())?;
        let period = period.trim();
        let one = format!("1{period}");
        let period = if period.starts_with(|c: char| c.is_ascii_digit()) { period } else { &one };
        let period: jiff::Span = period.parse().map_err(|_| wrong())?;
        let period = period.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
        Ok(Self { count, period: Duration::try_from(period).map_err(|_| wrong())? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let period = jiff::SignedDuration::try_from(self.period).unwrap_or(jiff::SignedDuration::MAX);
        write!(f, "{}/{period:#}", self.count)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::MIN.after(Duration::from_millis(1_000_000 + millis))
    }

    #[test]
    fn a_rate_counts_in_any_span_and_never_too_few() {
        let rate = Rate { count: 3, period: Duration::from_millis(640) };
        let mut passed = LimitUsage::default();
        let limits = Limits { rate: Some(rate), ..Limits::default() };
        for millis in [5, 100, 300] {
            assert!(limits.free(&passed, at(millis)) > 0);
            passed.starts.push((rate.moment(at(millis)), 1));
        }
        assert_eq!(limits.free(&passed, at(644)), 0, "the first start lies within the span");
        let opens_at = rate.opens_at(&passed.starts, at(400));
        assert_eq!(opens_at, rate.moment(at(5)).after(rate.period));
        assert!(opens_at.since(at(645)) <= rate.period / 50);
        assert_eq!((limits.free(&passed, opens_at), limits.free(&passed, at(5_000))), (1, 3));
    }

    #[test]
    fn a_key_opens_when_its_rate_allows_a_start_or_a_slot_is_freed() {
        let rate = Rate { count: 1, period: Duration::from_secs(1) };
        let limits = Limits { key_rate: Some(rate), ..Limits::default() };
        let mut passed = LimitUsage { running: 0, starts: Vec::new() };
        assert_eq!(limits.key_state(&passed, at(10)), KeyState::Open);
        passed.starts.push((at(0), 1));
        assert_eq!(limits.key_state(&passed, at(10)), KeyState::OpensAt(at(1_000)));
        passed.running = 1;
        assert_eq!(limits.key_state(&passed, at(10)), KeyState::OpensAt(at(1_000)));
        assert_eq!(limits.key_state(&passed, at(1_000)), KeyState::Full, "only the slot is missing");
        assert_eq!(Limits::none().key_state(&passed, at(10)), KeyState::Full);
    }

    #[test]
    fn each_limit_is_named_when_it_is_broken() {
        let rate = |count, secs| Some(Rate { count, period: Duration::from_secs(secs) });
        let cases = [
            ("concurrency: must be between 1 and 1000000, not 0", Limits { concurrency: Some(0), ..Limits::default() }),
            ("rate: must be between 1 and 1000000, not 0", Limits { rate: rate(0, 1), ..Limits::default() }),
            ("key_rate: must be between 1ms and 366d, not 0s", Limits { key_rate: rate(1, 0), ..Limits::default() }),
            (
                "weights: allowed only together with `fair`",
                Limits { weights: BTreeMap::from([("a".into(), 1)]), ..Limits::default() },
            ),
            (
                "weights: must be between 1 and 1000, not 0",
                Limits { fair: true, weights: BTreeMap::from([("a".into(), 0)]), ..Limits::default() },
            ),
        ];
        for (message, limits) in cases {
            assert_eq!(limits.check().unwrap_err().to_string(), message);
        }
    }
}
