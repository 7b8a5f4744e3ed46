//! What happens to jobs, for whoever follows it: what came since a former look, and where to go on from.

use serde::Serialize;

use crate::{Event, Extras, JobId, Spec, StoreError, Timestamp, WorkflowId, limits};

/// What happened since a former look.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// In the order of time.
    pub events: Vec<JobEvent>,
    /// Where the next look goes on. Only the store knows what it says.
    pub cursor: String,
    /// More happened than is told here.
    pub missed: bool,
}

impl Changes {
    /// Nothing, or nothing that is known.
    pub const fn none(cursor: String, missed: bool) -> Self {
        Self { events: Vec::new(), cursor, missed }
    }
}

/// What happened to a job, with what the job is selected by.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobEvent {
    /// The job.
    pub job: JobId,
    /// Its queue.
    pub queue: String,
    /// Its name.
    pub name: String,
    /// On whose behalf it runs.
    pub user_id: Option<String>,
    /// What it belongs to.
    pub correlation_id: Option<String>,
    /// The workflow it is part of.
    pub workflow_id: Option<WorkflowId>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The schedule of which it is an occurrence.
    pub schedule: Option<String>,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl JobEvent {
    /// What happened to a job with those extras; all else is for the caller to say.
    pub fn new(job: JobId, queue: String, name: String, extras: Extras, event: Event) -> Self {
        let schedule = extras.occurrence.map(|occurrence| occurrence.schedule);
        Self {
            job,
            queue,
            name,
            user_id: None,
            correlation_id: None,
            workflow_id: None,
            tags: extras.tags,
            schedule,
            event,
        }
    }

    /// What happened to a job that is known.
    pub fn of(job: JobId, spec: &Spec, event: Event) -> Self {
        Self {
            user_id: spec.user_id.clone(),
            correlation_id: spec.correlation_id.clone(),
            workflow_id: spec.workflow_id,
            ..Self::new(job, spec.queue.clone(), spec.name.clone(), spec.extras.clone(), event)
        }
    }
}

/// The cursor of a store that counts its events in the order in which they can be seen: the number of the last one, and when that was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountCursor {
    /// The number of the last event.
    pub last: u64,
    /// When somebody looked.
    pub at: Timestamp,
}

impl CountCursor {
    /// From its text.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let parts = text.split_once('.');
        let parsed = parts.and_then(|(last, at)| {
            Some(Self { last: last.parse().ok()?, at: Timestamp::from_micros(at.parse().ok()?) })
        });
        parsed.ok_or_else(|| bad_cursor(text))
    }

    /// Whether it is too long ago to be gone on from.
    pub fn is_too_old(self, now: Timestamp) -> bool {
        self.at < now.before(limits::CHANGES_MAX_AGE)
    }
}

impl std::fmt::Display for CountCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.last, self.at.as_micros())
    }
}

/// What is no cursor.
pub fn bad_cursor(text: &str) -> StoreError {
    StoreError::BadCursor(text.chars().take(64).collect())
}
