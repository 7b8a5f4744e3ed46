//! A job as users write it.

use std::time::Duration;

use punctual_core::{
    Backoff, Invalid, JobDefaults, JobId, Json, LogLevel, OnParentFailure, ParentResults, RetryPolicy, Status, check,
    limits,
    time::{Span, When, in_words},
    trace::TraceParent,
};
use serde::{Deserialize, Serialize};

use crate::{Draft, Unique};

/// A job with its options. Also the type of a line in a batch file, and of a job in a workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default, bound(deserialize = "P: Deserialize<'de>"))]
#[cfg_attr(feature = "schema", schemars(rename = "NewJob"))]
pub struct JobInput<P = Json> {
    /// Job name.
    #[serde(alias = "job")]
    pub name: String,
    /// Payload.
    pub payload: Option<P>,
    /// Target queue.
    pub queue: Option<String>,
    /// Priority from 0 to 10, higher first.
    pub priority: Option<i64>,
    /// Delay before it starts.
    #[serde(rename = "in")]
    pub delay: Option<Span>,
    /// Time at which it starts.
    pub at: Option<When>,
    /// Unique key: while a job holds it, no other job with it is enqueued.
    pub key: Option<String>,
    /// Scope of the unique key.
    pub unique: Option<UniqueInput>,
    /// Concurrency key: jobs of a queue with the same key share a limit.
    pub concurrency_key: Option<String>,
    /// User the job belongs to.
    pub user: Option<String>,
    /// Tags for filters.
    pub tags: Vec<String>,
    /// Correlation id, shared by related jobs.
    pub correlation: Option<String>,
    /// Parent span, as a W3C `traceparent`; default: that of the request.
    pub trace: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Any JSON, stored with the job.
    pub metadata: Option<serde_json::Value>,
    /// Minimum level of stored log lines.
    pub log_level: Option<LogLevel>,
    /// Maximum attempts; a job with one attempt runs at most once.
    pub max_attempts: Option<i64>,
    /// Number of worker crashes during which it may run before it is dead; default: 3.
    pub max_crashes: Option<i64>,
    /// Timeout per attempt.
    pub timeout: Option<Span>,
    /// Retry policy: `none`, `fixed:10s`, `linear:10s`, `exponential:5s`, `list:1s,10s,1m`.
    pub retry: Option<String>,
    /// Retention after it has finished.
    pub keep_for: Option<Span>,
    /// Removed when a worker starts, unless it is running.
    pub ephemeral: bool,
    /// Parents, by their ids; in a workflow, by their names there.
    pub after: Vec<String>,
    /// Policy when a parent becomes dead or cancelled.
    pub on_parent_failure: OnParentFailure,
    /// Whether it receives the results of its parents.
    pub parent_results: ParentResults,
}

// Not derived, since a payload need not have a default.
impl<P> Default for JobInput<P> {
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

impl<P: Serialize> JobInput<P> {
    /// The draft; an error names the invalid field.
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

/// Default options of the jobs of a queue.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(rename = "NewDefaults"))]
pub struct DefaultsInput {
    /// Priority from 0 to 10, higher first.
    pub priority: Option<i64>,
    /// Maximum attempts per job.
    pub max_attempts: Option<i64>,
    /// Timeout per attempt.
    pub timeout: Option<Span>,
    /// Retry policy, as for a job.
    pub retry: Option<String>,
    /// Retention after a job has finished.
    pub keep_for: Option<Span>,
}

impl DefaultsInput {
    /// The defaults; an error names the invalid field.
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

/// Scope of a unique key, as users write it.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", schemars(rename = "Unique"))]
pub struct UniqueInput {
    /// `payload`, or JSON pointers to parts of it; instead of a key.
    pub by: Vec<String>,
    /// Jobs of other names conflict, too.
    pub any_name: bool,
    /// Jobs of other queues do not conflict.
    pub per_queue: bool,
    /// Period, from the time of the enqueue.
    pub period: Option<Span>,
    /// States in which the existing job conflicts.
    pub states: Vec<Status>,
    /// Actions on a conflict.
    pub on_conflict: Vec<OnConflict>,
}

/// An action on a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// Return the existing job.
    Existing,
    /// Replace its payload, if it has not started.
    Replace,
    /// Postpone it to the new time, if it is still scheduled.
    Debounce,
}

fn unique(key: Option<String>, line: Option<UniqueInput>) -> Result<Option<Unique>, Invalid> {
    let UniqueInput { by, any_name, per_queue, period, states, on_conflict } = match (&key, line) {
        (None, None) => return Ok(None),
        (_, line) => line.unwrap_or_default(),
    };
    let mut unique = match (key, by.as_slice()) {
        (Some(key), []) => Unique::key(key),
        (Some(_), _) => return Err(Invalid::new("unique.by", "not allowed with a key; expected one of them")),
        (None, []) => {
            return Err(Invalid::new(
                "unique.by",
                "must not be empty; expected payload, or parts of it such as /order",
            ));
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

/// Checks that a `traceparent` is valid.
fn checked_trace(trace: String) -> Result<String, Invalid> {
    trace.parse::<TraceParent>().map(|parent| parent.to_string())
}

/// A retry policy in the notation of the input, without its cap and its jitter.
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

/// The default options of a queue in words; `None` if there are none.
pub fn defaults_in_words(defaults: &JobDefaults) -> Option<String> {
    let parts: Vec<String> = [
        defaults.priority.map(|priority| format!("priority {priority}")),
        defaults.max_attempts.map(|attempts| format!("{attempts} attempts")),
        defaults.timeout.map(|timeout| format!("timeout {}", in_words(timeout))),
        defaults.retry.as_ref().map(|policy| format!("retry {}", policy_in_words(policy))),
        defaults.keep_for.map(|keep| format!("kept for {}", in_words(keep))),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Reads `none`, `fixed:10s`, `linear:10s`, `exponential:5s`, `list:1s,10s,1m`.
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
