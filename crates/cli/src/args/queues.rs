//! `punctual queues`.

use std::{collections::BTreeMap, fmt, str::FromStr};

use clap::{Args, Subcommand};
use punctual::core::{Limits, Rate};

use super::OptionArgs;
use crate::human::Span;

#[derive(Debug, Subcommand)]
pub(crate) enum Queues {
    /// List queues with what stands in them
    List,
    /// Tell all of a queue
    Show {
        /// The queue
        name: String,
    },
    /// Start nothing of queues until they are resumed; what runs goes on
    Pause {
        /// The queues; with * and ? for all there are that fit
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Start jobs of queues again
    Resume {
        /// The queues; with * and ? for all there are that fit
        #[arg(required = true)]
        queues: Vec<String>,
    },
    /// Say what the jobs of a queue are if they do not say otherwise; what is not given has no default any more
    Defaults {
        /// The queue
        name: String,
        #[command(flatten)]
        defaults: OptionArgs,
    },
    /// Say how many jobs of a queue may run at once, and start in a time; what is not given stays, `none` takes a limit away
    #[command(
        after_help = "Limits hold for all workers together. --key-concurrency and --key-rate count for each concurrency key apart:\n\
        without a word, one job of a key runs at a time.\n\n  \
        punctual queues limit mail --rate 100/1m\n  \
        punctual queues limit tenants --concurrency 50 --key-concurrency 5 --fair --weight acme=3"
    )]
    Limit {
        /// The queue
        name: String,
        #[command(flatten)]
        changes: LimitChanges,
    },
}

/// What becomes of the limits of a queue.
#[derive(Debug, Clone, Args)]
pub(crate) struct LimitChanges {
    /// So many of the queue at once
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    concurrency: Option<Wish<u32>>,
    /// So many starts of the queue in a time, such as 100/1m
    #[arg(long)]
    rate: Option<Wish<Rate>>,
    /// So many of each concurrency key at once; 0 for any number
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    key_concurrency: Option<Wish<u32>>,
    /// So many starts of each concurrency key in a time
    #[arg(long, value_name = "RATE")]
    key_rate: Option<Wish<Rate>>,
    /// Keys take turns, however many jobs each has
    #[arg(long)]
    fair: bool,
    /// First come, first served again
    #[arg(long, conflicts_with_all = ["fair", "weights"])]
    no_fair: bool,
    /// So many turns for a key while the others have one each; may be given several times
    #[arg(long = "weight", value_name = "KEY=N", value_parser = weight)]
    weights: Vec<(String, u32)>,
}

impl LimitChanges {
    pub(crate) fn apply(&self, limits: &mut Limits) {
        fn set<T: Copy>(limit: &mut Option<T>, wish: Option<Wish<T>>) {
            *limit = wish.map_or(*limit, |wish| wish.0);
        }
        set(&mut limits.concurrency, self.concurrency);
        set(&mut limits.rate, self.rate);
        set(&mut limits.key_concurrency, self.key_concurrency);
        set(&mut limits.key_rate, self.key_rate);
        if self.no_fair {
            (limits.fair, limits.weights) = (false, BTreeMap::new());
        }
        limits.fair |= self.fair;
        limits.weights.extend(self.weights.iter().cloned());
    }
}

/// A value, or the word `none`.
#[derive(Debug, Clone, Copy)]
struct Wish<T>(Option<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for Wish<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(None));
        }
        text.parse().map(|value| Self(Some(value))).map_err(|error: T::Err| error.to_string())
    }
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("`{text}` is no weight; write a key and how many turns it has, as in acme=3");
    let (key, turns) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((key.to_owned(), turns.parse().map_err(|_| wrong())?))
}

/// What `[queues.NAME]` of the configuration says of a queue.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct QueueConfig {
    priority: Option<i64>,
    max_attempts: Option<i64>,
    timeout: Option<Span>,
    retry: Option<String>,
    keep_for: Option<Span>,
    /// If it is not there, the file says nothing of limits.
    pub(crate) limits: Option<Limits>,
}

impl QueueConfig {
    /// What its jobs are by default.
    pub(crate) fn defaults(&self) -> OptionArgs {
        let Self { priority, max_attempts, timeout, retry, keep_for, .. } = self.clone();
        OptionArgs { priority, max_attempts, timeout, retry, keep_for }
    }
}
