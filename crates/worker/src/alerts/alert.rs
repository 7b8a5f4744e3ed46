//! What an alert says.

use std::{fmt, time::Duration};

use punctual_core::{JobId, Timestamp, time::in_words};
use serde::{Deserialize, Serialize};

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Jobs failed for the last time.
    DeadJobs,
    /// Nobody was there when a schedule was due.
    MissedSchedule,
    /// Jobs of a queue are due, and no live worker serves them.
    NoWorkers,
    /// The oldest job of a queue has been due for longer than its limit.
    Late,
}

impl AlertKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::DeadJobs, Self::MissedSchedule, Self::NoWorkers, Self::Late];

    /// Its name at every surface.
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

/// Where a matter stands of which an alert tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It has begun, or has happened.
    Raised,
    /// It was told before and lasts.
    Reminder,
    /// It is over.
    Resolved,
}

impl AlertState {
    /// Its name at every surface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Reminder => "reminder",
            Self::Resolved => "resolved",
        }
    }
}

/// An alert: the document that a webhook is sent. Fields may be added; none changes its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Whoever gets one id twice has got one alert twice.
    pub id: String,
    /// What it is about.
    pub kind: AlertKind,
    /// Where that stands.
    pub state: AlertState,
    /// When it was raised.
    pub at: Timestamp,
    /// Since when it has been so.
    pub since: Timestamp,
    /// All of it in a sentence for people.
    pub text: String,
    /// How many jobs, or occurrences of a schedule, it is about.
    pub count: u64,
    /// The name of the jobs, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The queue, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The schedule, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Some of the jobs, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobId>,
    /// What the last of them failed with, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How late the oldest job is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_ms: Option<u64>,
    /// How late it may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// Which store it is about, without secrets.
    pub store: String,
    /// Where to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Alert {
    /// An alert of which the rest is still to be said.
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

    /// Writes it to the log.
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

/// How long something has lasted, in words.
pub(crate) fn lasted(since: Timestamp, now: Timestamp) -> String {
    in_words(Duration::from_secs(now.since(since).as_secs().max(1)))
}
