//! Counters of ended jobs: outcomes by name and hour, with durations and lateness in buckets.
//!
//! Reports over millions of jobs read these few rows instead of the jobs. Bucket sizes grow by a quarter of a power of
//! two, so a percentile that is read from them is at most 10 % off.

use std::{fmt, str::FromStr, time::Duration};

use crate::{AttemptStatus, Timestamp};

/// The quantity that a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Attempts that ended with this status, by their duration.
    Ended(AttemptStatus),
    /// Jobs that died, by the duration of their last attempt.
    Died,
    /// Starts, by their delay after `run_at`.
    Lateness,
}

impl Measure {
    /// Its name in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended(status) => status.as_str(),
            Self::Died => "died",
            Self::Lateness => "lateness",
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Measure {
    type Err = crate::state::UnknownStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "died" => Ok(Self::Died),
            "lateness" => Ok(Self::Lateness),
            other => other.parse().map(Self::Ended),
        }
    }
}

/// The number of values in one bucket during some hours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rollup {
    /// The jobs' name.
    pub name: String,
    /// Their queue.
    pub queue: String,
    /// What was counted.
    pub measure: Measure,
    /// The bucket, see [`bucket`].
    pub bucket: u16,
    /// How many.
    pub count: u64,
}

/// The hour that contains an instant, represented by its start.
pub fn hour(at: Timestamp) -> Timestamp {
    const HOUR_MICROS: i64 = 3_600_000_000;
    Timestamp::from_micros(at.as_micros() / HOUR_MICROS * HOUR_MICROS)
}

/// The bucket of a duration.
///
/// ```
/// use punctual_core::measure::{bucket, middle};
/// use std::time::Duration;
/// let shown = middle(bucket(Duration::from_millis(250)));
/// assert!((225..=275).contains(&shown.as_millis()));
/// ```
pub fn bucket(duration: Duration) -> u16 {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1);
    let power = micros.ilog2();
    // The two bits below the leading one cut each power of two into four.
    let quarter = if power >= 2 { (micros >> (power - 2)) & 0b11 } else { (micros << (2 - power)) & 0b11 };
    (power * 4) as u16 + quarter as u16
}

/// The duration in the middle of a bucket.
pub fn middle(bucket: u16) -> Duration {
    let (power, quarter) = (u32::from(bucket / 4), f64::from(bucket % 4));
    Duration::from_secs_f64(2f64.powi(power.min(63) as i32) * (1.0 + (quarter + 0.5) / 4.0) / 1e6)
}

/// The duration that `share` (0 to 1) of the counted values do not exceed, or nothing if there are none.
pub fn percentile(buckets: &[(u16, u64)], share: f64) -> Option<Duration> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = ((total as f64 * share).ceil() as u64).max(1);
    let mut sorted = buckets.to_vec();
    sorted.sort_unstable();
    let mut seen = 0;
    sorted.into_iter().find_map(|(bucket, count)| {
        seen += count;
        (seen >= rank).then(|| middle(bucket))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_with_the_duration_and_are_near_it() {
        let mut last = 0;
        for micros in (0..60).flat_map(|power| [1u64 << power, (1 << power) + (1 << power) / 3]) {
            let duration = Duration::from_micros(micros);
            assert!(bucket(duration) >= last);
            last = bucket(duration);
            let ratio = middle(last).as_secs_f64() / duration.as_secs_f64();
            assert!(micros < 4 || (0.88..1.13).contains(&ratio), "{micros} µs: {ratio}");
        }
        assert_eq!(bucket(Duration::ZERO), 0);
    }

    #[test]
    fn percentiles_read_the_right_bucket() {
        let (fast, slow) = (bucket(Duration::from_millis(1)), bucket(Duration::from_secs(1)));
        let buckets = [(slow, 2), (fast, 98)];
        assert_eq!(percentile(&buckets, 0.5), Some(middle(fast)));
        assert_eq!(percentile(&buckets, 0.98), Some(middle(fast)));
        assert_eq!(percentile(&buckets, 0.99), Some(middle(slow)));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
