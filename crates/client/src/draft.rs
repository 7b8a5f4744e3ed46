//! A job before it is enqueued.

use std::time::Duration;

use punctual_core::{
    Ids, Invalid, JobId, Json, NewJob, OnParentFailure, ParentResults, RetryPolicy, Spec, Timestamp, limits,
};
use serde::Serialize;
use serde_json::Value;

use crate::Job;

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
    parents: Vec<JobId>,
    /// A payload that could not be written as JSON; told when the job is enqueued.
    broken_payload: Option<String>,
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
        Self::of(Spec::new(name, payload))
    }

    /// A job as `spec` says.
    pub const fn of(spec: Spec) -> Self {
        Self { spec, start: Start::Now, parents: Vec::new(), broken_payload: None }
    }

    options! {
        /// The queue to stand in.
        queue(impl Into<String>) => |spec, queue| spec.queue = queue.into();
        /// 0 to 10, higher first; 5 by default.
        priority(u8) => |spec, priority| spec.priority = priority;
        /// How often it may be tried; 3 by default.
        max_attempts(u32) => |spec, attempts| spec.max_attempts = attempts;
        /// How long one attempt may take; 300 s by default.
        timeout(Duration) => |spec, timeout| spec.timeout = timeout;
        /// When to try again after a failure.
        retry(RetryPolicy) => |spec, retry| spec.extras.retry = Some(retry);
        /// While a job of this name holds the key, enqueuing another returns that one. The key is free again once
        /// its job is cancelled, deleted, or removed by retention.
        unique_key(impl Into<String>) => |spec, key| spec.unique_key = Some(key.into());
        /// On whose behalf it runs.
        user(impl Into<String>) => |spec, user| spec.user_id = Some(user.into());
        /// Ties together what belongs together.
        correlation_id(impl Into<String>) => |spec, id| spec.correlation_id = Some(id.into());
        /// A word to find it by; may be called several times.
        tag(impl Into<String>) => |spec, tag| spec.extras.tags.push(tag.into());
        /// Anything to keep with it.
        metadata(Value) => |spec, metadata| spec.extras.metadata = Some(metadata);
        /// A sentence for people.
        description(impl Into<String>) => |spec, text| spec.extras.description = Some(text.into());
        /// Which service or person asks for it.
        created_by(impl Into<String>) => |spec, creator| spec.extras.created_by = Some(creator.into());
        /// The W3C trace context to continue.
        trace(impl Into<String>) => |spec, trace| spec.extras.trace = Some(trace.into());
        /// How long to keep it once finished, instead of as long as the others.
        keep_for(Duration) => |spec, keep| spec.keep_for = Some(keep);
        /// Drop it at restart.
        ephemeral(bool) => |spec, ephemeral| spec.ephemeral = ephemeral;
        /// What it does when one of its parents dies or is cancelled; by default it is cancelled too.
        on_parent_failure(OnParentFailure) => |spec, policy| spec.extras.on_parent_failure = policy;
        /// Whether it is handed what its parents returned; by default if its definition asks for it.
        parent_results(ParentResults) => |spec, wish| spec.extras.parent_results = wish;
        /// A key of the payload that no admin surface may show; may be called several times.
        redact(impl Into<String>) => |spec, key| spec.extras.redact_keys.push(key.into());
    }

    /// Lets it wait until these jobs have succeeded; may be called several times. What it does if one of them dies or is
    /// cancelled, [`on_parent_failure`](Self::on_parent_failure) says.
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
        if self.spec.unique_key.is_some() {
            let problem =
                "a finished job keeps its key, so only the first occurrence would run; use the schedule's overlap";
            return Err(Invalid::new("unique_key", problem));
        }
        self.into_spec()
    }

    fn into_spec(self) -> Result<Spec, Invalid> {
        if let Some(problem) = self.broken_payload {
            return Err(Invalid::new("payload", format!("cannot be written as JSON: {problem}")));
        }
        self.spec.check()?;
        Ok(self.spec)
    }

    /// Checks it and gives it an id that carries the time it is for.
    pub(crate) fn into_new_job(self, ids: &Ids, now: Timestamp) -> Result<NewJob, Invalid> {
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

    pub(crate) const fn has_key(&self) -> bool {
        self.spec.unique_key.is_some()
    }

    pub(crate) const fn spec_mut(&mut self) -> &mut Spec {
        &mut self.spec
    }
}

impl<J: Job> From<J> for Draft {
    fn from(job: J) -> Self {
        let mut draft = Self::new(J::NAME, &job)
            .queue(J::QUEUE)
            .priority(J::PRIORITY)
            .max_attempts(J::MAX_ATTEMPTS)
            .timeout(J::TIMEOUT);
        let retry = J::retry();
        if retry != RetryPolicy::default() {
            draft = draft.retry(retry);
        }
        J::REDACT.iter().fold(draft, |draft, key| draft.redact(*key))
    }
}
