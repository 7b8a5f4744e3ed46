//! A job in the words of users.

use std::time::Duration;

use anyhow::Result;
use punctual::{
    Draft, JobId, Json, OnParentFailure, ParentResults, RetryPolicy, Status, Unique,
    core::{Invalid, JobDefaults, LogLevel, limits},
};
use serde::{Deserialize, Serialize};

use crate::{
    args::OptionArgs,
    human::{Span, parse_instant},
};

/// A job in the words of the command line, of a line of `--file`, and of a workflow's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "P: Deserialize<'de>"))]
pub(crate) struct Line<P = Json> {
    #[serde(alias = "job")]
    pub(crate) name: String,
    pub(crate) payload: Option<P>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i64>,
    #[serde(rename = "in")]
    pub(crate) delay: Option<Span>,
    pub(crate) at: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) unique: Option<UniqueLine>,
    pub(crate) concurrency_key: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) correlation: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) metadata: Option<serde_json::Value>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) max_attempts: Option<i64>,
    pub(crate) timeout: Option<Span>,
    pub(crate) retry: Option<String>,
    pub(crate) keep_for: Option<Span>,
    pub(crate) ephemeral: bool,
    /// Jobs by their ids; in a workflow, by their names there.
    pub(crate) after: Vec<String>,
    pub(crate) on_parent_failure: OnParentFailure,
    pub(crate) parent_results: ParentResults,
}

// Not derived, since a payload need not have a default.
impl<P> Default for Line<P> {
    fn default() -> Self {
        Self {
            name: String::new(),
            payload: None,
            queue: None,
            priority: None,
            delay: None,
            at: None,
            key: None,
            unique: None,
            concurrency_key: None,
            user: None,
            tags: Vec::new(),
            correlation: None,
            description: None,
            metadata: None,
            log_level: None,
            max_attempts: None,
            timeout: None,
            retry: None,
            keep_for: None,
            ephemeral: false,
            after: Vec::new(),
            on_parent_failure: OnParentFailure::default(),
            parent_results: ParentResults::default(),
        }
    }
}

impl<P: Serialize> Line<P> {
    pub(crate) fn draft(self) -> Result<Draft> {
        let parents = self.after.iter().map(|id| id.parse::<JobId>());
        let parents =
            parents.collect::<Result<Vec<_>, _>>().map_err(|error| Invalid::new("after", error.to_string()))?;
        let payload = self.payload.as_ref().map_or_else(|| Ok(Json::null()), Json::of);
        let payload = payload.map_err(|error| Invalid::new("payload", error.to_string()))?;
        let mut draft = Draft::raw(self.name, payload)
            .after(parents)
            .on_parent_failure(self.on_parent_failure)
            .parent_results(self.parent_results);
        macro_rules! set {
            ($($option:ident: $value:expr),*) => {
                $(if let Some(value) = $value { draft = draft.$option(value); })*
            };
        }
        let priority = within("priority", self.priority, i64::from(limits::PRIORITY_MAX))?;
        let attempts = within("max_attempts", self.max_attempts, i64::from(limits::ATTEMPTS_MAX_COUNT))?;
        let at = self.at.as_deref().map(parse_instant).transpose().map_err(|problem| Invalid::new("at", problem))?;
        set!(
            queue: self.queue,
            priority: priority.map(|priority| priority as u8),
            max_attempts: attempts.map(|attempts| attempts as u32),
            delay: self.delay.map(|span| span.0),
            run_at: at,
            unique: unique(self.key, self.unique)?,
            concurrency_key: self.concurrency_key,
            user: self.user,
            correlation_id: self.correlation,
            description: self.description,
            metadata: self.metadata,
            log_level: self.log_level,
            timeout: self.timeout.map(|span| span.0),
            retry: self.retry.as_deref().map(parse_policy).transpose()?,
            keep_for: self.keep_for.map(|span| span.0)
        );
        draft = self.tags.into_iter().fold(draft, Draft::tag);
        Ok(draft.ephemeral(self.ephemeral))
    }
}

