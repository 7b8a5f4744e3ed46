//! A job: its state, and its attempts, events and logs.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, AttemptStatus, EventId, JobId, Json, RetryPolicy, Spec, Status, Timestamp, WorkerId, WorkflowId, limits,
    redact,
};

/// A job that is to be enqueued.
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// Its id, which contains `scheduled_at`. Enqueuing the same id again returns the existing job.
    pub id: JobId,
    /// The delay after `scheduled_at`; nothing if the job may start at once.
    pub delay: Option<Duration>,
    /// The specification of the job.
    pub spec: Spec,
    /// The jobs that it waits for, without duplicates. Parents of the same batch come before it.
    pub parents: Vec<JobId>,
}

impl NewJob {
    /// A job without delay and parents.
    pub const fn new(id: JobId, spec: Spec) -> Self {
        Self { id, delay: None, spec, parents: Vec::new() }
    }

    /// The status and the start time of the job if it is stored at `now`, unless it waits for parents.
    ///
    /// A client's clock may be ahead of the store's: a job without delay must not wait for that difference.
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

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The specification of the job.
    pub spec: Spec,
    /// Its status.
    pub status: Status,
    /// The earliest time of its next start.
    pub run_at: Timestamp,
    /// Attempts spent, the current one included.
    pub attempt: u32,
    /// Executions started, released ones included.
    pub run: u32,
    /// Attempts that ended because the worker was lost.
    pub crash_count: u32,
    /// The worker that holds it.
    pub worker_id: Option<WorkerId>,
    /// The end of its lease.
    pub lease_until: Option<Timestamp>,
    /// Number of unfinished parents.
    pub waiting_on: u32,
    /// The progress that its handler reported.
    pub progress: Option<Progress>,
    /// The result of its handler.
    pub result: Option<Json>,
    /// Why its last attempt failed.
    pub error: Option<JobError>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it finished.
    pub finished_at: Option<Timestamp>,
}

/// A lease that a worker receives with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGrant {
    /// The worker.
    pub worker: WorkerId,
    /// Its start.
    pub from: Timestamp,
    /// Its duration.
    pub duration: Duration,
}

/// From this number of crashes on, a suspect runs alone.
const ALONE_FROM_CRASHES: u32 = 2;

impl Job {
    /// The time that it was scheduled for.
    pub fn scheduled_at(&self) -> Timestamp {
        self.id.timestamp()
    }

    /// The workflow that it belongs to, and its name there.
    pub fn workflow_node(&self) -> Option<(WorkflowId, &str)> {
        self.spec.workflow_node()
    }

    /// Whether it was running when a worker was lost. It may have been the cause, so its next execution is isolated
    /// from other jobs.
    pub const fn is_suspect(&self) -> bool {
        self.crash_count > 0
    }

    /// Whether it runs only after its worker has [confirmed](crate::store::ClaimStore::confirm) that its handler is
    /// about to start: if the worker is lost after that, the job is dead. So no job dies of a crash that happened
    /// before its handler started.
    pub fn needs_confirmation(&self) -> bool {
        self.spec.runs_at_most_once() || self.next_crash_is_last()
    }

    /// Whether it is dead if its worker is lost one more time.
    pub fn next_crash_is_last(&self) -> bool {
        self.crash_count.saturating_add(1) >= self.spec.max_crashes()
    }

    /// Whether nothing else runs in its process while it runs, where suspects have no process of their own. The first
    /// crash may have been caused by another job; so may the crash that would make this one dead.
    pub fn runs_alone(&self) -> bool {
        self.crash_count >= ALONE_FROM_CRASHES || self.is_suspect() && self.next_crash_is_last()
    }

    /// Starts an execution, at the time from which its worker has the lease.
    pub fn begin(&mut self, run: u32, attempt: u32, lease: LeaseGrant) {
        self.status = Status::Processing;
        (self.run, self.attempt) = (run, attempt);
        self.worker_id = Some(lease.worker);
        self.lease_until = Some(lease.from.after(lease.duration));
        self.started_at = Some(lease.from);
        self.updated_at = lease.from;
    }

