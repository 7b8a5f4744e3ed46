//! `punctual queues`.

use std::{fmt, str::FromStr};

use clap::{Args, Subcommand};
use punctual::{
    core::{Limits, Rate},
    input::LimitChanges,
};

use super::OptionArgs;
use crate::format::Span;

#[derive(Debug, Subcommand)]
pub(crate) enum Queues {
    /// List queues with their job counts
    List,
    /// Show a queue
    Show {
        /// Queue name
        name: String,
    },
    /// Pause queues: running jobs finish, no others start
    Pause {
        /// Queue names; * and ? are wildcards
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Resume queues
    Resume {
        /// Queue names; * and ? are wildcards
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Set the job defaults of a queue; a default that is not given is removed
    Defaults {
        /// Queue name
        name: String,
        #[command(flatten)]
        defaults: OptionArgs,
    },
    /// Set concurrency and rate limits of a queue; a limit that is not given stays, `none` removes one
    #[command(
        after_help = "Limits hold for all workers together. --key-concurrency and --key-rate apply per concurrency key:\n\
        by default, one job per key runs at a time.\n\n  \
        punctual queues limit mail --rate 100/1m\n  \
        punctual queues limit tenants --concurrency 50 --key-concurrency 5 --fair --weight acme=3"
    )]
    Limit {
        /// Queue name
        name: String,
        #[command(flatten)]
        changes: LimitArgs,
    },
}

/// What becomes of the limits of a queue.
#[derive(Debug, Clone, Args)]
pub(crate) struct LimitArgs {
    /// Maximum concurrent jobs of the queue
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    concurrency: Option<OrNone<u32>>,
    /// Maximum starts of the queue per period, such as 100/1m
    #[arg(long)]
    rate: Option<OrNone<Rate>>,
    /// Maximum concurrent jobs per concurrency key; 0 for no limit
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    key_concurrency: Option<OrNone<u32>>,
    /// Maximum starts per concurrency key and period
    #[arg(long, value_name = "RATE")]
    key_rate: Option<OrNone<Rate>>,
    /// Fair: keys take turns, however many jobs each has
    #[arg(long)]
    fair: bool,
    /// First come, first served
    #[arg(long, conflicts_with_all = ["fair", "weights"])]
    no_fair: bool,
    /// Weight of a key among fair turns (others have 1); may be repeated
    #[arg(long = "weight", value_name = "KEY=N", value_parser = weight)]
    weights: Vec<(String, u32)>,
}

impl LimitArgs {
    /// The changes: what is not given stays.
    pub(crate) fn changes(&self) -> LimitChanges {
        LimitChanges {
            concurrency: self.concurrency.map(|limit| limit.0),
            rate: self.rate.map(|limit| limit.0),
            key_concurrency: self.key_concurrency.map(|limit| limit.0),
            key_rate: self.key_rate.map(|limit| limit.0),
            fair: (self.fair || self.no_fair).then_some(self.fair),
            weights: self.weights.iter().cloned().collect(),
        }
    }
}

/// A value, or the word `none`.
#[derive(Debug, Clone, Copy)]
struct OrNone<T>(Option<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for OrNone<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|value| Self(Some(value))).map_err(|error: T::Err| error.to_string())
    }
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("invalid weight `{text}`: expected KEY=N, such as acme=3");
    let (key, turns) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((key.to_owned(), turns.parse().map_err(|_| wrong())?))
}

/// The section `[queues.NAME]` of the configuration.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct QueueConfig {
    priority: Option<i64>,
    max_attempts: Option<i64>,
    timeout: Option<Span>,
    retry: Option<String>,
    keep_for: Option<Span>,
    /// If it is missing, the file does not set limits.
    pub(crate) limits: Option<Limits>,
}

impl QueueConfig {
    /// What its jobs are by default.
    pub(crate) fn defaults(&self) -> OptionArgs {
        let Self { priority, max_attempts, timeout, retry, keep_for, .. } = self.clone();
        OptionArgs { priority, max_attempts, timeout, retry, keep_for }
    }
}
