//! A job before it is enqueued.

use std::time::Duration;

use punctual_core::{
    Ids, Invalid, JobDefaults, JobId, Json, LogLevel, NewJob, OnParentFailure, ParentResults, RetryPolicy, Spec,
    Timestamp, Trace, limits, spec,
};
use serde::Serialize;
use serde_json::Value;

use crate::{Job, Unique, queues::QueueDefaults};

/// A job with its options, to be passed to [`Punctual::enqueue`](crate::Punctual::enqueue).
///
/// Every [`Job`] converts into a draft, with the options of its definition:
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
    /// The options that the draft sets itself; the others may come from its queue.
    explicit: ExplicitOptions,
    parents: Vec<JobId>,
    unique: Option<Unique>,
    /// The error of a payload that could not be serialized as JSON; reported when the job is enqueued.
    broken_payload: Option<String>,
}

/// Which of the options with queue defaults were set.
#[derive(Debug, Clone, Copy)]
struct ExplicitOptions {
    priority: bool,
    max_attempts: bool,
    timeout: bool,
}

impl ExplicitOptions {
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
    /// Creates a job with this name, and with `payload` serialized as JSON.
    pub fn new(name: impl Into<String>, payload: &impl Serialize) -> Self {
        match Json::of(payload) {
            Ok(payload) => Self::raw(name, payload),
            Err(error) => Self { broken_payload: Some(error.to_string()), ..Self::raw(name, Json::null()) },
        }
    }

    /// Creates a job with this name, and with a payload that is already JSON.
    pub fn raw(name: impl Into<String>, payload: Json) -> Self {
        Self { explicit: ExplicitOptions::NOTHING, ..Self::of(Spec::new(name, payload)) }
    }

    /// Creates a job from a specification.
    pub const fn of(spec: Spec) -> Self {
        Self {
            spec,
            start: Start::Now,
            explicit: ExplicitOptions::ALL,
            parents: Vec::new(),
            unique: None,
            broken_payload: None,
        }
    }

    options! {
        /// Target queue.
        queue(impl Into<String>) => |spec, queue| spec.queue = queue.into();
        /// Retry policy after a failure.
        retry(RetryPolicy) => |spec, retry| spec.options.retry = Some(retry);
        /// Jobs of a queue with the same concurrency key share a limit: one job at once, unless the queue's
        /// [`Limits`](punctual_core::Limits) set another.
        concurrency_key(impl Into<String>) => |spec, key| spec.options.concurrency_key = Some(key.into());
        /// User the job belongs to.
        user(impl Into<String>) => |spec, user| spec.user_id = Some(user.into());
        /// Correlation id, shared by related jobs.
        correlation_id(impl Into<String>) => |spec, id| spec.correlation_id = Some(id.into());
        /// Adds a tag for filters; may be called several times.
        tag(impl Into<String>) => |spec, tag| spec.options.tags.push(tag.into());
        /// Any JSON, stored with the job.
        metadata(Value) => |spec, metadata| spec.options.metadata = Some(metadata);
        /// Description.
        description(impl Into<String>) => |spec, text| spec.options.description = Some(text.into());
        /// The service or person that enqueues the job.
        created_by(impl Into<String>) => |spec, creator| spec.options.created_by = Some(creator.into());
        /// Parent span, as a W3C `traceparent`; default: the current span.
        trace(impl Into<String>) => |spec, trace| spec.options.trace = Some(trace.into());
        /// Vendor-specific trace state, as a W3C `tracestate`.
        trace_state(impl Into<String>) => |spec, state| spec.options.trace_state = Some(state.into());
        /// Retention after the job has finished, instead of the default.
        keep_for(Duration) => |spec, keep| spec.keep_for = Some(keep);
        /// Whether the job is removed when workers restart.
        ephemeral(bool) => |spec, ephemeral| spec.ephemeral = ephemeral;
        /// Policy when a parent becomes dead or cancelled; by default the job is cancelled too.
        on_parent_failure(OnParentFailure) => |spec, policy| spec.options.on_parent_failure = policy;
        /// Whether the job receives the results of its parents; by default if its definition requests them.
        parent_results(ParentResults) => |spec, when| spec.options.parent_results = when;
        /// Number of worker crashes during which the job may run before it is dead; 3 by default.
        max_crashes(u32) => |spec, crashes| spec.options.max_crashes = Some(crashes);
        /// Minimum level of stored log lines; `info` by default.
        log_level(LogLevel) => |spec, level| spec.options.log_level = Some(level);
        /// Key of the payload whose value user interfaces must not show; may be called several times.
        redact(impl Into<String>) => |spec, key| spec.options.redact_keys.push(key.into());
    }

