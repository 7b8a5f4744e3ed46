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
    /// Stored settings that this version cannot read; they are preserved until new ones are saved.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadableSettings>>,
}

/// Stored settings that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableSettings {
    /// The stored text.
    pub text: String,
    /// Why it cannot be read.
    pub problem: String,
    /// Whether they may limit the queue. A store that records apart whether a queue is limited knows it.
    pub may_limit: bool,
}

impl QueueSettings {
    /// Parses stored settings. If they cannot be read, whether the queue is `paused` and whether they `may_limit` it is
    /// what the store knows besides.
    pub fn from_stored(text: &str, paused: bool, may_limit: bool) -> Self {
        serde_json::from_str(text).unwrap_or_else(|error| {
            let unreadable = UnreadableSettings { text: text.to_owned(), problem: error.to_string(), may_limit };
            Self { paused, unreadable: Some(Box::new(unreadable)), ..Self::default() }
        })
    }

    /// The text that an engine stores.
    pub fn to_stored(&self) -> Result<String, serde_json::Error> {
        match &self.unreadable {
            Some(unreadable) => Ok(unreadable.text.clone()),
            None => serde_json::to_string(self),
        }
    }

    /// Whether the queue has limits, or may have some that cannot be read.
    pub fn may_limit(&self) -> bool {
        match &self.unreadable {
            Some(unreadable) => unreadable.may_limit,
            None => self.limits != Limits::default(),
        }
    }

    /// Whether jobs of the queue start. A queue that may have limits which cannot be read starts none: it is
    /// unknown what it must keep to.
    pub fn starts_jobs(&self) -> bool {
        let is_unknown = self.unreadable.is_some() && self.may_limit();
        !self.paused && !is_unknown
    }
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    fn settings_that_cannot_be_read_start_no_jobs_and_are_preserved() {
        let read = QueueSettings::from_stored("{\"limits\":{\"concurrency\":2}}", true, true);
        assert!(!read.paused && read.unreadable.is_none() && read.may_limit() && read.starts_jobs());
        for text in ["{", "{\"limits\":{\"lanes\":2}}", "null"] {
            let settings = QueueSettings::from_stored(text, false, true);
            assert!(settings.may_limit() && !settings.paused && !settings.starts_jobs());
            assert_eq!(settings.to_stored().unwrap(), text);
            // What the store knows besides.
            assert!(QueueSettings::from_stored(text, false, false).starts_jobs());
            assert!(!QueueSettings::from_stored(text, true, false).starts_jobs());
        }
        let paused = QueueSettings { paused: true, ..QueueSettings::default() };
        let stored = paused.to_stored().unwrap();
        assert_eq!(QueueSettings::from_stored(&stored, false, true), paused);
    }

    #[test]
    fn defaults_that_no_job_may_have_are_refused() {
        let wrong = JobDefaults { priority: Some(11), ..JobDefaults::default() };
        assert_eq!(wrong.check().unwrap_err().to_string(), "priority: must be between 0 and 10, not 11");
        assert_eq!(JobDefaults::default().check(), Ok(()));
    }
}
