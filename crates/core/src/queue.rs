//! Settings of queues: whether a queue is paused, its limits, and the defaults of its jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Invalid, Limits, RetryPolicy, Spec, Timestamp, check, limits, time::some_millis};

/// A queue that has settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The settings.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// The number of changes.
    pub revision: u64,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// The author of the last change.
    pub updated_by: String,
}

/// Settings of a queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueSettings {
    /// Whether the queue is paused. Jobs of a paused queue are not started.
    pub paused: bool,
    /// Default options of the queue's jobs.
    pub defaults: JobDefaults,
    /// Concurrency and rate limits of the queue.
    pub limits: Limits,
}

/// Default options of the jobs of a queue, for options that a job does not set itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobDefaults {
    /// Priority, 0 to 10, higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Maximum attempts of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// Maximum duration of an attempt, in milliseconds.
    #[serde(rename = "timeout_ms", with = "some_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub timeout: Option<Duration>,
    /// Retry policy: the wait before the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Retention of finished jobs, in milliseconds.
    #[serde(rename = "keep_for_ms", with = "some_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub keep_for: Option<Duration>,
}

impl JobDefaults {
    /// Rejects defaults that are invalid for a job.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut spec = Spec::new("job", crate::Json::null());
        spec.priority = self.priority.unwrap_or(spec.priority);
        spec.max_attempts = self.max_attempts.unwrap_or(spec.max_attempts);
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        (spec.keep_for, spec.options.retry) = (self.keep_for, self.retry.clone());
        spec.check()
    }
}

/// A change of the settings of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSave {
    /// The queue.
    pub name: String,
    /// The new settings.
    pub settings: QueueSettings,
    /// The revision that the caller has read; 0 if the queue had no settings.
    pub revision: u64,
    /// The author of the change.
    pub actor: String,
    /// The action, such as `paused`.
    pub action: String,
}

/// A change of a queue's settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueEvent {
    /// Time of the change.
    pub at: Timestamp,
    /// Author of the change.
    pub actor: String,
    /// Action, such as `paused`.
    pub action: String,
}

/// Rejects an invalid name of a queue.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    check::name("queue", name, limits::QUEUE_MAX_CHARS)
}

/// Rejects a pattern that cannot match any queue.
pub fn check_pattern(pattern: &str) -> Result<(), Invalid> {
    check::name("pattern", pattern, limits::QUEUE_MAX_CHARS)
}

/// Whether a name matches a pattern, in which `*` matches any text and `?` any single character.
///
/// ```
/// use punctual_core::queue::fits;
/// assert!(fits("mail-*", "mail-eu") && fits("*", "any") && fits("m?il", "mail"));
/// assert!(!fits("mail-*", "mail") && !fits("m?il", "mil"));
/// ```
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut position) = (0, 0);
    // The position of the last star, and the end of the part of the name that it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while position < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(one) if *one == '?' || *one == name[position] => {
                at += 1;
                position += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, position) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_with_several_stars_find_their_way_back() {
        assert!(fits("*a*b", "xaxbxab") && fits("**", "") && fits("a*", "a") && fits("", ""));
        assert!(!fits("*a*b", "xba") && !fits("a", "") && !fits("", "a"));
    }

    #[test]
    fn defaults_that_no_job_may_have_are_refused() {
        let wrong = JobDefaults { priority: Some(11), ..JobDefaults::default() };
        assert_eq!(wrong.check().unwrap_err().to_string(), "priority: must be between 0 and 10, not 11");
        assert_eq!(JobDefaults::default().check(), Ok(()));
    }
}
