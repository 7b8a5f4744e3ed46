//! `punctual enqueue`.

use std::path::PathBuf;

use clap::Args;
use punctual::{
    JobId, OnParentFailure, Status, Timestamp,
    core::LogLevel,
    words::{self, DefaultWords},
};

use crate::human::{Span, parse_instant, parse_log_level};

/// What a conflict does.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum OnConflict {
    /// Return the job that is there
    Existing,
    /// Give it the new payload, if it has not started
    Replace,
    /// Push its time back, if it is still scheduled
    Debounce,
}

impl From<OnConflict> for words::OnConflict {
    fn from(conflict: OnConflict) -> Self {
        match conflict {
            OnConflict::Existing => Self::Existing,
            OnConflict::Replace => Self::Replace,
            OnConflict::Debounce => Self::Debounce,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "A line of --file is an object: {\"name\": \"resize\", \"payload\": {…}, \"queue\": \"images\", \
    \"priority\": 9, \"in\": \"5m\", \"key\": \"k\", \"user\": \"u\", \"tags\": [\"t\"], \"max_attempts\": 5, \"timeout\": \"30s\"}"
)]
pub(crate) struct Enqueue {
    /// The job's name
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) name: Option<String>,
    /// The payload, as JSON
    #[arg(value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Enqueue one job for each line of a file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The queue to stand in
    #[arg(long)]
    pub(crate) queue: Option<String>,
    #[command(flatten)]
    pub(crate) options: OptionArgs,
    /// Jobs of one queue that share this key share its limit: one at a time, unless the queue says otherwise
    #[arg(long, value_name = "KEY")]
    pub(crate) concurrency_key: Option<String>,
    /// Start no sooner than this time from now, such as 5m
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at", allow_hyphen_values = true)]
    pub(crate) delay: Option<Span>,
    /// Start no sooner than this, such as 2026-03-01T12:00:00Z
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
    /// Return the job of this name that holds the key, if there is one
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Instead of a key: `payload`, or parts of it such as /order,/user/id
    #[arg(long, value_delimiter = ',', value_name = "PARTS", conflicts_with = "key")]
    pub(crate) unique_by: Vec<String>,
    /// The key is in force for so long only
    #[arg(long, value_name = "DURATION")]
    pub(crate) unique_for: Option<Span>,
    /// Only jobs in these statuses count
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub(crate) unique_in: Vec<Status>,
    /// Only jobs of the same queue count
    #[arg(long)]
    pub(crate) unique_per_queue: bool,
    /// Jobs of any name count
    #[arg(long)]
    pub(crate) unique_any_name: bool,
    /// What to do if there is such a job: existing, replace (its payload), debounce (push it back)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT", hide_possible_values = true)]
    pub(crate) on_conflict: Vec<OnConflict>,
    /// On whose behalf it runs
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A word to find it by; may be given several times
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Ties together what belongs together
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// A sentence for people
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Anything to keep with it, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Keep lines of its log from this level on: debug, info, warn, error [default: info]
    #[arg(long, value_parser = parse_log_level, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Maximum crashes of its workers before it is dead [default: 3]
    #[arg(long, allow_negative_numbers = true, value_name = "COUNT")]
    pub(crate) max_crashes: Option<i64>,
    /// Drop it at restart
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Start once these jobs have succeeded; may be given several times
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub(crate) after: Vec<JobId>,
    /// What to do if one of those dies or is cancelled: cancel, run, wait, or only (run only then)
    #[arg(long, default_value_t, value_name = "POLICY")]
    pub(crate) on_parent_failure: OnParentFailure,
    /// Wait until it has ended, and print its result
    #[arg(long, conflicts_with = "file")]
    pub(crate) wait: bool,
}

/// What a job may be: said of one, or of all jobs of a queue that do not say otherwise.
#[derive(Debug, Clone, Default, Args, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OptionArgs {
    /// 0 to 10, higher first
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// Maximum attempts; with 1, a job runs at most once [default: 10]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) max_attempts: Option<i64>,
    /// How long one attempt may take
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// When to try again: none, or fixed:10s, linear:10s, exponential:5s, list:1s,10s,1m
    #[arg(long, value_name = "POLICY")]
    pub(crate) retry: Option<String>,
    /// How long to keep it once finished
    #[arg(long, value_name = "DURATION")]
    pub(crate) keep_for: Option<Span>,
}

impl OptionArgs {
    /// The same as words that a queue's defaults are made of.
    pub(crate) fn words(self) -> DefaultWords {
        let Self { priority, max_attempts, timeout, retry, keep_for } = self;
        DefaultWords { priority, max_attempts, timeout, retry, keep_for }
    }
}
