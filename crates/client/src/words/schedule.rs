//! A schedule in the words of users.

use std::time::Duration;

use punctual_core::{
    Invalid, Json, Misfire, Overlap,
    time::{Span, When},
};
use serde::Deserialize;

use super::JobWords;
use crate::Recurring;

/// A schedule, but for its name.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(rename = "NewSchedule"))]
pub struct ScheduleWords {
    /// When: five fields of cron, six with seconds first, `@daily` and its kin, or `@every 90s`.
    pub cron: String,
    /// The name of the job that every occurrence is.
    pub job: String,
    /// The job's payload.
    pub payload: Option<Json>,
    /// The time zone of the cron expression, such as Europe/Berlin; UTC if nothing is said.
    pub zone: Option<String>,
    /// What becomes of occurrences that nobody was there for.
    #[serde(default)]
    pub misfire: Misfire,
    /// What an occurrence does while the job before is unfinished.
    #[serde(default)]
    pub overlap: Overlap,
    /// Start each occurrence up to so much later, always by the same amount.
    pub jitter: Option<Span>,
    /// No occurrence before.
    pub start: Option<When>,
    /// No occurrence from then on.
    pub end: Option<When>,
    /// A sentence for people.
    pub description: Option<String>,
    /// The queue that the jobs stand in.
    pub queue: Option<String>,
    /// 0 to 10, higher first.
    pub priority: Option<i64>,
    /// How often a job may be tried.
    pub max_attempts: Option<i64>,
    /// How long one attempt may take.
    pub timeout: Option<Span>,
    /// When to try again, as of a job.
    pub retry: Option<String>,
    /// On whose behalf the jobs run.
    pub user: Option<String>,
    /// Words to find the jobs by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// How long to keep the jobs once finished.
    pub keep_for: Option<Span>,
}

impl ScheduleWords {
    /// The schedule of that name that these words mean; an error names the word that means nothing.
    pub fn recurring(self, name: &str) -> Result<Recurring, Invalid> {
        let job = JobWords {
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
            ..JobWords::default()
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
