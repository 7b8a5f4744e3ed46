//! Limits: how many jobs of a queue and of each concurrency key in it may start now, and which key is next.
//!
//! A limiter counts live leases and recent starts. Slots are never returned to it explicitly, so none can leak. An
//! execution whose job was cancelled counts until its handler has ended, at most until its lease ends.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    fmt,
    str::FromStr,
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

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

/// Whether a queue enters another round of turns when its turn changes from `from` to `to`: the time to remove keys
/// whose turn is behind it.
pub const fn begins_round(from: u64, to: u64) -> bool {
    from / TURN < to / TURN
}

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

/// The position of a job in the order of claims, smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// See [`ClaimRequest::rank`](crate::ClaimRequest::rank).
    pub rank: u32,
    /// The earliest start time.
    pub run_at: Timestamp,
    /// The order of jobs with the same time.
    pub tie: u128,
}

/// A queue that a claim takes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimiter {
    /// The number of jobs that may start.
    pub free: u32,
    /// The turn of the last job that started, where keys take turns. A key that becomes active again begins there.
    pub clock: u64,
}

impl QueueLimiter {
    /// A queue without limits.
    pub const OPEN: Self = Self { free: u32::MAX, clock: 0 };
}

/// Jobs with the same limit: those of one key, or those of a queue without a key. In the order of their starts.
#[derive(Debug, Clone)]
pub struct Line<T> {
    /// The index of the queue.
    pub queue: usize,
    /// The number of jobs that may start.
    pub free: u32,
    /// The turn of the key: within a queue, the smallest comes first.
    pub turn: u64,
    /// How far each start advances the turn.
    pub step: u64,
    /// The jobs.
    pub jobs: VecDeque<(Order, T)>,
}

impl<T> Line<T> {
    /// The sort key of its first job within the queue.
    fn claim(&self) -> Option<(u32, u64, Order)> {
        let (order, _) = self.jobs.front().filter(|_| self.free > 0)?;
        Some((order.rank, self.turn, *order))
    }
}

/// The sort key of the first job of a line, with the number of the line: the smallest is next in its queue.
type Front = Reverse<((u32, u64, Order), usize)>;

/// Chooses at most `limit` jobs to start, in order, each with the number of its line: higher rank first; in a queue
/// whose keys take turns, by turns; then by time. `queues` and `lines` are updated as if these jobs had started.
pub fn choose<T>(queues: &mut [QueueLimiter], lines: &mut [Line<T>], limit: usize) -> Vec<(usize, T)> {
    let mut next: Vec<BinaryHeap<Front>> = queues.iter().map(|_| BinaryHeap::new()).collect();
    for (number, line) in lines.iter().enumerate() {
        next[line.queue].extend(line.claim().map(|claim| Reverse((claim, number))));
    }
    let mut chosen = Vec::new();
    while chosen.len() < limit {
        let fronts = next.iter().enumerate().filter(|(queue, _)| queues[*queue].free > 0);
        let fronts = fronts.filter_map(|(queue, heap)| heap.peek().map(|Reverse(((_, _, order), _))| (*order, queue)));
        let Some((_, queue)) = fronts.min() else { break };
        let Some(Reverse(((_, turn, _), number))) = next[queue].pop() else { break };
        let line = &mut lines[number];
        chosen.extend(line.jobs.pop_front().map(|(_, job)| (number, job)));
        queues[queue].free -= 1;
        queues[queue].clock = queues[queue].clock.max(turn);
        line.free -= 1;
        line.turn += line.step;
        next[queue].extend(line.claim().map(|claim| Reverse((claim, number))));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::MIN.after(Duration::from_millis(1_000_000 + millis))
    }

    fn line(queue: usize, free: u32, (turn, step): (u64, u64), jobs: &[(u32, u64)]) -> Line<String> {
        let job = |(rank, time): &(u32, u64)| {
            (Order { rank: *rank, run_at: at(*time), tie: 0 }, format!("{queue}:{rank}:{time}"))
        };
        Line { queue, free, turn, step, jobs: jobs.iter().map(job).collect() }
    }

    fn chosen(queues: &mut [QueueLimiter], lines: &mut [Line<String>], limit: usize) -> Vec<String> {
        choose(queues, lines, limit).into_iter().map(|(_, job)| job).collect()
    }

    #[test]
    fn a_full_key_does_not_hold_up_the_others() {
        let mut lines = [
            line(0, 0, (0, 0), &[(1, 0), (1, 1)]),
            line(0, 1, (0, 0), &[(1, 2), (1, 3)]),
            line(0, 5, (0, 0), &[(1, 4), (2, 0)]),
        ];
        assert_eq!(chosen(&mut [QueueLimiter::OPEN], &mut lines, 10), ["0:1:2", "0:1:4", "0:2:0"]);
    }

    #[test]
    fn a_full_queue_does_not_hold_up_the_others() {
        let mut queues = [QueueLimiter { free: 1, clock: 0 }, QueueLimiter::OPEN];
        let mut lines = [line(0, 9, (0, 0), &[(1, 0), (1, 1), (1, 2)]), line(1, 9, (0, 0), &[(1, 5), (2, 0)])];
        assert_eq!(chosen(&mut queues, &mut lines, 10), ["0:1:0", "1:1:5", "1:2:0"]);
        assert_eq!(queues[0].free, 0);
    }

    #[test]
    fn keys_take_turns_by_their_weights() {
        let many: Vec<(u32, u64)> = (0..100).map(|time| (1, time)).collect();
        let late = [(1, 500), (1, 501), (1, 502)];
        let mut queues = [QueueLimiter::OPEN];
        let mut lines = [line(0, 99, (0, TURN / 2), &many), line(0, 99, (0, TURN), &late)];
        let order = chosen(&mut queues, &mut lines, 9);
        assert_eq!(order, ["0:1:0", "0:1:500", "0:1:1", "0:1:2", "0:1:501", "0:1:3", "0:1:4", "0:1:502", "0:1:5"]);
        assert_eq!(queues[0].clock, 2 * TURN + TURN / 2);
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
