//! What is said of a queue: whether it is paused, how many of its jobs may run, and what they are by default.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Invalid, Limits, RetryPolicy, Spec, Timestamp, check, limits, time::some_millis};

/// A queue of which something was said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// What was said.
    #[serde(flatten)]
    pub settings: QueueSettings,
    /// Counts the changes.
    pub revision: u64,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// By whom.
    pub updated_by: String,
}

/// What is said of a queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueSettings {
    /// Nothing of it is started.
    pub paused: bool,
    /// What its jobs are if they do not say otherwise.
    pub defaults: JobDefaults,
    /// How many of its jobs may run, and start.
    pub limits: Limits,
}

/// What the jobs of a queue are if they do not say otherwise.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobDefaults {
    /// 0 to 10, higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// How often they may be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long one attempt may take.
    #[serde(rename = "timeout_ms", with = "some_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub timeout: Option<Duration>,
    /// When to try again after a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// How long to keep them once finished.
    #[serde(rename = "keep_for_ms", with = "some_millis", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub keep_for: Option<Duration>,
}

impl JobDefaults {
    /// Refuses what no job may be.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut spec = Spec::new("job", crate::Json::null());
        spec.priority = self.priority.unwrap_or(spec.priority);
        spec.max_attempts = self.max_attempts.unwrap_or(spec.max_attempts);
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        (spec.keep_for, spec.options.retry) = (self.keep_for, self.retry.clone());
        spec.check()
    }
}

/// A change of what is said of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSave {
    /// The queue.
    pub name: String,
    /// What is said of it from now on.
    pub settings: QueueSettings,
    /// How often it was changed before, as the caller knows; 0 if nothing was said of it.
    pub revision: u64,
    /// Who changes it.
    pub actor: String,
    /// What was done, such as `paused`.
    pub action: String,
}

/// What was done to a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueEvent {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub actor: String,
    /// What was done, such as `paused`.
    pub action: String,
}

/// Refuses a name that no queue may have.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    check::word("queue", name, limits::QUEUE_MAX_CHARS)
}

/// Refuses a pattern that could not fit any queue.
pub fn check_pattern(pattern: &str) -> Result<(), Invalid> {
    check::word("pattern", pattern, limits::QUEUE_MAX_CHARS)
}

/// Whether a name fits a pattern, in which `*` stands for any text and `?` for any one character.
///
/// ```
/// use punctual_core::queue::fits;
/// assert!(fits("mail-*", "mail-eu") && fits("*", "any") && fits("m?il", "mail"));
/// assert!(!fits("mail-*", "mail") && !fits("m?il", "mil"));
/// ```
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last star stood, and how much of the name it has taken so far.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(wish) if *wish == '?' || *wish == name[place] => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((stood, taken)) => {
                    star = Some((stood, taken + 1));
                    (at, place) = (stood + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|wish| *wish == '*')
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
