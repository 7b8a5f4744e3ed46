//! A job in the words of users.

use std::time::Duration;

use punctual_core::{
    Backoff, Invalid, JobDefaults, JobId, Json, LogLevel, OnParentFailure, ParentResults, RetryPolicy, Status, check,
    limits,
    time::{Span, When, in_words},
    trace::TraceParent,
};
use serde::{Deserialize, Serialize};

use crate::{Draft, Unique};

/// A job: its name, its payload, and whatever else is said of it. Also a line of a file, and a job of a workflow.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, bound(deserialize = "P: Deserialize<'de>"))]
#[cfg_attr(feature = "schema", schemars(rename = "NewJob"))]
pub struct JobWords<P = Json> {
    /// Its name.
    #[serde(alias = "job")]
    pub name: String,
    /// What its handler is given.
    pub payload: Option<P>,
    /// The queue it stands in.
    pub queue: Option<String>,
    /// 0 to 10, higher first.
    pub priority: Option<i64>,
    /// How long from now it starts.
    #[serde(rename = "in")]
    pub delay: Option<Span>,
    /// When it starts.
    pub at: Option<When>,
    /// While a job holds this key, another one is not enqueued.
    pub key: Option<String>,
    /// How far that reaches.
    pub unique: Option<UniqueWords>,
    /// Jobs of one queue that share it share a limit.
    pub concurrency_key: Option<String>,
    /// On whose behalf it runs.
    pub user: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Ties together what belongs together.
    pub correlation: Option<String>,
    /// The span that it continues, as a W3C `traceparent`; that of the request if nothing is said.
    pub trace: Option<String>,
    /// A sentence for people.
    pub description: Option<String>,
    /// Anything to keep with it.
    pub metadata: Option<serde_json::Value>,
    /// Lines of its log below this level are not kept.
    pub log_level: Option<LogLevel>,
    /// Maximum attempts; a job with one attempt runs at most once.
    pub max_attempts: Option<i64>,
    /// Crashes of its workers that it may be there at before it is dead; 3 by default.
    pub max_crashes: Option<i64>,
    /// How long one attempt may take.
    pub timeout: Option<Span>,
    /// When to try again: `none`, `fixed:10s`, `linear:10s`, `exponential:5s`, `list:1s,10s,1m`.
    pub retry: Option<String>,
    /// How long to keep it once finished.
    pub keep_for: Option<Span>,
    /// Dropped at restart.
    pub ephemeral: bool,
    /// Jobs by their ids; in a workflow, by their names there.
    pub after: Vec<String>,
    /// What it does when one of those dies or is cancelled.
    pub on_parent_failure: OnParentFailure,
    /// Whether it is handed what those returned.
    pub parent_results: ParentResults,
}

