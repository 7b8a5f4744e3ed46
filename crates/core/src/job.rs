//! A job: what was asked for, and how it stands.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AttemptId, AttemptStatus, EventId, JobId, Json, Occurrence, OnParentFailure, ParentResults, RetryPolicy, Status,
    Timestamp, Unique, WorkerId, WorkflowId,
    error::Invalid,
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
    /// While a job holds this key, another one is not enqueued; how far that reaches, [`Extras::unique`] says.
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
    pub extras: Extras,
}

/// The parts of a [`Spec`] that few jobs have and no statement selects by. Engines store them as one document.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Extras {
    /// When to try again after a failure; the default policy if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Which service or person asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The W3C trace context of whoever enqueued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
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
/// The attempts of jobs that name none.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 3;
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
            extras: Extras::default(),
        }
    }

    /// The workflow that it belongs to, as one of its jobs or as a callback, and the name it has there.
    pub fn place(&self) -> Option<(WorkflowId, &str)> {
        Some((self.workflow_id.or(self.extras.callback_of)?, self.extras.node.as_deref()?))
    }

    /// Refuses what breaks a limit, naming the field and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        check_word("name", &self.name, limits::NAME_MAX_CHARS)?;
        check_word("queue", &self.queue, limits::QUEUE_MAX_CHARS)?;
        self.payload.check("payload", limits::PAYLOAD_MAX_BYTES)?;
        if self.priority > limits::PRIORITY_MAX {
            let problem = format!("{} is not between 0 and {}", self.priority, limits::PRIORITY_MAX);
            return Err(Invalid::new("priority", problem));
        }
        if !(1..=limits::ATTEMPTS_MAX_COUNT).contains(&self.max_attempts) {
            let problem = format!("{} is not between 1 and {}", self.max_attempts, limits::ATTEMPTS_MAX_COUNT);
            return Err(Invalid::new("max_attempts", problem));
        }
        check_duration("timeout", self.timeout, limits::TIMEOUT_MIN, limits::TIMEOUT_MAX)?;
        check_label("user_id", self.user_id.as_deref(), limits::LABEL_MAX_CHARS)?;
        check_label("correlation_id", self.correlation_id.as_deref(), limits::LABEL_MAX_CHARS)?;
        check_label("unique_key", self.unique_key.as_deref(), limits::KEY_MAX_CHARS)?;
        if let Some(keep) = self.keep_for {
            check_duration("keep_for", keep, Duration::ZERO, limits::KEEP_MAX)?;
        }
        self.extras.check()
    }
}

