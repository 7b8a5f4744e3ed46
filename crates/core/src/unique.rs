//! Unique keys: their scope, and what an enqueue does in a conflict.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Invalid, Json, Spec, Status, Timestamp, check, limits, time::some_millis};

/// The scope of a job's unique key, and the effect of a conflict. By default the scope is all jobs of the same name
/// that were not cancelled or deleted, for as long as they are stored, and a conflict returns the existing job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Unique {
    /// Includes jobs of any name, not only of the same.
    #[serde(skip_serializing_if = "is_false")]
    pub any_name: bool,
    /// Includes only jobs of the same queue.
    #[serde(skip_serializing_if = "is_false")]
    pub per_queue: bool,
    /// The key expires this long after the job was enqueued.
    #[serde(rename = "period_ms", with = "some_millis", skip_serializing_if = "Option::is_none")]
    pub period: Option<Duration>,
    /// Conflicts only while the other job is in one of these statuses; in any except cancelled and deleted when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<Status>,
    /// A conflict replaces the other job's payload with this one's, if it has not started.
    #[serde(skip_serializing_if = "is_false")]
    pub replace_payload: bool,
    /// A conflict delays the other job to this one's time, if it is still scheduled.
    #[serde(skip_serializing_if = "is_false")]
    pub debounce: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The change to the existing job in a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Update {
    /// Whether it gets the new payload.
    pub payload: bool,
    /// Its new start time, if it changes.
    pub run_at: Option<Timestamp>,
}

impl Update {
    /// The reason, as written to the job's event.
    pub const fn detail(self) -> &'static str {
        match (self.payload, self.run_at.is_some()) {
            (true, true) => "another enqueue replaced the payload and pushed it back",
            (true, false) => "another enqueue replaced the payload",
            _ => "another enqueue pushed it back",
        }
    }
}

impl Unique {
    /// Rejects invalid combinations.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(period) = self.period {
            check::duration("unique.period", period, Duration::from_millis(1), limits::KEEP_MAX)?;
        }
        match self.states.iter().find(|status| matches!(status, Status::Cancelled | Status::Deleted)) {
            Some(status) => Err(Invalid::new("unique.states", format!("a job that is {status} has released its key"))),
            None => Ok(()),
        }
    }

    /// Whether a job with this status, whose key expires at this time, causes a conflict.
    pub fn conflicts(&self, holder: Status, expires_at: Option<Timestamp>, now: Timestamp) -> bool {
        expires_at.is_none_or(|until| until > now)
            && match self.states.as_slice() {
                [] => !matches!(holder, Status::Cancelled | Status::Deleted),
                states => states.contains(&holder),
            }
    }

    /// Whether a conflict may change the existing job.
    pub const fn updates(&self) -> bool {
        self.replace_payload || self.debounce
    }

    /// The change to an existing job with this status and start time `run_at` in a conflict with a job that could start
    /// at `new_run_at`.
    pub fn update(&self, holder: Status, run_at: Timestamp, new_run_at: Timestamp) -> Option<Update> {
        let untouched = matches!(holder, Status::Waiting | Status::Scheduled | Status::Queued | Status::Retrying);
        let later = self.debounce && holder == Status::Scheduled && new_run_at > run_at;
        let update = Update { payload: self.replace_payload && untouched, run_at: later.then_some(new_run_at) };
        (update.payload || update.run_at.is_some()).then_some(update)
    }

    /// When the key of a job that is enqueued now expires.
    pub fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.period.map(|period| now.after(period))
    }
}

impl Spec {
    /// The scope of its unique key, and the effect of a conflict.
    pub fn unique(&self) -> Unique {
        self.options.unique.clone().unwrap_or_default()
    }

    /// The scope, as text, and the unique key.
    pub fn unique_key(&self) -> Option<(String, &str)> {
        let key = self.unique_key.as_deref()?;
        let unique = self.options.unique.as_ref();
        let any_name = unique.is_some_and(|unique| unique.any_name);
        let per_queue = unique.is_some_and(|unique| unique.per_queue);
        // Names of jobs and queues contain no control characters, so different scopes cannot have the same text.
        let name = if any_name { "\u{1f}" } else { &self.name };
        let scope = if per_queue { format!("{name}\u{1f}{}", self.queue) } else { name.to_owned() };
        Some((scope, key))
    }
}

