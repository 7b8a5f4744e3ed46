//! `punctual enqueue`.

use std::path::PathBuf;

use clap::Args;
use punctual::{
    JobId, OnParentFailure, Status, Timestamp,
    core::LogLevel,
    input::{self, DefaultsInput},
};

use crate::format::{Span, parse_instant, parse_log_level};

/// What a conflict does.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum OnConflict {
    /// Return the existing job
    Existing,
    /// Replace the existing job's payload if it has not started
    Replace,
    /// Postpone the existing job if it is still scheduled
    Debounce,
}

impl From<OnConflict> for input::OnConflict {
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
    \"priority\": 9, \"in\": \"5m\", \"key\": \"k\", \"user\": \"u\", \"tags\": [\"t\"], \"max_attempts\": 5, \"timeout\": \"30s\"}\n\
    Options such as --queue and --in are defaults: they apply to the lines without a value of their own."
)]
pub(crate) struct Enqueue {
    /// Job name
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    pub(crate) name: Option<String>,
    /// Payload as JSON
    #[arg(value_name = "JSON")]
    pub(crate) payload: Option<String>,
    /// Enqueue one job per line of a file; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Target queue
    #[arg(long)]
    pub(crate) queue: Option<String>,
    #[command(flatten)]
    pub(crate) options: OptionArgs,
    /// Concurrency key: jobs of a queue with the same key share a limit, one at a time by default
    #[arg(long, value_name = "KEY")]
    pub(crate) concurrency_key: Option<String>,
    /// Delay before the job may start, such as 5m
    #[arg(long = "in", value_name = "DURATION", conflicts_with = "at", allow_hyphen_values = true)]
    pub(crate) delay: Option<Span>,
    /// Earliest start time, such as 2026-03-01T12:00:00Z
    #[arg(long, value_parser = parse_instant, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
    /// Unique key: return the existing job of this name with the same key
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Derive the unique key from the `payload`, or from parts of it such as /order,/user/id
    #[arg(long, value_delimiter = ',', value_name = "PARTS", conflicts_with = "key")]
    pub(crate) unique_by: Vec<String>,
    /// Lifetime of the unique key
    #[arg(long, value_name = "DURATION")]
    pub(crate) unique_for: Option<Span>,
    /// Statuses in which a job holds its unique key
    #[arg(long, value_delimiter = ',', value_name = "STATUS")]
    pub(crate) unique_in: Vec<Status>,
    /// Unique per queue
    #[arg(long)]
    pub(crate) unique_per_queue: bool,
    /// Unique across all job names
    #[arg(long)]
    pub(crate) unique_any_name: bool,
    /// Action on a conflict: existing, replace (the payload), debounce (postpone)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT", hide_possible_values = true)]
    pub(crate) on_conflict: Vec<OnConflict>,
    /// User the job belongs to
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Tag for filters; may be repeated
    #[arg(long)]
    pub(crate) tag: Vec<String>,
    /// Correlation id that related jobs share
    #[arg(long, value_name = "ID")]
    pub(crate) correlation: Option<String>,
    /// Description
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Metadata as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Minimum level of log lines that are kept: debug, info, warn, error [default: info]
    #[arg(long, value_parser = parse_log_level, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Maximum worker crashes before the job is dead [default: 3]
    #[arg(long, allow_negative_numbers = true, value_name = "COUNT")]
    pub(crate) max_crashes: Option<i64>,
    /// Drop the job at restart
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// Parent jobs that must succeed first; may be repeated
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub(crate) after: Vec<JobId>,
    /// Action if a parent dies or is cancelled: cancel, run, wait, or only (run only then)
    #[arg(long, default_value_t, value_name = "POLICY")]
    pub(crate) on_parent_failure: OnParentFailure,
    /// Wait for the job to finish and print its result
    #[arg(long, conflicts_with = "file")]
    pub(crate) wait: bool,
}

/// Options of a job, or defaults of all jobs of a queue.
#[derive(Debug, Clone, Default, Args, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OptionArgs {
    /// Priority from 0 to 10, higher first
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// Maximum attempts; with 1, a job runs at most once [default: 10]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) max_attempts: Option<i64>,
    /// Timeout per attempt
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// Retry policy: none, fixed:10s, linear:10s, exponential:5s, list:1s,10s,1m
    #[arg(long, value_name = "POLICY")]
    pub(crate) retry: Option<String>,
    /// Retention after the job has finished
    #[arg(long, value_name = "DURATION")]
    pub(crate) keep_for: Option<Span>,
}

impl OptionArgs {
    /// The same as input for a queue's defaults.
    pub(crate) fn input(self) -> DefaultsInput {
        let Self { priority, max_attempts, timeout, retry, keep_for } = self;
        DefaultsInput { priority, max_attempts, timeout, retry, keep_for }
    }
}
