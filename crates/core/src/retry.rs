//! When a failed job runs again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{check, error::Invalid, limits, time::millis};

/// Wait before the next attempt of a failed job.
///
/// ```
/// use punctual_core::RetryPolicy;
/// use std::time::Duration;
/// let policy = RetryPolicy::default();
/// // The roll of 0.5 is the middle of the jitter, so nothing is added or taken away.
/// assert_eq!(policy.delay(0, 0.5), Some(Duration::from_secs(5)));
/// assert_eq!(policy.delay(1, 0.5), Some(Duration::from_secs(10)));
/// assert_eq!(policy.delay(30, 0.5), Some(Duration::from_secs(3600)));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetryPolicy {
    /// Growth of the wait from one retry to the next.
    #[serde(flatten)]
    pub backoff: Backoff,
    /// Maximum wait, in milliseconds.
    #[serde(rename = "cap_ms", with = "millis", default = "default_cap")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub cap: Duration,
    /// Share of the wait, 0 to 1, by which it is randomly shortened or lengthened.
    #[serde(default = "default_jitter")]
    pub jitter: f64,
}

/// Growth of the wait from one retry to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Backoff {
    /// `base × 2^retries`.
    Exponential {
        /// Wait before the first retry, in milliseconds.
        #[serde(rename = "base_ms", with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        base: Duration,
    },
    /// `base × (retries + 1)`.
    Linear {
        /// Wait before the first retry, in milliseconds.
        #[serde(rename = "base_ms", with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        base: Duration,
    },
    /// The same wait each time.
    Fixed {
        /// Wait before each retry, in milliseconds.
        #[serde(rename = "base_ms", with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        base: Duration,
    },
    /// A list of waits, used in order; the last one is repeated.
    List {
        /// Waits, in milliseconds.
        delays_ms: Vec<u64>,
    },
    /// No retries: the job is dead after its first failure.
    None,
}

/// The first and the maximum wait of a job that was running when its worker was lost more than once.
const CRASH_DELAY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

/// The wait of a job after this number of crashes. There is none after the first: the job was probably not the cause,
/// and keeps its position in its queue.
pub(crate) fn crash_delay(crashes: u32) -> Duration {
    match crashes {
        0 | 1 => Duration::ZERO,
        more => CRASH_DELAY.0.saturating_mul(1 << (more - 2).min(16)).min(CRASH_DELAY.1),
    }
}

const fn default_cap() -> Duration {
    Duration::from_secs(3_600)
}

const fn default_jitter() -> f64 {
    0.1
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::exponential(Duration::from_secs(5))
    }
}

impl RetryPolicy {
    const fn of(backoff: Backoff) -> Self {
        Self { backoff, cap: default_cap(), jitter: default_jitter() }
    }

    /// Doubles the wait each time, up to an hour.
    pub const fn exponential(base: Duration) -> Self {
        Self::of(Backoff::Exponential { base })
    }

    /// Adds `base` to the wait each time, up to an hour.
    pub const fn linear(base: Duration) -> Self {
        Self::of(Backoff::Linear { base })
    }

    /// Waits for the same time before each retry.
    pub const fn fixed(base: Duration) -> Self {
        Self::of(Backoff::Fixed { base })
    }

    /// Waits for each of `delays` in order, then always for the last.
    pub fn list(delays: impl IntoIterator<Item = Duration>) -> Self {
        let millis = |delay: Duration| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        Self::of(Backoff::List { delays_ms: delays.into_iter().map(millis).collect() })
    }

    /// Never retries.
    pub const fn none() -> Self {
        Self::of(Backoff::None)
    }

