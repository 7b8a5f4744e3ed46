//! What somebody wants done.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Invalid, JobId, Json, LogLevel, Occurrence, OnParentFailure, ParentResults, RetryPolicy, Unique, WorkflowId, check,
    limits,
    time::{millis, some_millis},
};

/// What somebody wants done: everything about a job that does not change while it lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its type: which handler runs it.
    pub name: String,
    /// The queue it stands in.
    pub queue: String,
    /// What the handler is given.
    pub payload: Json,
    /// 0 to 10, higher first.
    pub priority: u8,
    /// How often it may be tried.
    pub max_attempts: u32,
    /// How long one attempt may take.
    #[serde(rename = "timeout_ms", with = "millis")]
    pub timeout: Duration,
    /// On whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Ties together what belongs together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// While a job holds this key, another one is not enqueued; how far that reaches, [`JobOptions::unique`] says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// The workflow it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<WorkflowId>,
    /// How long to keep it once finished, if not as long as the others.
    #[serde(rename = "keep_for_ms", with = "some_millis", default, skip_serializing_if = "Option::is_none")]
    pub keep_for: Option<Duration>,
    /// Dropped at restart.
    #[serde(default)]
    pub ephemeral: bool,
    /// What few jobs have.
    #[serde(default)]
    pub options: JobOptions,
}

/// The parts of a [`Spec`] that few jobs have and no statement selects by. Engines store them as one document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobOptions {
    /// How many crashes of its workers it may be there at; [`DEFAULT_MAX_CRASHES`] if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_crashes: Option<u32>,
    /// When to try again after a failure; the default policy if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Which service or person asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The span of whoever enqueued it, as a W3C `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What the systems on the way have noted of that trace, as a W3C `tracestate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// Jobs of one key in one queue share a limit: one at a time, unless the [queue's](crate::Limits) is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    /// Anything the enqueuer wants to keep with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// A sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which occurrence of which schedule it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
    /// The finished job that this one runs once more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun_of: Option<JobId>,
    /// How far its unique key reaches, if not as by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// What it does when one of its parents dies or is cancelled.
    #[serde(skip_serializing_if = "is_default")]
    pub on_parent_failure: OnParentFailure,
    /// Whether it is handed what its parents returned.
    #[serde(skip_serializing_if = "is_default")]
    pub parent_results: ParentResults,
    /// The name it has in its workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The workflow whose end it tells. It belongs to that workflow without being one of its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_of: Option<WorkflowId>,
    /// Lines of its log below this level are not kept; `info` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Keys of the payload that no admin surface may show, besides the common ones. They travel with the job
    /// because the process that shows it need not know its definition.
    #[serde(rename = "redact", skip_serializing_if = "Vec::is_empty")]
    pub redact_keys: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The queue of jobs that name none.
pub const DEFAULT_QUEUE: &str = "default";
/// The priority of jobs that name none.
pub const DEFAULT_PRIORITY: u8 = 5;
/// The attempts of jobs that name none: about 45 minutes with the default backoff, longer than a mail server takes to
/// restart.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;
/// The crashes of jobs that name none.
pub const DEFAULT_MAX_CRASHES: u32 = 3;
/// The timeout of jobs that name none.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

impl Spec {
    /// A job of that name and payload, all else as by default.
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

    /// The workflow that it belongs to, as one of its jobs or as a callback, and the name it has there.
    pub fn place(&self) -> Option<(WorkflowId, &str)> {
        Some((self.workflow_id.or(self.options.callback_of)?, self.options.node.as_deref()?))
    }

    /// Whether its handler starts at most once. Then its worker confirms it before.
    pub const fn runs_at_most_once(&self) -> bool {
        self.max_attempts == 1
    }

    /// How many crashes of its workers it may be there at; with the last of them it is dead.
    pub fn max_crashes(&self) -> u32 {
        self.options.max_crashes.unwrap_or(DEFAULT_MAX_CRASHES)
    }

    /// Refuses what breaks a limit, naming the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        check::word("name", &self.name, limits::NAME_MAX_CHARS)?;
        check::word("queue", &self.queue, limits::QUEUE_MAX_CHARS)?;
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
        self.tags.iter().try_for_each(|tag| check::word("tags", tag, limits::TAG_MAX_CHARS))?;
        if self.redact_keys.len() > limits::REDACT_MAX_COUNT {
            return Err(Invalid::too_long("redact_keys", self.redact_keys.len(), limits::REDACT_MAX_COUNT, "keys"));
        }
        self.redact_keys.iter().try_for_each(|key| check::word("redact_keys", key, limits::LABEL_MAX_CHARS))?;
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
                Err(Invalid::new("metadata", "holds the control character U+0000"))
            }
            Some(metadata) => Json::of(metadata)
                .map_err(|error| Invalid::new("metadata", error.to_string()))?
                .check("metadata", limits::METADATA_MAX_BYTES),
            None => Ok(()),
        }
    }
}

/// Whether any text in a document holds NUL: not every engine can look into a document that does.
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
            ("metadata: holds the control character U+0000", {
                let mut spec = spec();
                spec.options.metadata = Some(serde_json::json!({"a": ["b", "\0"]}));
                spec
            }),
            ("name: begins or ends with white space", Spec { name: " a".into(), ..spec() }),
            ("name: holds the control character U+0000", Spec { name: "a\0b".into(), ..spec() }),
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