fn within(field: &'static str, value: Option<i64>, max: i64) -> Result<Option<i64>, Invalid> {
    match value {
        Some(value) if !(0..=max).contains(&value) => {
            Err(Invalid::new(field, format!("{value} is not between 0 and {max}")))
        }
        value => Ok(value),
    }
}

/// What the jobs of a queue are by default, in the words of users.
pub(crate) fn defaults(args: OptionArgs) -> Result<JobDefaults, Invalid> {
    let priority = within("priority", args.priority, i64::from(limits::PRIORITY_MAX))?;
    let attempts = within("max_attempts", args.max_attempts, i64::from(limits::ATTEMPTS_MAX_COUNT))?;
    let defaults = JobDefaults {
        priority: priority.map(|priority| priority as u8),
        max_attempts: attempts.map(|attempts| attempts as u32),
        timeout: args.timeout.map(|span| span.0),
        retry: args.retry.as_deref().map(parse_policy).transpose()?,
        keep_for: args.keep_for.map(|span| span.0),
    };
    defaults.check()?;
    Ok(defaults)
}

/// How far a unique key reaches, in the words of users.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UniqueLine {
    /// `payload`, or JSON pointers to its parts; instead of a key.
    pub(crate) by: Vec<String>,
    pub(crate) any_name: bool,
    pub(crate) per_queue: bool,
    pub(crate) period: Option<Span>,
    pub(crate) states: Vec<Status>,
    pub(crate) on_conflict: Vec<OnConflict>,
}

/// What a conflict does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnConflict {
    /// Return the job that is there
    Existing,
    /// Give it the new payload, if it has not started
    Replace,
    /// Push its time back, if it is still scheduled
    Debounce,
}

fn unique(key: Option<String>, line: Option<UniqueLine>) -> Result<Option<Unique>, Invalid> {
    let UniqueLine { by, any_name, per_queue, period, states, on_conflict } = match (&key, line) {
        (None, None) => return Ok(None),
        (_, line) => line.unwrap_or_default(),
    };
    let mut unique = match (key, by.as_slice()) {
        (Some(key), []) => Unique::key(key),
        (Some(_), _) => return Err(Invalid::new("unique.by", "there is a key already; give one of both")),
        (None, []) => return Err(Invalid::new("unique.by", "is empty; write payload, or parts of it such as /order")),
        (None, [all]) if all == "payload" => Unique::payload(),
        (None, parts) => Unique::parts(parts),
    };
    if any_name {
        unique = unique.any_name();
    }
    if per_queue {
        unique = unique.per_queue();
    }
    if let Some(Span(period)) = period {
        unique = unique.period(period);
    }
    unique = unique.states(states);
    for conflict in on_conflict {
        unique = match conflict {
            OnConflict::Existing => unique,
            OnConflict::Replace => unique.replace_payload(),
            OnConflict::Debounce => unique.debounce(),
        };
    }
    Ok(Some(unique))
}

/// Reads `none`, `fixed:10s`, `linear:10s`, `exponential:5s`, `list:1s,10s,1m`.
fn parse_policy(text: &str) -> Result<RetryPolicy, Invalid> {
    let wrong = || {
        let problem =
            format!("`{text}` is no policy; write none, fixed:10s, linear:10s, exponential:5s or list:1s,10s,1m");
        Invalid::new("retry", problem)
    };
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let delays: Vec<Duration> = rest
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| part.parse::<Span>().map(|span| span.0))
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())?;
    match (kind, delays.as_slice()) {
        ("none", []) => Ok(RetryPolicy::none()),
        ("fixed", [base]) => Ok(RetryPolicy::fixed(*base)),
        ("linear", [base]) => Ok(RetryPolicy::linear(*base)),
        ("exponential", [base]) => Ok(RetryPolicy::exponential(*base)),
        ("list", [_, ..]) => Ok(RetryPolicy::list(delays)),
        _ => Err(wrong()),
    }
}