    /// Priority from 0 to 10, higher first; default: that of its queue, or 5.
    #[must_use]
    pub const fn priority(mut self, priority: u8) -> Self {
        (self.spec.priority, self.explicit.priority) = (priority, true);
        self
    }

    /// Maximum attempts; default: that of its queue, or 10. A job with one attempt runs at most once.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        (self.spec.max_attempts, self.explicit.max_attempts) = (attempts, true);
        self
    }

    /// Timeout per attempt; default: that of its queue, or 300 s.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        (self.spec.timeout, self.explicit.timeout) = (timeout, true);
        self
    }

    /// Applies the defaults of the queue to options that the draft does not set.
    fn complete(&mut self, defaults: &JobDefaults) {
        let (spec, explicit) = (&mut self.spec, self.explicit);
        spec.priority = defaults.priority.filter(|_| !explicit.priority).unwrap_or(spec.priority);
        spec.max_attempts = defaults.max_attempts.filter(|_| !explicit.max_attempts).unwrap_or(spec.max_attempts);
        spec.timeout = defaults.timeout.filter(|_| !explicit.timeout).unwrap_or(spec.timeout);
        spec.keep_for = spec.keep_for.or(defaults.keep_for);
        spec.options.retry = spec.options.retry.take().or_else(|| defaults.retry.clone());
    }

    /// Unique key: while a job of this name holds the key, enqueuing another one returns the existing job. The key is
    /// released when its job is cancelled, deleted, or removed by retention.
    #[must_use]
    pub fn unique_key(self, key: impl Into<String>) -> Self {
        self.unique(Unique::key(key))
    }

    /// Unique key with all options.
    #[must_use]
    pub fn unique(mut self, unique: Unique) -> Self {
        self.unique = Some(unique);
        self
    }

    /// Adds parents: the job waits until they have succeeded; may be called several times.
    /// [`on_parent_failure`](Self::on_parent_failure) sets what happens if a parent becomes dead or cancelled.
    #[must_use]
    pub fn after(mut self, jobs: impl IntoIterator<Item = JobId>) -> Self {
        self.parents.extend(jobs);
        self
    }

    /// Starts the job no earlier than this time from now.
    #[must_use]
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.start = Start::In(delay);
        self
    }

    /// Starts the job no earlier than `at`.
    #[must_use]
    pub const fn run_at(mut self, at: Timestamp) -> Self {
        self.start = Start::At(at);
        self
    }

    /// The specification as it is so far: options that the draft does not set may still come from its queue.
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The template from which a schedule creates its jobs.
    pub(crate) fn into_template(self) -> Result<Spec, Invalid> {
        if !matches!(self.start, Start::Now) {
            return Err(Invalid::new("job", "has a run time; the schedule determines when it runs"));
        }
        if !self.parents.is_empty() {
            return Err(Invalid::new("after", "not allowed for occurrences of a schedule"));
        }
        if self.has_key() {
            let problem =
                "a finished job keeps its key, so only the first occurrence would run; use the schedule's overlap";
            return Err(Invalid::new("unique_key", problem));
        }
        self.into_spec()
    }

    /// Rejects a draft that cannot be enqueued, whatever the defaults of its queue are; the error names the field.
    pub fn check(&self) -> Result<(), Invalid> {
        self.clone().into_new_job(&Ids::seeded(0), Timestamp::MIN, &QueueDefaults::new()).map(drop)
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

    /// Checks the draft and assigns an id that contains the scheduled time.
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

    /// Sets the trace to continue, unless the draft has one.
    pub(crate) fn continue_trace(&mut self, trace: Option<&Trace>) {
        if let (Some(trace), None) = (trace, &self.spec.options.trace) {
            trace.write(&mut self.spec.options);
        }
    }

    const fn has_key(&self) -> bool {
        self.unique.is_some() || self.spec.unique_key.is_some()
    }

    pub(crate) const fn spec_mut(&mut self) -> &mut Spec {
        &mut self.spec
    }
}

impl<J: Job> From<J> for Draft {
    fn from(typed: J) -> Self {
        let (key, unique) = (typed.concurrency_key(), typed.unique());
        let mut draft = Self::new(J::NAME, &typed).queue(J::QUEUE);
        // Options with the general default count as not set, so that defaults of the queue apply.
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
        if let Some(unique) = unique {
            draft = draft.unique(unique);
        }
        J::REDACT.iter().fold(draft, |draft, key| draft.redact(*key))
    }
}
