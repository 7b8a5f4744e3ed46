//! A schedule as users write it.

use std::time::Duration;

use punctual_core::{
    Invalid, Json, Misfire, Overlap,
    time::{Span, When},
};
use serde::{Deserialize, Serialize};

use super::JobInput;
use crate::Recurring;

/// A schedule without its name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(rename = "NewSchedule"))]
pub struct ScheduleInput {
    /// Cron expression of five fields, or six with seconds first; or `@daily` and the like, or `@every 90s`.
    pub cron: String,
    /// Job name.
    pub job: String,
    /// Payload.
    pub payload: Option<Json>,
    /// Time zone of the cron expression, such as Europe/Berlin; default: UTC.
    pub zone: Option<String>,
    /// Misfire policy.
    #[serde(default)]
    pub misfire: Misfire,
    /// Overlap policy while the previous job is unfinished.
    #[serde(default)]
    pub overlap: Overlap,
    /// Maximum delay of each occurrence, constant per occurrence.
    pub jitter: Option<Span>,
    /// Start of the schedule: no occurrence before.
    pub start: Option<When>,
    /// End of the schedule: no occurrence from then on.
    pub end: Option<When>,
    /// Description.
    pub description: Option<String>,
    /// Target queue.
    pub queue: Option<String>,
    /// Priority from 0 to 10, higher first.
    pub priority: Option<i64>,
    /// Maximum attempts per job.
    pub max_attempts: Option<i64>,
    /// Timeout per attempt.
    pub timeout: Option<Span>,
    /// Retry policy, as for a job.
    pub retry: Option<String>,
    /// User the jobs belong to.
    pub user: Option<String>,
    /// Tags for filters.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Retention after a job has finished.
    pub keep_for: Option<Span>,
}

impl ScheduleInput {
    /// The schedule of that name; an error names the invalid field.
    pub fn recurring(self, name: &str) -> Result<Recurring, Invalid> {
        let job = JobInput {
            name: self.job,
            payload: self.payload,
            queue: self.queue,
            priority: self.priority,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            retry: self.retry,
            user: self.user,
            tags: self.tags,
            keep_for: self.keep_for,
            ..JobInput::default()
        };
        let mut recurring = Recurring::new(name, self.cron, job.draft()?)
            .misfire(self.misfire)
            .overlap(self.overlap)
            .jitter(self.jitter.map_or(Duration::ZERO, |span| span.0));
        macro_rules! set {
            ($($option:ident: $value:expr),*) => {
                $(if let Some(value) = $value { recurring = recurring.$option(value); })*
            };
        }
        let (start, end) = (self.start.map(|when| when.0), self.end.map(|when| when.0));
        set!(zone: self.zone, starts_at: start, ends_at: end, description: self.description);
        Ok(recurring)
    }
}