/// A key that is derived from a payload: from all of it, or from the parts that JSON pointers select.
pub fn key_of(payload: &Json, parts: &[String]) -> Result<String, Invalid> {
    let wrong = |error: serde_json::Error| Invalid::new("unique", error.to_string());
    // Parsed and serialised again, so that whitespace and the order of fields do not matter.
    let value: Value = payload.read().map_err(wrong)?;
    let chosen = match parts {
        [] => value,
        parts => {
            let pointed = |part: &String| {
                let right = part.is_empty() || part.starts_with('/');
                let problem = || {
                    Invalid::new(
                        "unique",
                        format!("invalid JSON pointer `{part}`: expected a path such as /order or /user/id"),
                    )
                };
                right.then(|| value.pointer(part).cloned().unwrap_or_default()).ok_or_else(problem)
            };
            Value::Array(parts.iter().map(pointed).collect::<Result<_, _>>()?)
        }
    };
    let digest = Sha256::digest(serde_json::to_vec(&chosen).map_err(wrong)?);
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("payload:{hex}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_payload_does_not_depend_on_how_it_is_written() {
        let key = |text: &str, parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            key_of(&text.parse().unwrap(), &parts).unwrap()
        };
        assert_eq!(key(r#"{"a": 1, "b": [2]}"#, &[]), key(r#"{"b":[2],"a":1}"#, &[]));
        assert_ne!(key(r#"{"a": 1}"#, &[]), key(r#"{"a": 2}"#, &[]));
        assert_eq!(key(r#"{"a": 1, "at": 5}"#, &["/a"]), key(r#"{"a": 1, "at": 6}"#, &["/a"]));
        assert_ne!(key(r#"{"a": {"b": 1}}"#, &["/a/b"]), key(r#"{"a": {"b": 2}}"#, &["/a/b"]));
        assert_eq!(key("{}", &["/a"]), key("[]", &["/a"]), "what is missing is null");
        assert!(key_of(&Json::null(), &["a".to_owned()]).is_err());
    }

    #[test]
    fn scopes_are_distinct() {
        let spec = |any_name, per_queue| {
            let mut spec = Spec::new("mail", Json::null());
            spec.unique_key = Some("k".into());
            spec.options.unique = Some(Unique { any_name, per_queue, ..Unique::default() });
            spec.unique_key().unwrap().0
        };
        let scopes = [spec(false, false), spec(false, true), spec(true, false), spec(true, true)];
        assert_eq!(scopes, ["mail", "mail\u{1f}default", "\u{1f}", "\u{1f}\u{1f}default"]);
    }

    #[test]
    fn a_conflict_lasts_for_the_period_or_while_the_state_matches() {
        let at = Timestamp::from_micros;
        let unique = Unique { states: vec![Status::Queued], ..Unique::default() };
        assert!(unique.conflicts(Status::Queued, None, at(5)) && !unique.conflicts(Status::Dead, None, at(5)));
        assert!(Unique::default().conflicts(Status::Succeeded, Some(at(6)), at(5)));
        assert!(!Unique::default().conflicts(Status::Succeeded, Some(at(5)), at(5)));
    }

    #[test]
    fn started_jobs_are_not_changed_and_the_time_is_only_postponed() {
        let (early, late) = (Timestamp::from_micros(1), Timestamp::from_micros(2));
        let both = Unique { replace_payload: true, debounce: true, ..Unique::default() };
        let update = |status, from, to| both.update(status, from, to);
        assert_eq!(update(Status::Scheduled, early, late), Some(Update { payload: true, run_at: Some(late) }));
        assert_eq!(update(Status::Scheduled, late, early), Some(Update { payload: true, run_at: None }));
        assert_eq!(update(Status::Queued, early, late), Some(Update { payload: true, run_at: None }));
        assert_eq!(update(Status::Processing, early, late), None);
        assert_eq!(update(Status::Succeeded, early, late), None);
        assert_eq!(Unique::default().update(Status::Scheduled, early, late), None);
    }
}
