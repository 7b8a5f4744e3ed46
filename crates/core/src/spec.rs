//! The specification of a job.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Invalid, JobId, Json, LogLevel, Occurrence, OnParentFailure, ParentResults, RetryPolicy, Unique, WorkflowId, check,
    limits,
    time::{millis, some_millis},
};

/// The specification of a job: everything about it that does not change during its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its type, which selects its handler.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// The input of its handler.
    pub payload: Json,
    /// 0 to 10, higher first.
    pub priority: u8,
    /// The maximum number of attempts.
    pub max_attempts: u32,
    /// The maximum duration of one attempt.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// The user on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Groups related jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// While a job holds this key, no other job with the key is enqueued; [`JobOptions::unique`] defines the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// The workflow that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<WorkflowId>,
    /// Its retention once finished, if not the default.
    #[serde(rename = "keep_for_ms", with = "some_millis", default, skip_serializing_if = "Option::is_none")]
    pub keep_for: Option<Duration>,
    /// Whether it is dropped at restart.
    #[serde(default)]
    pub ephemeral: bool,
    /// Less common options.
    #[serde(default)]
    pub options: JobOptions,
}

/// The less common parts of a [`Spec`], which no statement selects by. Engines store them as one document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// The number of worker crashes at which the job is dead; [`DEFAULT_MAX_CRASHES`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// The wait before a retry; the default policy if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Tags to find the job by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The service or person that enqueued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The trace span of the enqueuer, as a W3C `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Vendor-specific trace data, as a W3C `tracestate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// Jobs with the same key in a queue share a limit: one concurrent job, unless the [queue's](crate::Limits)
    /// differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// Arbitrary data of the enqueuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// A description for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The occurrence of a schedule that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
    /// The finished job that this one reruns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<JobId>,
    /// The scope of its unique key, if not the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// What it does when one of its parents fails.
    #[serde(skip_serializing_if = "is_default")]
    pub on_parent_failure: OnParentFailure,
    /// Whether it receives the results of its parents.
    #[serde(skip_serializing_if = "is_default")]
    pub parent_results: ParentResults,
    /// Its name in its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The workflow at whose end this callback runs. The callback belongs to the workflow without being one of its
    /// jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_of: Option<WorkflowId>,
    /// The minimum level of log lines that are stored; `info` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Keys of the payload that no admin interface may show, in addition to the common ones. They are stored with the
    /// job because the process that shows it may not know its definition.
    #[serde(rename = "redact", skip_serializing_if = "Vec::is_empty")]
    pub redact_keys: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The queue of jobs that do not set one.
pub const DEFAULT_QUEUE: &str = "default";
/// The priority of jobs that do not set one.
pub const DEFAULT_PRIORITY: u8 = 5;
/// The maximum attempts of jobs that do not set it: about 45 minutes with the default backoff, longer than a mail
/// server takes to restart.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;
/// The maximum crashes of jobs that do not set it.
pub const DEFAULT_MAX_CRASHES: u32 = 3;
/// The timeout of jobs that do not set one.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

impl Spec {
    /// A job with this name and payload, and defaults otherwise.
    pub fn new(name: impl Into<String>, payload: Json) -> Self {
        Self {
            name: name.into(),
            queue: DEFAULT_QUEUE.into(),
            payload,
            priority: DEFAULT_PRIORITY,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            timeout: DEFAULT_TIMEOUT,
            user_id: None,
            correlation_id: None,
            unique_key: None,
            workflow_id: None,
            keep_for: None,
            ephemeral: false,
            options: JobOptions::default(),
        }
    }

    /// The workflow that it belongs to, as one of its jobs or as a callback, and its name there.
    pub fn workflow_node(&self) -> Option<(WorkflowId, &str)> {
        Some((self.workflow_id.or(self.options.callback_of)?, self.options.node.as_deref()?))
    }

    /// Whether its handler starts at most once. Its worker then confirms the start beforehand.
    pub const fn runs_at_most_once(&self) -> bool {
        self.max_attempts == 1
    }

    /// The number of worker crashes at which the job is dead.
    pub fn max_crashes(&self) -> u32 {
        self.options.max_crashes.unwrap_or(DEFAULT_MAX_CRASHES)
    }

    /// Rejects an invalid specification; the error names the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        check::name("name", &self.name, limits::NAME_MAX_CHARS)?;
        check::name("queue", &self.queue, limits::QUEUE_MAX_CHARS)?;
        self.payload.check("payload", limits::PAYLOAD_MAX_BYTES)?;
        check::range("priority", self.priority, 0..=limits::PRIORITY_MAX)?;
        check::range("max_attempts", self.max_attempts, 1..=limits::ATTEMPTS_MAX_COUNT)?;
        check::duration("timeout", self.timeout, limits::TIMEOUT_MIN, limits::TIMEOUT_MAX)?;
        check::label("user_id", self.user_id.as_deref(), limits::LABEL_MAX_CHARS)?;
        check::label("correlation_id", self.correlation_id.as_deref(), limits::LABEL_MAX_CHARS)?;
        check::label("unique_key", self.unique_key.as_deref(), limits::KEY_MAX_CHARS)?;
        if let Some(keep) = self.keep_for {
            check::duration("keep_for", keep, Duration::ZERO, limits::KEEP_MAX)?;
        }
        self.options.check()
    }
}

