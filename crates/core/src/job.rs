//! A job: how it stands, and what has happened to it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, AttemptStatus, EventId, JobId, Json, RetryPolicy, Spec, Status, Timestamp, WorkerId, WorkflowId, limits,
    redact,
};

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
    pub error: Option<JobError>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it came to an end.
    pub finished_at: Option<Timestamp>,
}

/// From so many crashes on, a suspect runs alone.
const ALONE_FROM_CRASHES: u32 = 2;

impl Job {
    /// The time it was asked for.
    pub fn scheduled_at(&self) -> Timestamp {
        self.id.timestamp()
    }

    /// The workflow that it belongs to and the name it has there.
    pub fn place(&self) -> Option<(WorkflowId, &str)> {
        self.spec.place()
    }

    /// Whether it was running when its worker was lost. The next time it runs apart from others, as it may have been
    /// the cause.
    pub const fn is_suspect(&self) -> bool {
        self.crash_count > 0
    }

    /// Whether it runs only after its worker has [confirmed](crate::store::ClaimStore::confirm) that its handler is
    /// about to start: if the worker is lost then, the job is dead. So no job dies of a crash that it was not there at.
    pub fn needs_confirmation(&self) -> bool {
        self.spec.runs_at_most_once() || self.next_crash_is_last()
    }

    /// Whether it is dead if its worker is lost once more.
    pub fn next_crash_is_last(&self) -> bool {
        self.crash_count.saturating_add(1) >= self.spec.max_crashes()
    }

    /// Whether nothing else runs in its process while it runs, where suspects have no process of their own. The first
    /// crash may have been another's; so may one that it would die of.
    pub fn runs_alone(&self) -> bool {
        self.crash_count >= ALONE_FROM_CRASHES || self.is_suspect() && self.next_crash_is_last()
    }

    /// An execution begins.
    pub fn begin(&mut self, run: u32, attempt: u32, worker: WorkerId, at: Timestamp, lease: Duration) {
        self.status = Status::Processing;
        (self.run, self.attempt) = (run, attempt);
        self.worker_id = Some(worker);
        self.lease_until = Some(at.after(lease));
        self.started_at = Some(at);
        self.updated_at = at;
    }

    /// Its retry policy.
    pub fn retry(&self) -> RetryPolicy {
        self.spec.options.retry.clone().unwrap_or_default()
    }
}

/// How far a job has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// 0 to 100.
    pub percent: f32,
    /// What it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobError {
    /// A stable code for what Punctual itself found, such as `PUNCTUAL_E_TIMEOUT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened.
    pub message: String,
}

/// The handler ran longer than the job's timeout.
pub const E_TIMEOUT: &str = "PUNCTUAL_E_TIMEOUT";
/// The worker was lost while it held the job.
pub const E_LOST: &str = "PUNCTUAL_E_LOST";
/// The handler panicked.
pub const E_PANIC: &str = "PUNCTUAL_E_PANIC";
/// The payload or the result is not what the handler's types say.
pub const E_DATA: &str = "PUNCTUAL_E_DATA";
/// The program that ran the job used more than it may.
pub const E_LIMIT: &str = "PUNCTUAL_E_LIMIT";

impl JobError {
    /// A handler's own error. Common [secrets](redact::text) in it are hidden.
    pub fn new(message: impl Into<String>) -> Self {
        let message = redact::text(&message.into(), &[]).into_owned();
        Self { code: None, message: cut_bytes(message, limits::ERROR_MAX_BYTES) }
    }

    /// The same without the values of the keys that a job's definition wants hidden.
    #[must_use]
    pub fn redacted(mut self, own_keys: &[String]) -> Self {
        if !own_keys.is_empty() {
            self.message = cut_bytes(redact::text(&self.message, own_keys).into_owned(), limits::ERROR_MAX_BYTES);
        }
        self
    }

    /// An error that Punctual found, with its code.
    pub fn coded(code: &str, message: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..Self::new(message) }
    }
}

impl std::fmt::Display for JobError {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    pub error: Option<JobError>,
}

/// One transition of a job, or an operator's action on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever hunts a bug.
    Debug,
    /// What happens.
    #[default]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    #[test]
    fn a_cut_text_says_what_is_missing_and_stays_valid() {
        assert_eq!(cut_bytes("aéé".into(), 4), "aé… (2 more bytes)");
        assert_eq!(cut_bytes("a\0".into(), 10), "a\u{fffd}");
    }
}