impl Extras {
    fn check(&self) -> Result<(), Invalid> {
        self.retry.as_ref().map_or(Ok(()), RetryPolicy::check)?;
        if self.tags.len() > limits::TAGS_MAX_COUNT {
            return Err(Invalid::too_long("tags", self.tags.len(), limits::TAGS_MAX_COUNT, "tags"));
        }
        self.tags.iter().try_for_each(|tag| check_word("tags", tag, limits::TAG_MAX_CHARS))?;
        if self.redact_keys.len() > limits::REDACT_MAX_COUNT {
            return Err(Invalid::too_long("redact_keys", self.redact_keys.len(), limits::REDACT_MAX_COUNT, "keys"));
        }
        self.redact_keys.iter().try_for_each(|key| check_word("redact_keys", key, limits::LABEL_MAX_CHARS))?;
        check_label("created_by", self.created_by.as_deref(), limits::LABEL_MAX_CHARS)?;
        check_label("trace", self.trace.as_deref(), limits::TRACE_MAX_CHARS)?;
        check_label("concurrency_key", self.concurrency_key.as_deref(), limits::KEY_MAX_CHARS)?;
        self.unique.as_ref().map_or(Ok(()), Unique::check)?;
        check_label("node", self.node.as_deref(), limits::NAME_MAX_CHARS)?;
        if let Some(text) = &self.description {
            check_text("description", text, limits::DESCRIPTION_MAX_CHARS)?;
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

/// Refuses a name that is empty, too long, padded with spaces, or holds control characters.
pub fn check_word(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty"));
    }
    if text.trim() != text {
        return Err(Invalid::new(field, "begins or ends with white space"));
    }
    if let Some(bad) = text.chars().find(|c| c.is_control()) {
        return Err(Invalid::new(field, format!("holds the control character U+{:04X}", u32::from(bad))));
    }
    check_length(field, text, max_chars)
}

fn check_label(field: &'static str, text: Option<&str>, max_chars: usize) -> Result<(), Invalid> {
    text.map_or(Ok(()), |text| check_word(field, text, max_chars))
}

/// Refuses a text that is too long or holds NUL, which not every engine can store.
pub fn check_text(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    if text.contains('\0') {
        return Err(Invalid::new(field, "holds the control character U+0000"));
    }
    check_length(field, text, max_chars)
}

fn check_length(field: &'static str, text: &str, max_chars: usize) -> Result<(), Invalid> {
    let length = text.chars().count();
    if length > max_chars { Err(Invalid::too_long(field, length, max_chars, "characters")) } else { Ok(()) }
}

/// Refuses a time that is not between `min` and `max`.
pub fn check_duration(field: &'static str, found: Duration, min: Duration, max: Duration) -> Result<(), Invalid> {
    if (min..=max).contains(&found) {
        return Ok(());
    }
    let problem = format!("{} ms is not between {} ms and {} ms", found.as_millis(), min.as_millis(), max.as_millis());
    Err(Invalid::new(field, problem))
}

/// A job on its way into the store.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Its id, which carries `scheduled_at`. Enqueuing the same id again returns the job that has it.
    pub id: JobId,
    /// How long after `scheduled_at` it may start; nothing if it may start at once.
    pub delay: Option<Duration>,
    /// What is to be done.
    pub spec: Spec,
    /// The jobs that it waits for, each once. Those of the same batch come before it.
    pub parents: Vec<JobId>,
}

impl NewJob {
    /// A job that waits for nothing.
    pub const fn new(id: JobId, spec: Spec) -> Self {
        Self { id, delay: None, spec, parents: Vec::new() }
    }

    /// The status that it has when it is stored at `now`, unless it waits for parents, and when it may start.
    ///
    /// A client's clock may be ahead of the store's: what need not wait must not wait for that either.
    pub fn start(&self, now: Timestamp) -> (Status, Timestamp) {
        let scheduled_at = self.id.timestamp();
        let run_at = self.delay.map_or(scheduled_at.min(now), |delay| scheduled_at.after(delay));
        (if run_at > now { Status::Scheduled } else { Status::Queued }, run_at)
    }

    /// The job as it is once stored at `now`.
    pub fn into_job(self, now: Timestamp) -> Job {
        let (status, run_at) = self.start(now);
        Job {
            id: self.id,
            spec: self.spec,
            status,
            run_at,
            attempt: 0,
            run: 0,
            crash_count: 0,
            worker_id: None,
            lease_until: None,
            waiting_on: 0,
            progress: None,
            result: None,
            error: None,
            created_at: now,
            updated_at: now,
            started_at: None,
            finished_at: None,
        }
    }
}

/// A job as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What is to be done.
    pub spec: Spec,
    /// Where it stands.
    pub status: Status,
    /// When it may next start.
    pub run_at: Timestamp,
    /// Attempts spent, the current one included.
    pub attempt: u32,
    /// Executions started, released ones included.
    pub run: u32,
    /// Attempts that ended because the worker vanished.
    pub crash_count: u32,
    /// The worker that holds it.
    pub worker_id: Option<WorkerId>,
    /// Until when it is held.
    pub lease_until: Option<Timestamp>,
    /// Unfinished parents.
    pub waiting_on: u32,
    /// How far it has come, as its handler says.
    pub progress: Option<Progress>,
    /// What it returned.
    pub result: Option<Json>,
    /// Why its last attempt failed.
    pub error: Option<Fault>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it came to an end.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// The time it was asked for.
    pub fn scheduled_at(&self) -> Timestamp {
        self.id.timestamp()
    }

    /// The workflow that it belongs to and the name it has there.
    pub fn place(&self) -> Option<(WorkflowId, &str)> {
        self.spec.place()
    }

    /// Its retry policy.
    pub fn retry(&self) -> RetryPolicy {
        self.spec.extras.retry.clone().unwrap_or_default()
    }
}

/// How far a job has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    pub percent: f32,
    /// What it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// A stable code for what Punctual itself found, such as `PUNCTUAL_E_TIMEOUT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened.
    pub message: String,
}

