//! A job before it is enqueued.

use std::time::Duration;

use punctual_core::{
    Ids, Invalid, JobDefaults, JobId, Json, LogLevel, NewJob, OnParentFailure, ParentResults, RetryPolicy, Spec,
    Timestamp, Trace, limits, spec,
};
use serde::Serialize;
use serde_json::Value;

use crate::{Job, Unique, queues::QueueDefaults};

/// A job with its options, to be handed to [`Punctual::enqueue`](crate::Punctual::enqueue).
///
/// Every [`Job`] becomes one, with the options of its definition:
///
/// ```
/// use punctual_client::Draft;
/// use std::time::Duration;
/// let draft = Draft::new("send-invoice", &serde_json::json!({"order": 7}))
///     .queue("mail")
///     .priority(9)
///     .delay(Duration::from_secs(60))
///     .unique_key("order-7")
///     .tag("vip");
/// ```
#[derive(Debug, Clone)]
pub struct Draft {
    spec: Spec,
    start: Start,
    /// What the draft itself says; the rest may follow from its queue.
    said: Said,
    parents: Vec<JobId>,
    unique: Option<Unique>,
    /// A payload that could not be written as JSON; told when the job is enqueued.
    broken_payload: Option<String>,
}

/// Which of the values that a queue may have defaults for were given.
#[derive(Debug, Clone, Copy)]
struct Said {
    priority: bool,
    max_attempts: bool,
    timeout: bool,
}

impl Said {
    const NOTHING: Self = Self { priority: false, max_attempts: false, timeout: false };
    const ALL: Self = Self { priority: true, max_attempts: true, timeout: true };
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Now,
    In(Duration),
    At(Timestamp),
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($type:ty) => |$spec:ident, $value:ident| $set:expr;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $value: $type) -> Self {
                let $spec = &mut self.spec;
                $set;
                self
            }
        )*
    };
}

impl Draft {
    /// A job of that name, with `payload` as JSON.
    pub fn new(name: impl Into<String>, payload: &impl Serialize) -> Self {
        match Json::of(payload) {
            Ok(payload) => Self::raw(name, payload),
            Err(error) => Self { broken_payload: Some(error.to_string()), ..Self::raw(name, Json::null()) },
        }
    }

    /// A job of that name, with a payload that is JSON already.
    pub fn raw(name: impl Into<String>, payload: Json) -> Self {
        Self { said: Said::NOTHING, ..Self::of(Spec::new(name, payload)) }
    }

    /// A job as `spec` says.
    pub const fn of(spec: Spec) -> Self {
        Self { spec, start: Start::Now, said: Said::ALL, parents: Vec::new(), unique: None, broken_payload: None }
    }

    options! {
        /// Target queue.
        queue(impl Into<String>) => |spec, queue| spec.queue = queue.into();
        /// When to try again after a failure.
        retry(RetryPolicy) => |spec, retry| spec.options.retry = Some(retry);
        /// Jobs of one queue that share this key share its limit: one at a time, unless the queue's
        /// [`Limits`](punctual_core::Limits) say otherwise.
        concurrency_key(impl Into<String>) => |spec, key| spec.options.concurrency_key = Some(key.into());
        /// On whose behalf it runs.
        user(impl Into<String>) => |spec, user| spec.user_id = Some(user.into());
        /// Ties together what belongs together.
        correlation_id(impl Into<String>) => |spec, id| spec.correlation_id = Some(id.into());
        /// A word to find it by; may be called several times.
        tag(impl Into<String>) => |spec, tag| spec.options.tags.push(tag.into());
        /// Anything to keep with it.
        metadata(Value) => |spec, metadata| spec.options.metadata = Some(metadata);
        /// A sentence for people.
        description(impl Into<String>) => |spec, text| spec.options.description = Some(text.into());
        /// Which service or person asks for it.
        created_by(impl Into<String>) => |spec, creator| spec.options.created_by = Some(creator.into());
        /// The span to continue, as a W3C `traceparent`; the current one if nothing is said.
        trace(impl Into<String>) => |spec, trace| spec.options.trace = Some(trace.into());
        /// What goes with it, as a W3C `tracestate`.
        trace_state(impl Into<String>) => |spec, state| spec.options.trace_state = Some(state.into());
        /// How long to keep it once finished, instead of as long as the others.
        keep_for(Duration) => |spec, keep| spec.keep_for = Some(keep);
        /// Drop it at restart.
        ephemeral(bool) => |spec, ephemeral| spec.ephemeral = ephemeral;
        /// What it does when one of its parents dies or is cancelled; by default it is cancelled too.
        on_parent_failure(OnParentFailure) => |spec, policy| spec.options.on_parent_failure = policy;
        /// Whether it is handed what its parents returned; by default if its definition asks for it.
        parent_results(ParentResults) => |spec, wish| spec.options.parent_results = wish;
        /// How many crashes of its workers it may be there at before it is dead; 3 by default.
        max_crashes(u32) => |spec, crashes| spec.options.max_crashes = Some(crashes);
        /// Keeps lines of its log from this level on; from `info` on by default.
        log_level(LogLevel) => |spec, level| spec.options.log_level = Some(level);
        /// A key of the payload that no admin surface may show; may be called several times.
        redact(impl Into<String>) => |spec, key| spec.options.redact_keys.push(key.into());
    }

