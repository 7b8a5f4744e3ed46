//! The jobs that clients enqueue during the chaos run.

use std::{collections::HashMap, time::Duration};

use punctual::{Draft, JobId};

use crate::workers::JOB;

/// The queue with a concurrency limit, and its limit.
pub(crate) const LIMITED: (&str, u32) = ("limited", 5);
/// Number of concurrency keys.
const KEYS: u8 = 10;

/// The kind of a job, for the judgement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The number of attempts that fail.
    pub(crate) failures: u32,
    /// Whether `max_attempts` is 1.
    pub(crate) once: bool,
    /// The concurrency limit of the job: the queue or key, and the maximum of concurrent executions.
    pub(crate) limit: Option<(String, u32)>,
}

/// All acknowledged jobs.
pub(crate) type Acknowledged = HashMap<JobId, Kind>;

/// A job of a random kind.
pub(crate) fn random() -> (Draft, Kind) {
    let once = fastrand::u8(..10) == 0;
    let failures = u32::from(!once && fastrand::u8(..10) == 0);
    let draft = Draft::new(JOB, &failures).priority(fastrand::u8(..2)).max_crashes(100);
    let draft = if once { draft.max_attempts(1) } else { draft };
    let (draft, limit) = match fastrand::u8(..10) {
        0 | 1 => (draft.delay(Duration::from_millis(fastrand::u64(..3_000))), None),
        2 => {
            let key = format!("k{}", fastrand::u8(..KEYS));
            (draft.concurrency_key(key.clone()), Some((format!("key {key}"), 1)))
        }
        3 => (draft.queue(LIMITED.0), Some((format!("queue {}", LIMITED.0), LIMITED.1))),
        _ => (draft, None),
    };
    (draft, Kind { failures, once, limit })
}
