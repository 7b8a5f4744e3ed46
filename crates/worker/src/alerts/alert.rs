//! The content of an alert.

use std::{fmt, time::Duration};

use punctual_core::{JobId, Timestamp, time::in_words};
use serde::{Deserialize, Serialize};

/// The kinds of alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Jobs died: their last attempt failed.
    DeadJobs,
    /// No worker was running when a schedule was due.
    MissedSchedule,
    /// Jobs of a queue are due, and no live worker serves them.
    NoWorkers,
    /// The oldest job of a queue has been due for longer than its limit.
    Late,
}

impl AlertKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::DeadJobs, Self::MissedSchedule, Self::NoWorkers, Self::Late];

    /// Its name in all user interfaces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadJobs => "dead_jobs",
            Self::MissedSchedule => "missed_schedule",
            Self::NoWorkers => "no_workers",
            Self::Late => "late",
        }
    }
}

impl fmt::Display for AlertKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The state of the condition that an alert reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It has begun, or has happened.
    Raised,
    /// It was reported before and continues.
    Reminder,
    /// It is over.
    Resolved,
}

impl AlertState {
    /// Its name in all user interfaces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Reminder => "reminder",
            Self::Resolved => "resolved",
        }
    }
}

/// An alert: the document that is sent to webhooks. New versions may add fields, but never change the meaning of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Unique id, to detect duplicate deliveries.
    pub id: String,
    /// Its kind.
    pub kind: AlertKind,
    /// The state of the condition.
    pub state: AlertState,
    /// When the alert was raised.
    pub at: Timestamp,
    /// When the condition began.
    pub since: Timestamp,
    /// A description of the alert in one sentence.
    pub text: String,
    /// Number of jobs, or occurrences of a schedule, that it is about.
    pub count: u64,
    /// The job name, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The queue, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The schedule, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Ids of some of the jobs, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// The error of the last of them, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Delay of the oldest job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_ms: Option<u64>,
    /// Maximum delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// The location of the store, without secrets.
    pub store: String,
    /// Link to the dashboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Alert {
    /// An alert with empty details.
    pub(crate) const fn new(kind: AlertKind, state: AlertState, since: Timestamp, at: Timestamp) -> Self {
        Self {
            id: String::new(),
            kind,
            state,
            at,
            since,
            text: String::new(),
            count: 0,
            name: None,
            queue: None,
            schedule: None,
            jobs: Vec::new(),
            error: None,
            lateness_ms: None,
            limit_ms: None,
            store: String::new(),
            link: None,
        }
    }

    /// Writes the alert to the log.
    pub(crate) fn log(&self) {
        let Self { id, kind, state, count, name, queue, schedule, .. } = self;
        let (kind, state, text) = (kind.as_str(), state.as_str(), &self.text);
        match self.state {
            AlertState::Resolved => tracing::info!(id, kind, state, count, name, queue, schedule, "alert: {text}"),
            _ => tracing::warn!(id, kind, state, count, name, queue, schedule, "alert: {text}"),
        }
    }
}

/// `1 job`, `12 jobs`.
pub(crate) fn jobs(count: u64) -> String {
    if count == 1 { "1 job".to_owned() } else { format!("{count} jobs") }
}

/// The time since `since` in words.
pub(crate) fn lasted(since: Timestamp, now: Timestamp) -> String {
    in_words(Duration::from_secs(now.since(since).as_secs().max(1)))
}