    /// 0 to 10, higher first; what its queue says by default, or 5.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        (self.spec.priority, self.said.priority) = (priority, true);
        self
    }

    /// Maximum attempts; what its queue says by default, or 10. A job with one attempt runs at most once.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        (self.spec.max_attempts, self.said.max_attempts) = (attempts, true);
        self
    }

    /// How long one attempt may take; what its queue says by default, or 300 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        (self.spec.timeout, self.said.timeout) = (timeout, true);
        self
    }

    /// What its queue says where the draft says nothing.
    fn complete(&mut self, defaults: &JobDefaults) {
        let (spec, said) = (&mut self.spec, self.said);
        spec.priority = defaults.priority.filter(|_| !said.priority).unwrap_or(spec.priority);
        spec.max_attempts = defaults.max_attempts.filter(|_| !said.max_attempts).unwrap_or(spec.max_attempts);
        spec.timeout = defaults.timeout.filter(|_| !said.timeout).unwrap_or(spec.timeout);
        spec.keep_for = spec.keep_for.or(defaults.keep_for);
        spec.options.retry = spec.options.retry.take().or_else(|| defaults.retry.clone());
    }

    /// While a job of this name holds the key, enqueuing another returns that one. The key is free again once
    /// its job is cancelled, deleted, or removed by retention.
    #[must_use]
    pub fn unique_key(self, key: impl Into<String>) -> Self {
        self.unique(Unique::key(key))
    }

    /// The same with all the options that a unique key has.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// Lets it wait until these jobs have succeeded; may be called several times. What it does if one of them dies or
    /// is cancelled, [`on_parent_failure`](Self::on_parent_failure) says.
    #[must_use]
    pub fn after(mut self, jobs: impl IntoIterator<Item = JobId>) -> Self {
        self.parents.extend(jobs);
        self
    }

    /// Starts it no sooner than this time from now.
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.start = Start::In(delay);
        self
    }

    /// Starts it no sooner than `at`.
    #[must_use]
    pub const fn run_at(mut self, at: Timestamp) -> Self {
        self.start = Start::At(at);
        self
    }

    /// What a schedule makes its jobs from.
    pub(crate) fn into_template(self) -> Result<Spec, Invalid> {
        if !matches!(self.start, Start::Now) {
            return Err(Invalid::new("job", "has a time of its own; the schedule says when it runs"));
        }
        if !self.parents.is_empty() {
            return Err(Invalid::new("after", "occurrences of a schedule wait for nothing but their time"));
        }
        if self.has_key() {
            let problem =
                "a finished job keeps its key, so only the first occurrence would run; use the schedule's overlap";
            return Err(Invalid::new("unique_key", problem));
        }
        self.into_spec()
    }

    fn into_spec(mut self) -> Result<Spec, Invalid> {
        if let Some(problem) = self.broken_payload {
            return Err(Invalid::new("payload", format!("cannot be written as JSON: {problem}")));
        }
        if let Some(unique) = self.unique {
            unique.apply(&mut self.spec)?;
        }
        self.spec.check()?;
        Ok(self.spec)
    }

    /// Checks it and gives it an id that carries the time it is for.
    pub(crate) fn into_new_job(
        mut self,
        ids: &Ids,
        now: Timestamp,
        defaults: &QueueDefaults,
    ) -> Result<NewJob, Invalid> {
        if let Some(defaults) = defaults.get(&self.spec.queue) {
            self.complete(defaults);
        }
        let (delay, at) = match self.start {
            Start::Now => (None, now),
            Start::In(delay) => (Some(Duration::ZERO), now.after(delay)),
            Start::At(at) => (Some(Duration::ZERO), at),
        };
        let mut parents = self.parents.clone();
        parents.sort_unstable();
        parents.dedup();
        if parents.len() > limits::PARENTS_MAX_COUNT {
            return Err(Invalid::too_long("after", parents.len(), limits::PARENTS_MAX_COUNT, "jobs"));
        }
        Ok(NewJob { id: JobId::from_bits(ids.next(at)), delay, spec: self.into_spec()?, parents })
    }

    /// Lets it continue a trace, unless it says itself which one.
    pub(crate) fn continue_trace(&mut self, trace: Option<&Trace>) {
        if let (Some(trace), None) = (trace, &self.spec.options.trace) {
            trace.write(&mut self.spec.options);
        }
    }

    pub(crate) const fn has_key(&self) -> bool {
        self.unique.is_some() || self.spec.unique_key.is_some()
    }

    pub(crate) const fn spec_mut(&mut self) -> &mut Spec {
        &mut self.spec
    }
}

impl<J: Job> From<J> for Draft {
    fn from(typed: J) -> Self {
        let key = typed.concurrency_key();
        let mut draft = Self::new(J::NAME, &typed).queue(J::QUEUE);
        // A definition that says what every job is says nothing, and its queue may.
        if J::PRIORITY != spec::DEFAULT_PRIORITY {
            draft = draft.priority(J::PRIORITY);
        }
        if J::MAX_ATTEMPTS != spec::DEFAULT_MAX_ATTEMPTS {
            draft = draft.max_attempts(J::MAX_ATTEMPTS);
        }
        if J::TIMEOUT != spec::DEFAULT_TIMEOUT {
            draft = draft.timeout(J::TIMEOUT);
        }
        if J::LOG_LEVEL != LogLevel::default() {
            draft = draft.log_level(J::LOG_LEVEL);
        }
        let retry = J::retry();
        if retry != RetryPolicy::default() {
            draft = draft.retry(retry);
        }
        if let Some(key) = key {
            draft = draft.concurrency_key(key);
        }
        J::REDACT.iter().fold(draft, |draft, key| draft.redact(*key))
    }
}