    /// Its retry policy.
    pub fn retry(&self) -> RetryPolicy {
        self.spec.options.retry.clone().unwrap_or_default()
    }
}

/// Progress of a running job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Progress {
    /// Percentage, 0 to 100.
    pub percent: f32,
    /// Description of the current step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Error of a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobError {
    /// Stable code of an error that Punctual itself detected, such as `PUNCTUAL_E_TIMEOUT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Error message.
    pub message: String,
}

/// The handler ran longer than the job's timeout.
pub const E_TIMEOUT: &str = "PUNCTUAL_E_TIMEOUT";
/// The worker was lost while it ran the job.
pub const E_LOST: &str = "PUNCTUAL_E_LOST";
/// The handler panicked.
pub const E_PANIC: &str = "PUNCTUAL_E_PANIC";
/// The payload or the result does not match the handler's types.
pub const E_DATA: &str = "PUNCTUAL_E_DATA";
/// The program that ran the job exceeded a resource limit.
pub const E_LIMIT: &str = "PUNCTUAL_E_LIMIT";

impl JobError {
    /// A handler's own error. Common [secrets](redact::text) in it are redacted.
    pub fn new(message: impl Into<String>) -> Self {
        let message = redact::text(&message.into(), &[]).into_owned();
        Self { code: None, message: cut_bytes(message, limits::ERROR_MAX_BYTES) }
    }

    /// The same error, with the values of the keys redacted that the job's definition lists.
    #[must_use]
    pub fn redacted(mut self, own_keys: &[String]) -> Self {
        if !own_keys.is_empty() {
            self.message = cut_bytes(redact::text(&self.message, own_keys).into_owned(), limits::ERROR_MAX_BYTES);
        }
        self
    }

    /// An error that Punctual detected, with its code.
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

/// The text without NULs, which not every engine can store, cut to `max_bytes` with a note of what was removed.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attempt {
    /// Attempt ID: the job ID and the run number.
    pub id: AttemptId,
    /// Number of the attempt. The execution after a released or lost one has the same number.
    pub attempt: u32,
    /// Status of the execution.
    pub status: AttemptStatus,
    /// Worker that executed the job.
    pub worker_id: WorkerId,
    /// Start time.
    pub started_at: Timestamp,
    /// End time; null while the execution runs.
    pub finished_at: Option<Timestamp>,
    /// Error, if the execution failed.
    pub error: Option<JobError>,
}

/// A status change of a job, or an operator's action on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Event ID. Later events have greater ids.
    pub id: EventId,
    /// Time of the event.
    pub at: Timestamp,
    /// Status of the job after the event.
    pub status: Status,
    /// Run number of the execution that the event belongs to.
    pub run: Option<u32>,
    /// Originator of the event: a worker, an operator, or Punctual's own maintenance.
    pub actor: Option<String>,
    /// Reason, in words.
    pub detail: Option<String>,
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal operation.
    #[default]
    Info,
    /// Unexpected, but not an error.
    Warn,
    /// An error.
    Error,
}

impl LogLevel {
    /// The name in all interfaces and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// The level with this name; unknown names are `info`.
    pub fn named(text: &str) -> Self {
        match text {
            "debug" => Self::Debug,
            "warn" => Self::Warn,
            "error" => Self::Error,
            _ => Self::Info,
        }
    }
}

/// A line of the log of an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogLine {
    /// Run number of the execution that wrote the line.
    pub run: u32,
    /// Time of the line.
    pub at: Timestamp,
    /// Severity.
    pub level: LogLevel,
    /// Text of the line.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_has_a_note_and_stays_valid() {
        assert_eq!(cut_bytes("aéé".into(), 4), "aé… (2 more bytes)");
        assert_eq!(cut_bytes("a\0".into(), 10), "a\u{fffd}");
    }
}
