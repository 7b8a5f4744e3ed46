//! The options of a schedule, as `schedules put` and `punctual.toml` specify them.

use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use punctual::{Json, Misfire, Overlap, Recurring, Timestamp, core::time::When, input::ScheduleInput};
use serde::{Deserialize, Deserializer, de};

use crate::format::{Span, parse_instant};

/// A schedule, but for its name.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleArgs {
    /// Cron expression of five fields, or six with seconds first; or @daily and the like, or @every 90s
    pub(crate) cron: String,
    /// Job name
    pub(crate) job: String,
    /// Payload as JSON
    #[arg(value_name = "JSON")]
    payload: Option<Payload>,
    /// Time zone of the cron expression, such as Europe/Berlin [default: UTC]
    #[arg(long)]
    pub(crate) zone: Option<String>,
    /// Misfire policy: run-once, catch-up-limited:N or ignore [default: run-once]
    #[arg(long, value_name = "POLICY")]
    misfire: Option<Misfire>,
    /// Overlap policy while the previous job is unfinished: allow, skip or cancel-previous [default: allow]
    #[arg(long, value_name = "POLICY")]
    overlap: Option<Overlap>,
    /// Maximum delay of each occurrence, constant per occurrence
    #[arg(long, value_name = "DURATION")]
    jitter: Option<Span>,
    /// Start of the schedule: no occurrence before
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    #[serde(default, deserialize_with = "instant")]
    start: Option<Timestamp>,
    /// End of the schedule: no occurrence from then on
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    #[serde(default, deserialize_with = "instant")]
    end: Option<Timestamp>,
    /// Description
    #[arg(long)]
    description: Option<String>,
    /// Target queue
    #[arg(long)]
    queue: Option<String>,
    /// Priority from 0 to 10, higher first
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Maximum attempts per job
    #[arg(long, allow_negative_numbers = true)]
    max_attempts: Option<i64>,
    /// Timeout per attempt
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// Retry policy: none, fixed:10s, linear:10s, exponential:5s, list:1s,10s,1m
    #[arg(long, value_name = "POLICY")]
    retry: Option<String>,
    /// User the jobs belong to
    #[arg(long)]
    user: Option<String>,
    /// Tag for filters; may be repeated
    #[arg(long = "tag")]
    #[serde(default)]
    tags: Vec<String>,
    /// Retention after a job has finished
    #[arg(long, value_name = "DURATION")]
    keep_for: Option<Span>,
}

impl ScheduleArgs {
    /// The schedule with this name.
    pub(crate) fn recurring(self, name: &str) -> Result<Recurring> {
        Ok(self.input().recurring(name)?)
    }

    /// The schedule without a name.
    pub(crate) fn input(self) -> ScheduleInput {
        ScheduleInput {
            cron: self.cron,
            job: self.job,
            payload: self.payload.map(|payload| payload.0),
            zone: self.zone,
            misfire: self.misfire.unwrap_or_default(),
            overlap: self.overlap.unwrap_or_default(),
            jitter: self.jitter,
            start: self.start.map(When),
            end: self.end.map(When),
            description: self.description,
            queue: self.queue,
            priority: self.priority,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            retry: self.retry,
            user: self.user,
            tags: self.tags,
            keep_for: self.keep_for,
        }
    }
}

/// A payload: JSON on the command line, any value in the configuration.
#[derive(Debug, Clone)]
struct Payload(Json);

impl FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error| format!("is not JSON: {error}; text needs double quotes, as in '\"text\"'");
        text.parse().map(Self).map_err(wrong)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Json::of(&serde_json::Value::deserialize(deserializer)?).map(Self).map_err(de::Error::custom)
    }
}

/// Parses an instant of the configuration, with a time zone or in that of the machine.
fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum When {
        Text(String),
        Date(toml::value::Datetime),
    }
    let text = match When::deserialize(deserializer)? {
        When::Text(text) => text,
        When::Date(date) => date.to_string(),
    };
    parse_instant(&text).map(Some).map_err(de::Error::custom)
}