/// The handler ran longer than the job's timeout.
pub const E_TIMEOUT: &str = "PUNCTUAL_E_TIMEOUT";
/// The worker vanished while it held the job.
pub const E_LOST: &str = "PUNCTUAL_E_LOST";
/// The handler panicked.
pub const E_PANIC: &str = "PUNCTUAL_E_PANIC";
/// The payload or the result is not what the handler's types say.
pub const E_DATA: &str = "PUNCTUAL_E_DATA";

impl Fault {
    /// A handler's own error.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: None, message: cut_bytes(message.into(), limits::ERROR_MAX_BYTES) }
    }

    /// An error that Punctual found, with its code.
    pub fn coded(code: &str, message: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..Self::new(message) }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{code}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The text without NULs, which not every engine can store, cut to `max_bytes` with a note of what is missing.
pub fn cut_bytes(mut text: String, max_bytes: usize) -> String {
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    if text.len() <= max_bytes {
        return text;
    }
    let mut end = max_bytes;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let missing = text.len() - end;
    text.truncate(end);
    text.push_str(&format!("… ({missing} more bytes)"));
    text
}

/// One execution of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    /// Its id: the job, and how often it had been started by then.
    pub id: AttemptId,
    /// Which of the job's attempts it was; a released one is followed by another of the same number.
    pub attempt: u32,
    /// How it ended, or that it runs.
    pub status: AttemptStatus,
    /// Who executed it.
    pub worker_id: WorkerId,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    pub error: Option<Fault>,
}

/// One transition of a job, or an operator's action on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// Its id; ids of later events are greater.
    pub id: EventId,
    /// When it happened.
    pub at: Timestamp,
    /// The status that the job had from then on.
    pub status: Status,
    /// The execution it belongs to.
    pub run: Option<u32>,
    /// Who did it: a worker, an operator, or Punctual's own upkeep.
    pub actor: Option<String>,
    /// Why, in words.
    pub detail: Option<String>,
}

/// How serious a line of a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever hunts a bug.
    Debug,
    /// What happens.
    Info,
    /// What should not happen.
    Warn,
    /// What went wrong.
    Error,
}

impl LogLevel {
    /// Its name at every surface and in every table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The level of that name; what is unknown is `info`.
    pub fn named(text: &str) -> Self {
        match text {
            "debug" => Self::Debug,
            "warn" => Self::Warn,
            "error" => Self::Error,
            _ => Self::Info,
        }
    }
}

/// One line of an attempt's log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogLine {
    /// The execution that wrote it.
    pub run: u32,
    /// When it was written.
    pub at: Timestamp,
    /// How serious it is.
    pub level: LogLevel,
    /// The text.
    pub message: String,
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
            ("name: is empty", Spec { name: String::new(), ..spec() }),
            ("metadata: holds the control character U+0000", {
                let mut spec = spec();
                spec.extras.metadata = Some(serde_json::json!({"a": ["b", "\0"]}));
                spec
            }),
            ("name: begins or ends with white space", Spec { name: " a".into(), ..spec() }),
            ("name: holds the control character U+0000", Spec { name: "a\0b".into(), ..spec() }),
            ("queue: 129 characters, at most 128 are allowed", Spec { queue: "é".repeat(129), ..spec() }),
            ("priority: 11 is not between 0 and 10", Spec { priority: 11, ..spec() }),
            ("max_attempts: 0 is not between 1 and 1000", Spec { max_attempts: 0, ..spec() }),
            ("timeout: 0 ms is not between 1 ms and 604800000 ms", Spec { timeout: Duration::ZERO, ..spec() }),
            ("unique_key: is empty", Spec { unique_key: Some(String::new()), ..spec() }),
            (
                "payload: 1048577 bytes, at most 1048576 are allowed",
                Spec { payload: Json::trusted(format!("\"{}\"", "x".repeat((1 << 20) - 1))), ..spec() },
            ),
            (
                "tags: 33 tags, at most 32 are allowed",
                Spec { extras: Extras { tags: vec!["t".into(); 33], ..Extras::default() }, ..spec() },
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

    #[test]
    fn a_cut_text_says_what_is_missing_and_stays_valid() {
        assert_eq!(cut_bytes("aéé".into(), 4), "aé… (2 more bytes)");
        assert_eq!(cut_bytes("a\0".into(), 10), "a\u{fffd}");
    }
}