impl JobOptions {
    fn check(&self) -> Result<(), Invalid> {
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::check)?;
        if let Some(crashes) = self.max_crashes {
            check::range("max_crashes", crashes, 1..=limits::CRASHES_MAX_COUNT)?;
        }
        if self.tags.len() > limits::TAGS_MAX_COUNT {
            return Err(Invalid::too_long("tags", self.tags.len(), limits::TAGS_MAX_COUNT, "tags"));
        }
        self.tags.iter().try_for_each(|tag| check::name("tags", tag, limits::TAG_MAX_CHARS))?;
        if self.redact_keys.len() > limits::REDACT_MAX_COUNT {
            return Err(Invalid::too_long("redact_keys", self.redact_keys.len(), limits::REDACT_MAX_COUNT, "keys"));
        }
        self.redact_keys.iter().try_for_each(|key| check::name("redact_keys", key, limits::LABEL_MAX_CHARS))?;
        check::label("created_by", self.created_by.as_deref(), limits::LABEL_MAX_CHARS)?;
        check::label("trace", self.trace.as_deref(), limits::TRACE_MAX_CHARS)?;
        check::label("trace_state", self.trace_state.as_deref(), limits::TRACE_MAX_CHARS)?;
        check::label("concurrency_key", self.concurrency_key.as_deref(), limits::KEY_MAX_CHARS)?;
        self.unique.as_ref().map_or(Ok(()), Unique::check)?;
        check::label("node", self.node.as_deref(), limits::NAME_MAX_CHARS)?;
        if let Some(text) = &self.description {
            check::text("description", text, limits::DESCRIPTION_MAX_CHARS)?;
        }
        match &self.metadata {
            Some(metadata) if holds_nul(metadata) => {
                Err(Invalid::new("metadata", "contains the control character U+0000"))
            }
            Some(metadata) => Json::of(metadata)
                .map_err(|error| Invalid::new("metadata", error.to_string()))?
                .check("metadata", limits::METADATA_MAX_BYTES),
            None => Ok(()),
        }
    }
}

/// Whether any text in a document contains NUL: not every engine can query a document that does.
fn holds_nul(document: &Value) -> bool {
    match document {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(key, value)| key.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Spec {
        Spec::new("send-email", Json::null())
    }

    #[test]
    fn each_limit_is_named_when_it_is_broken() {
        let cases: Vec<(&str, Spec)> = vec![
            ("name: must not be empty", Spec { name: String::new(), ..spec() }),
            ("metadata: contains the control character U+0000", {
                let mut spec = spec();
                spec.options.metadata = Some(serde_json::json!({"a": ["b", "\0"]}));
                spec
            }),
            ("name: begins or ends with white space", Spec { name: " a".into(), ..spec() }),
            ("name: contains the control character U+0000", Spec { name: "a\0b".into(), ..spec() }),
            ("queue: 129 characters, at most 128 are allowed", Spec { queue: "é".repeat(129), ..spec() }),
            ("priority: must be between 0 and 10, not 11", Spec { priority: 11, ..spec() }),
            ("max_attempts: must be between 1 and 1000, not 0", Spec { max_attempts: 0, ..spec() }),
            (
                "max_crashes: must be between 1 and 100, not 0",
                Spec { options: JobOptions { max_crashes: Some(0), ..JobOptions::default() }, ..spec() },
            ),
            ("timeout: must be between 1ms and 7d, not 0s", Spec { timeout: Duration::ZERO, ..spec() }),
            ("unique_key: must not be empty", Spec { unique_key: Some(String::new()), ..spec() }),
            (
                "payload: 1048577 bytes, at most 1048576 are allowed",
                Spec { payload: Json::trusted(format!("\"{}\"", "x".repeat((1 << 20) - 1))), ..spec() },
            ),
            (
                "tags: 33 tags, at most 32 are allowed",
                Spec { options: JobOptions { tags: vec!["t".into(); 33], ..JobOptions::default() }, ..spec() },
            ),
        ];
        for (message, spec) in cases {
            assert_eq!(spec.check().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn emoji_and_other_scripts_are_welcome() {
        let spec = Spec {
            name: "отправить-✉️".into(), queue: "队列".into(), user_id: Some("👩‍💻".into()), ..spec()
        };
        assert_eq!(spec.check(), Ok(()));
    }
}
