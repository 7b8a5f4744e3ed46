//! A job in the words of users.

use std::time::Duration;

use anyhow::Result;
use punctual::{
    Draft, JobId, Json, OnParentFailure, ParentResults, RetryPolicy,
    core::{Invalid, limits},
};
use serde::{Deserialize, Serialize};

use crate::human::{Span, parse_instant};

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
    pub(crate) user: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) correlation: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) metadata: Option<serde_json::Value>,
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
            user: None,
            tags: Vec::new(),
            correlation: None,
            description: None,
            metadata: None,
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
        let within = |field, value: Option<i64>, max: i64| match value {
            Some(value) if !(0..=max).contains(&value) => {
                Err(Invalid::new(field, format!("{value} is not between 0 and {max}")))
            }
            value => Ok(value),
        };
        let priority = within("priority", self.priority, i64::from(limits::PRIORITY_MAX))?;
        let attempts = within("max_attempts", self.max_attempts, i64::from(limits::ATTEMPTS_MAX_COUNT))?;
        let at = self.at.as_deref().map(parse_instant).transpose().map_err(|problem| Invalid::new("at", problem))?;
        set!(
            queue: self.queue,
            priority: priority.map(|priority| priority as u8),
            max_attempts: attempts.map(|attempts| attempts as u32),
            delay: self.delay.map(|span| span.0),
            run_at: at,
            unique_key: self.key,
            user: self.user,
            correlation_id: self.correlation,
            description: self.description,
            metadata: self.metadata,
            timeout: self.timeout.map(|span| span.0),
            retry: self.retry.as_deref().map(parse_policy).transpose()?,
            keep_for: self.keep_for.map(|span| span.0)
        );
        draft = self.tags.into_iter().fold(draft, Draft::tag);
        Ok(draft.ephemeral(self.ephemeral))
    }
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
