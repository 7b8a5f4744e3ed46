//! Identifiers: random, durable, time-ordered, with a prefix per type.
//!
//! A [`JobId`] has the layout of a version 7 UUID: 48 bits of milliseconds, 12 bits with the microseconds within them,
//! 18 bits that count jobs of the same instant, and 44 random bits. It therefore contains the job's `scheduled_at`
//! exactly, and the jobs of one batch sort in the order in which they were given.

use std::{fmt, str::FromStr, sync::Mutex};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Timestamp;

/// The error for an invalid identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} `{text}`: expected {shape}")]
pub struct BadId {
    text: String,
    what: &'static str,
    shape: &'static str,
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The prefix of the id's text.
            pub const PREFIX: &'static str = $prefix;

            /// From the bits an engine stored.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The bits that an engine stores.
            pub const fn to_bits(self) -> u128 {
                self.0
            }

            /// The bits, most significant byte first, so that bytes sort as ids do.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// From bytes, most significant first.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(u128::from_be_bytes(bytes))
            }

            /// The instant that the id contains.
            pub fn timestamp(self) -> Timestamp {
                let millis = (self.0 >> 80) as i64;
                let micros = ((self.0 >> 64) & 0xfff) as i64;
                Timestamp::from_micros(millis.saturating_mul(1000).saturating_add(micros))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!(concat!($prefix, "_{:032x}"), self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let digits = text.strip_prefix(concat!($prefix, "_"));
                digits.and_then(parse_hex).map(Self).ok_or_else(|| BadId {
                    text: text.chars().take(64).collect(),
                    what: $what,
                    shape: concat!("`", $prefix, "_` and 32 hexadecimal digits"),
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

fn parse_hex(digits: &str) -> Option<u128> {
    let plain = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

id_type!(
    /// Identifies a job, and contains its `scheduled_at`.
    ///
    /// ```
    /// use punctual_core::{Ids, JobId, Timestamp};
    /// let at: Timestamp = "2026-03-01T12:00:00.000123Z".parse().unwrap();
    /// let id = JobId::from_bits(Ids::seeded(7).next(at));
    /// assert_eq!(id.timestamp(), at);
    /// assert_eq!(id.to_string().parse(), Ok(id));
    /// ```
    JobId, "job", "job id"
);
id_type!(
    /// Identifies one run of a worker process; never reused.
    WorkerId, "wrk", "worker id"
);
id_type!(
    /// Identifies an event: its time, then its number in the store.
    EventId, "evt", "event id"
);
id_type!(
    /// Identifies a workflow.
    WorkflowId, "wfl", "workflow id"
);

id_type!(
    /// Identifies a schedule.
    ScheduleId, "sch", "schedule id"
);

id_type!(
    /// Identifies a token. It is not a secret.
    TokenId, "tok", "token id"
);

impl WorkflowId {
    /// An upper bound: no workflow of this instant or an earlier one has a greater id.
    pub fn last_of(at: Timestamp) -> Self {
        Self(timed_bits(at) | u128::from(u64::MAX))
    }
}

impl JobId {
    /// The id of a job at `at`, derived from `digest` instead of random bits: the same input always yields the same id.
    pub fn derived(at: Timestamp, digest: u64) -> Self {
        Self(timed_bits(at) | u128::from(digest >> 2))
    }
}

impl EventId {
    /// The id of the event that was written at `at` and has this number in the store.
    pub fn new(at: Timestamp, number: u64) -> Self {
        Self((u128::from(at.as_micros().unsigned_abs()) << 64) | u128::from(number))
    }

    /// The store's number of the event.
    pub fn number(self) -> u64 {
        self.0 as u64
    }
}

/// Identifies one execution of a job: the job and its run number, the number of starts so far.
///
/// It is also the fence of a claim: a settlement names the run that it settles, so a worker that reports late can never
/// end an execution of another worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    /// The job that is executed.
    pub job: JobId,
    /// The run number: counts every start of the job, released ones included, from 1.
    pub run: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "att_{:032x}_{}", self.job.to_bits(), self.run)
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AttemptId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let parts = text.strip_prefix("att_").and_then(|rest| rest.split_once('_'));
        parts.and_then(|(job, run)| Some(Self { job: JobId(parse_hex(job)?), run: run.parse().ok()? })).ok_or_else(
            || BadId {
                text: text.chars().take(64).collect(),
                what: "attempt id",
                shape: "`att_`, the 32 hexadecimal digits of the job, `_` and the number of the run",
            },
        )
    }
}

impl Serialize for AttemptId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AttemptId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Generates identifiers. One per process is enough; it can be shared between threads.
#[derive(Debug)]
pub struct Ids(Mutex<IdState>);

#[derive(Debug)]
struct IdState {
    random: u64,
    last: Timestamp,
    count: u32,
}

const COUNT_BITS: u32 = 18;
const RANDOM_BITS: u32 = 44;

impl Ids {
    /// A generator that continues from `seed`, which must come from a good source of randomness.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(IdState { random: seed, last: Timestamp::MIN, count: 0 }))
    }

    /// The bits of a new id that contains `at`.
    pub fn next(&self, at: Timestamp) -> u128 {
        // A poisoned lock only means that another thread panicked between two plain assignments.
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = mix(state.random);
        let random = mixed >> (64 - RANDOM_BITS);
        // The count begins in the lower half, which leaves room for a large batch: many processes generate ids for the
        // same midnight.
        let begin = (mixed as u32) & ((1 << (COUNT_BITS - 1)) - 1);
        state.count = if state.last == at { (state.count + 1) & ((1 << COUNT_BITS) - 1) } else { begin };
        state.last = at;
        timed_bits(at) | (u128::from(state.count) << RANDOM_BITS) | u128::from(random)
    }
}

/// The leading bits of an id that contains `at`; the last 62 bits are free.
const fn timed_bits(at: Timestamp) -> u128 {
    let (millis, micros) = (at.as_micros() as u128 / 1000, at.as_micros() as u128 % 1000);
    (millis << 80) | (0x7 << 76) | (micros << 64) | (0b10 << 62)
}

/// The finaliser of SplitMix64: every bit of the input affects every bit of the output.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ids_of_one_instant_sort_in_the_order_they_were_made() {
        let ids = Ids::seeded(42);
        let at = Timestamp::from_micros(1_700_000_000_000_999);
        let made: Vec<_> = (0..10_000).map(|_| JobId::from_bits(ids.next(at))).collect();
        assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(made.iter().all(|id| id.timestamp() == at));
    }

    #[test]
    fn ids_that_many_processes_make_for_one_instant_differ_in_more_than_one_part() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let count =
            |seed: u64| (Ids::seeded(seed * 0x1234_5678_9abc).next(at) >> RANDOM_BITS) & ((1 << COUNT_BITS) - 1);
        let counts: std::collections::BTreeSet<_> = (1..=1_000).map(count).collect();
        assert!(counts.len() > 980, "{}", counts.len());
    }

    #[test]
    fn ids_sort_by_their_instant() {
        let ids = Ids::seeded(1);
        let early = Timestamp::from_micros(1_700_000_000_000_999);
        assert!(ids.next(early) < ids.next(early.after(Duration::from_micros(1))));
    }

    #[test]
    fn an_id_is_a_version_7_uuid() {
        let bits = Ids::seeded(1).next(Timestamp::from_micros(5));
        assert_eq!((bits >> 76) & 0xf, 7);
        assert_eq!((bits >> 62) & 0b11, 0b10);
    }

    #[test]
    fn texts_that_are_no_ids_are_refused() {
        for text in
            ["", "job_", "job_12", "wrk_00000000000000000000000000000000", "job_+0000000000000000000000000000000"]
        {
            assert!(text.parse::<JobId>().is_err(), "{text:?}");
        }
        assert!("att_00000000000000000000000000000000".parse::<AttemptId>().is_err());
    }

    #[test]
    fn the_error_for_an_invalid_id_says_what_an_id_looks_like() {
        let error = "job_12".parse::<JobId>().unwrap_err().to_string();
        assert_eq!(error, "invalid job id `job_12`: expected `job_` and 32 hexadecimal digits");
        let error = "att_12".parse::<AttemptId>().unwrap_err().to_string();
        assert!(error.starts_with("invalid attempt id `att_12`: expected `att_`, the 32"), "{error}");
        assert!(error.ends_with("of the job, `_` and the number of the run"), "{error}");
    }

    #[test]
    fn an_attempt_names_its_job_and_run() {
        let attempt = AttemptId { job: JobId::from_bits(9), run: 3 };
        assert_eq!(attempt.to_string().parse(), Ok(attempt));
    }
}