// Not derived, since a payload need not have a default.
impl<P> Default for JobWords<P> {
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
            trace: None,
            description: None,
            metadata: None,
            log_level: None,
            max_attempts: None,
            max_crashes: None,
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

impl<P: Serialize> JobWords<P> {
    /// The job that these words mean; an error names the word that means nothing.
    pub fn draft(self) -> Result<Draft, Invalid> {
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
        let crashes = within("max_crashes", self.max_crashes, i64::from(limits::CRASHES_MAX_COUNT))?;
        set!(
            queue: self.queue,
            priority: priority.map(|priority| priority as u8),
            max_attempts: attempts.map(|attempts| attempts as u32),
            max_crashes: crashes.map(|crashes| crashes as u32),
            delay: self.delay.map(|span| span.0),
            run_at: self.at.map(|when| when.0),
            unique: unique(self.key, self.unique)?,
            concurrency_key: self.concurrency_key,
            user: self.user,
            correlation_id: self.correlation,
            trace: self.trace.map(checked_trace).transpose()?,
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
    value.map_or(Ok(()), |value| check::range(field, value, 0..=max)).map(|()| value)
}

/// What the jobs of a queue are by default.
#[derive(Debug, Default, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(rename = "NewDefaults"))]
pub struct DefaultWords {
    /// 0 to 10, higher first.
    pub priority: Option<i64>,
    /// How often they may be tried.
    pub max_attempts: Option<i64>,
    /// How long one attempt may take.
    pub timeout: Option<Span>,
    /// When to try again, as of a job.
    pub retry: Option<String>,
    /// How long to keep them once finished.
    pub keep_for: Option<Span>,
}

impl DefaultWords {
    /// What these words mean.
    pub fn defaults(self) -> Result<JobDefaults, Invalid> {
        let priority = within("priority", self.priority, i64::from(limits::PRIORITY_MAX))?;
        let attempts = within("max_attempts", self.max_attempts, i64::from(limits::ATTEMPTS_MAX_COUNT))?;
        let defaults = JobDefaults {
            priority: priority.map(|priority| priority as u8),
            max_attempts: attempts.map(|attempts| attempts as u32),
            timeout: self.timeout.map(|span| span.0),
            retry: self.retry.as_deref().map(parse_policy).transpose()?,
            keep_for: self.keep_for.map(|span| span.0),
        };
        defaults.check()?;
        Ok(defaults)
    }
}

/// How far a unique key reaches, in the words of users.
#[derive(Debug, Default, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(rename = "Unique"))]
pub struct UniqueWords {
    /// `payload`, or JSON pointers to its parts; instead of a key.
    pub by: Vec<String>,
    /// Jobs of other names count too.
    pub any_name: bool,
    /// Jobs of other queues do not count.
    pub per_queue: bool,
    /// For how long it is in force.
    pub period: Option<Span>,
    /// In which states of the job that holds it.
    pub states: Vec<Status>,
    /// What a conflict does.
    pub on_conflict: Vec<OnConflict>,
}

/// What a conflict does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// Return the job that is there.
    Existing,
    /// Give it the new payload, if it has not started.
    Replace,
    /// Push its time back, if it is still scheduled.
    Debounce,
}

fn unique(key: Option<String>, line: Option<UniqueWords>) -> Result<Option<Unique>, Invalid> {
    let UniqueWords { by, any_name, per_queue, period, states, on_conflict } = match (&key, line) {
        (None, None) => return Ok(None),
        (_, line) => line.unwrap_or_default(),
    };
    let mut unique = match (key, by.as_slice()) {
        (Some(key), []) => Unique::key(key),
        (Some(_), _) => return Err(Invalid::new("unique.by", "there is a key already; give one of both")),
        (None, []) => {
            return Err(Invalid::new("unique.by", "must not be empty; expected payload, or parts of it such as /order"));
        }
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

/// A trace that somebody writes down is to be one.
fn checked_trace(trace: String) -> Result<String, Invalid> {
    trace.parse::<TraceParent>().map(|parent| parent.to_string())
}

/// Reads `none`, `fixed:10s`, `linear:10s`, `exponential:5s`, `list:1s,10s,1m`.
/// A policy as it may be written. Its longest wait and its share of chance cannot be.
pub fn policy_in_words(policy: &RetryPolicy) -> String {
    match &policy.backoff {
        Backoff::None => "none".to_owned(),
        Backoff::Fixed { base } => format!("fixed:{}", Span(*base)),
        Backoff::Linear { base } => format!("linear:{}", Span(*base)),
        Backoff::Exponential { base } => format!("exponential:{}", Span(*base)),
        Backoff::List { delays_ms } => {
            let delays = delays_ms.iter().map(|delay| Span(Duration::from_millis(*delay)).to_string());
            format!("list:{}", delays.collect::<Vec<_>>().join(","))
        }
    }
}

/// What the jobs of a queue are by default; nothing if nothing is said of them.
pub fn defaults_in_words(defaults: &JobDefaults) -> Option<String> {
    let words: Vec<String> = [
        defaults.priority.map(|priority| format!("priority {priority}")),
        defaults.max_attempts.map(|attempts| format!("{attempts} attempts")),
        defaults.timeout.map(|timeout| format!("timeout {}", in_words(timeout))),
        defaults.retry.as_ref().map(|policy| format!("retry {}", policy_in_words(policy))),
        defaults.keep_for.map(|keep| format!("kept for {}", in_words(keep))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn parse_policy(text: &str) -> Result<RetryPolicy, Invalid> {
    let wrong = || {
        let problem = format!(
            "invalid retry policy `{text}`: expected none, fixed:10s, linear:10s, exponential:5s or list:1s,10s,1m"
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_as_it_may_be_typed() {
        for text in ["none", "fixed:10s", "linear:1m 30s", "exponential:5s", "list:1s,10s,1m"] {
            assert_eq!(policy_in_words(&parse_policy(text).unwrap()), text);
        }
    }
}