    /// Sets the maximum wait.
    #[must_use]
    pub const fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// Sets the share of the wait that is random.
    #[must_use]
    pub const fn jitter(mut self, jitter: f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// The wait before the next attempt, or nothing if there are no retries.
    ///
    /// `retries` counts the retries before this one; `roll` is a random number from 0 up to 1.
    pub fn delay(&self, retries: u32, roll: f64) -> Option<Duration> {
        let plain = match &self.backoff {
            Backoff::Exponential { base } => base.saturating_mul(1 << retries.min(30)),
            Backoff::Linear { base } => base.saturating_mul(retries.saturating_add(1)),
            Backoff::Fixed { base } => *base,
            Backoff::List { delays_ms } => {
                let index = (retries as usize).min(delays_ms.len().saturating_sub(1));
                Duration::from_millis(*delays_ms.get(index)?)
            }
            Backoff::None => return None,
        };
        let factor = 1.0 + self.jitter * (2.0 * roll - 1.0);
        Some(plain.min(self.cap).mul_f64(factor.clamp(0.0, 2.0)).min(self.cap))
    }

    /// Rejects waits that are too long, empty lists and a jitter outside of 0 to 1.
    pub fn check(&self) -> Result<(), Invalid> {
        check::range("retry.jitter", self.jitter, 0.0..=1.0)?;
        if let Backoff::List { delays_ms } = &self.backoff
            && !(1..=limits::RETRY_LIST_MAX_COUNT).contains(&delays_ms.len())
        {
            let problem = format!("{} delays, from 1 to {} are allowed", delays_ms.len(), limits::RETRY_LIST_MAX_COUNT);
            return Err(Invalid::new("retry.delays_ms", problem));
        }
        if self.cap > limits::DELAY_MAX {
            let (found, max) = (self.cap.as_secs(), limits::DELAY_MAX.as_secs());
            return Err(Invalid::new("retry.cap_ms", format!("{found} s, at most {max} s are allowed")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(policy: &RetryPolicy, roll: f64) -> Vec<u64> {
        (0..5).map(|retries| policy.delay(retries, roll).unwrap().as_secs()).collect()
    }

    #[test]
    fn each_policy_grows_as_documented() {
        let base = Duration::from_secs(10);
        assert_eq!(seconds(&RetryPolicy::exponential(base), 0.5), [10, 20, 40, 80, 160]);
        assert_eq!(seconds(&RetryPolicy::linear(base), 0.5), [10, 20, 30, 40, 50]);
        assert_eq!(seconds(&RetryPolicy::fixed(base), 0.5), [10, 10, 10, 10, 10]);
        let list = RetryPolicy::list([1, 7, 3].map(Duration::from_secs));
        assert_eq!(seconds(&list, 0.5), [1, 7, 3, 3, 3]);
        assert_eq!(RetryPolicy::none().delay(0, 0.5), None);
    }

    #[test]
    fn no_wait_exceeds_the_cap_whatever_the_roll() {
        let policy = RetryPolicy::exponential(Duration::from_secs(1)).cap(Duration::from_secs(60)).jitter(1.0);
        for retries in [0, 5, 31, 32, u32::MAX] {
            for roll in [0.0, 0.3, 0.999_999] {
                assert!(policy.delay(retries, roll).unwrap() <= Duration::from_secs(60));
            }
        }
    }

    #[test]
    fn the_wait_after_crashes_grows_up_to_its_bound() {
        let seconds: Vec<u64> = [1, 2, 3, 4, 40].map(|crashes| crash_delay(crashes).as_secs()).into();
        assert_eq!(seconds, [0, 10, 20, 40, 300]);
    }

    #[test]
    fn jitter_spreads_the_wait_to_both_sides() {
        let policy = RetryPolicy::fixed(Duration::from_secs(100)).jitter(0.1);
        assert_eq!(policy.delay(0, 0.0), Some(Duration::from_secs(90)));
        assert_eq!(policy.delay(0, 1.0), Some(Duration::from_secs(110)));
    }

    #[test]
    fn a_policy_is_written_with_its_kind() {
        let text = serde_json::to_string(&RetryPolicy::default()).unwrap();
        assert_eq!(text, r#"{"kind":"exponential","base_ms":5000,"cap_ms":3600000,"jitter":0.1}"#);
        let short: RetryPolicy = serde_json::from_str(r#"{"kind":"list","delays_ms":[1,2]}"#).unwrap();
        assert_eq!(short, RetryPolicy::list([1, 2].map(Duration::from_millis)));
    }

    #[test]
    fn senseless_policies_are_refused() {
        assert!(RetryPolicy::default().jitter(1.5).check().is_err());
        assert!(RetryPolicy::default().jitter(f64::NAN).check().is_err());
        assert!(RetryPolicy::list([]).check().is_err());
        assert!(RetryPolicy::default().cap(Duration::MAX).check().is_err());
    }
}
