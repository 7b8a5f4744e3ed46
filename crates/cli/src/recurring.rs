//! A schedule in the words of users: those of `schedules put`, and those of `punctual.toml`.

use std::str::FromStr;

use anyhow::Result;
use clap::Args;
use punctual::{Json, Misfire, Overlap, Recurring, Timestamp, core::time::When, words::ScheduleWords};
use serde::{Deserialize, Deserializer, de};

use crate::human::{Span, parse_instant};

/// A schedule, but for its name.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleArgs {
    /// When: five fields of cron, six with seconds first, @daily and its kin, or @every 90s
    pub(crate) cron: String,
    /// The name of the job that every occurrence is
    pub(crate) job: String,
    /// The job's payload, as JSON
    #[arg(value_name = "JSON")]
    payload: Option<Payload>,
    /// The time zone of the cron expression, such as Europe/Berlin [default: UTC]
    #[arg(long)]
    pub(crate) zone: Option<String>,
    /// What becomes of occurrences that nobody was there for: run-once, catch-up-limited:N or ignore [default:
    /// run-once]
    #[arg(long, value_name = "POLICY")]
    misfire: Option<Misfire>,
    /// What an occurrence does while the job before is unfinished: allow, skip or cancel-previous [default: allow]
    #[arg(long, value_name = "POLICY")]
    overlap: Option<Overlap>,
    /// Start each occurrence up to so much later, always by the same amount
    #[arg(long, value_name = "DURATION")]
    jitter: Option<Span>,
    /// No occurrence before
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    #[serde(default, deserialize_with = "instant")]
    start: Option<Timestamp>,
    /// No occurrence from then on
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    #[serde(default, deserialize_with = "instant")]
    end: Option<Timestamp>,
    /// A sentence for people
    #[arg(long)]
    description: Option<String>,
    /// The queue that the jobs stand in
    #[arg(long)]
    queue: Option<String>,
    /// 0 to 10, higher first
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i64>,
    /// How often a job may be tried
    #[arg(long, allow_negative_numbers = true)]
    max_attempts: Option<i64>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// When to try again: none, or fixed:10s, linear:10s, exponential:5s, list:1s,10s,1m
    #[arg(long, value_name = "POLICY")]
    retry: Option<String>,
    /// On whose behalf the jobs run
    #[arg(long)]
    user: Option<String>,
    /// A word to find the jobs by; may be given several times
    #[arg(long = "tag")]
    #[serde(default)]
    tags: Vec<String>,
    /// How long to keep the jobs once finished
    #[arg(long, value_name = "DURATION")]
    keep_for: Option<Span>,
}

impl ScheduleArgs {
    /// The schedule of that name.
    pub(crate) fn recurring(self, name: &str) -> Result<Recurring> {
        let words = ScheduleWords {
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
        };
        Ok(words.recurring(name)?)
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

/// An instant of the configuration, with a zone or in the machine's own.
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
