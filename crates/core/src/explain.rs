//! Explains why a job is not running, and what to do about it.

use serde::Serialize;

use crate::{
    ClockStep, Event, Job, JobId, OnParentFailure, QueueSettings, Rate, Relative, Status, Timestamp, WorkerId,
    WorkerRecord, limiter::LimitUsage, time,
};

/// Maximum number of jobs that a sentence names.
const NAMED_MAX_COUNT: usize = 5;

/// A job that occupies a slot in the limits of its queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// Its concurrency key.
    pub key: Option<String>,
    /// The worker that runs it.
    pub worker: Option<WorkerId>,
    /// Whether the job was cancelled while its handler has not ended yet.
    pub is_cancelled: bool,
}

/// The facts from which an explanation is derived.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The job.
    pub job: Job,
    /// The current time.
    pub now: Timestamp,
    /// The parents of the job.
    pub parents: Vec<Relative>,
    /// The settings of its queue.
    pub queue: QueueSettings,
    /// The live workers.
    pub workers: Vec<WorkerRecord>,
    /// The usage of the limits of its queue.
    pub passed_queue: LimitUsage,
    /// The usage of the limits of its key, if it has one.
    pub passed_key: LimitUsage,
    /// Jobs of its queue that occupy slots, cancelled ones first; at least as many as a sentence names.
    pub held: Vec<Held>,
    /// The last event of the job.
    pub last_event: Option<Event>,
    /// The last time that the store's clock was set, if any.
    pub clock_step: Option<ClockStep>,
}

/// The reasons for the current status of a job, the decisive one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Job ID.
    pub job: JobId,
    /// Current status of the job.
    pub status: Status,
    /// Reasons: the decisive one first, then further obstacles.
    pub reasons: Vec<Reason>,
}

/// A reason for the current status of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// Machine-readable kind of the reason.
    pub cause: Cause,
    /// Explanation in words.
    pub text: String,
    /// Recommended action, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Machine-readable kind of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The job waits for its parents.
    WaitsForParents,
    /// The job waits for a parent that has failed and may be retried.
    WaitsForFailedParent,
    /// The job is scheduled for a later time.
    NotDue,
    /// The last attempt failed; the job is retried later.
    BackingOff,
    /// The machine's clock, which determines the job's start time or lease, was set.
    ClockStepped,
    /// The queue is paused.
    QueuePaused,
    /// There are no live workers.
    NoWorker,
    /// No live worker serves the queue.
    NoWorkerForQueue,
    /// No live worker of the queue has a handler for the job's name.
    NoWorkerForName,
    /// The concurrency limit of the queue is reached.
    QueueLimit,
    /// The concurrency limit of the job's concurrency key is reached.
    KeyLimit,
    /// The rate limit of the queue is reached.
    QueueRate,
    /// The rate limit of the job's concurrency key is reached.
    KeyRate,
    /// The job was running when a worker was lost, and waits for a slot in which it runs isolated from other jobs.
    Suspect,
    /// All workers that could run the job are busy.
    WorkersBusy,
    /// Nothing prevents the job from starting.
    AboutToStart,
    /// The job is running.
    Running,
    /// The job was started by a worker that has not sent a heartbeat since.
    WorkerLost,
    /// The job succeeded.
    Succeeded,
    /// The job failed, and has no retries left.
    Dead,
    /// The job was cancelled.
    Cancelled,
    /// The job was deleted.
    Deleted,
}

/// Explains the current status of a job.
pub fn explain(facts: &Facts) -> Explanation {
    let job = &facts.job;
    let mut reasons = match job.status {
        Status::Waiting => vec![facts.waits()],
        Status::Scheduled => vec![facts.not_due()],
        Status::Failed | Status::Retrying => vec![facts.backs_off()],
        Status::Queued => Vec::new(),
        Status::Processing => vec![facts.runs()],
        Status::Succeeded | Status::Dead | Status::Cancelled | Status::Deleted => vec![facts.ended()],
    };
    if job.status.is_active() && job.status != Status::Processing {
        reasons.extend(facts.paused());
        reasons.extend(facts.no_worker());
    }
    reasons.extend(facts.clock_stepped());
    if job.status == Status::Queued {
        reasons.extend(facts.limits());
        if reasons.is_empty() {
            reasons.push(if job.is_suspect() { facts.suspected() } else { facts.busy() });
        }
    }
    Explanation { job: job.id, status: job.status, reasons }
}

fn reason(cause: Cause, text: String, advice: impl Into<String>) -> Reason {
    let advice = advice.into();
    Reason { cause, text, advice: (!advice.is_empty()).then_some(advice) }
}

fn s(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `No live worker (there are 3)`.
fn none_of(count: usize, what: &str) -> String {
    if count == 1 { format!("No {what} (there is one)") } else { format!("No {what} (there are {count})") }
}

/// The first items, and the number of the others.
fn some(items: impl ExactSizeIterator<Item = String>) -> String {
    let more = items.len().saturating_sub(NAMED_MAX_COUNT);
    let mut named = items.take(NAMED_MAX_COUNT).collect::<Vec<_>>().join(", ");
    if more > 0 {
        named.push_str(&format!(" and {more} more"));
    }
    named
}

impl Facts {
    /// Reported for statuses that depend on a time: a requested start time, the time of a retry, the end of a lease.
    fn clock_stepped(&self) -> Option<Reason> {
        let goes_by_time = matches!(self.job.status, Status::Scheduled | Status::Retrying | Status::Processing);
        let step = self.clock_step.filter(|step| goes_by_time && step.is_recent(self.now))?;
        let text = format!(
            "Note that {step}. Leases and retries were shifted by the same amount; requested run times were not."
        );
        Some(reason(Cause::ClockStepped, text, "Check the machine's time synchronisation"))
    }

    fn waits(&self) -> Reason {
        let keeps_waiting = self.job.spec.options.on_parent_failure == OnParentFailure::Wait;
        let failed = |parent: &&Relative| matches!(parent.status, Status::Dead | Status::Cancelled);
        let in_the_way: Vec<&Relative> = self
            .parents
            .iter()
            .filter(|parent| !parent.status.is_finished() || (keeps_waiting && failed(parent)))
            .collect();
        let item = |parent: &&Relative| {
            let node = parent.node.as_ref().map(|node| format!("{node} ")).unwrap_or_default();
            format!("{node}{} ({})", parent.id, parent.status)
        };
        let text = format!(
            "It waits for {} of its {} parent{}: {}.",
            self.job.waiting_on,
            self.parents.len(),
            s(self.parents.len()),
            some(in_the_way.iter().map(item))
        );
        match in_the_way.iter().find(|parent| failed(parent)) {
            Some(parent) if parent.status == Status::Cancelled => reason(
                Cause::WaitsForFailedParent,
                format!("{text} {} was cancelled; by its on_parent_failure policy this job keeps waiting.", parent.id),
                format!(
                    "Start it all the same: punctual jobs run {0}; or cancel it: punctual jobs cancel {0}",
                    self.job.id
                ),
            ),
            Some(parent) => reason(
                Cause::WaitsForFailedParent,
                format!("{text} {} has failed; by its on_parent_failure policy this job keeps waiting.", parent.id),
                format!(
                    "Retry it: punctual jobs retry {0}; or start this one without it: punctual jobs run {1}",
                    parent.id, self.job.id
                ),
            ),
            None => {
                let first =
                    in_the_way.first().map(|parent| format!("Explain the first: punctual jobs explain {}", parent.id));
                reason(Cause::WaitsForParents, text, first.unwrap_or_default())
            }
        }
    }

    fn not_due(&self) -> Reason {
        let at = self.job.run_at;
        let text = if at > self.now {
            format!("It is not due before {at}, in {}.", time::in_words(at.since(self.now)))
        } else {
            format!("It was due {} ago and is about to be queued.", time::in_words(self.now.since(at)))
        };
        reason(Cause::NotDue, text, format!("Start it now: punctual jobs run {}", self.job.id))
    }

    fn backs_off(&self) -> Reason {
        let job = &self.job;
        let why = job.error.as_ref().map(|fault| format!(": {}", first_line(&fault.message))).unwrap_or_default();
        let text = format!(
            "Attempt {} of {} failed{why}. It is tried again at {}, in {}.",
            job.attempt,
            job.spec.max_attempts,
            job.run_at,
            time::in_words(job.run_at.since(self.now))
        );
        reason(Cause::BackingOff, text, format!("Retry it now: punctual jobs retry {}", job.id))
    }

    fn paused(&self) -> Option<Reason> {
        let queue = &self.job.spec.queue;
        let resume = format!("Resume it: punctual queues resume {queue}");
        self.queue.paused.then(|| reason(Cause::QueuePaused, format!("The queue {queue} is paused."), resume))
    }

    /// No live worker can run the job.
    fn no_worker(&self) -> Option<Reason> {
        let (queue, name) = (&self.job.spec.queue, &self.job.spec.name);
        if self.workers.is_empty() {
            let start = format!("Start one: punctual work --queues {queue}");
            return Some(reason(Cause::NoWorker, "No live workers.".to_owned(), start));
        }
        let of_queue: Vec<&WorkerRecord> = self.workers.iter().filter(|worker| worker.serves(queue)).collect();
        if of_queue.is_empty() {
            let text = format!("{} serves the queue {queue}.", none_of(self.workers.len(), "live worker"));
            return Some(reason(
                Cause::NoWorkerForQueue,
                text,
                format!("Start one that does: punctual work --queues {queue}"),
            ));
        }
        if !of_queue.iter().any(|worker| worker.handles(name)) {
            let none = none_of(of_queue.len(), &format!("live worker of the queue {queue}"));
            let text = format!("{none} has a handler for {name}.");
            return Some(reason(Cause::NoWorkerForName, text, handler_advice(name)));
        }
        None
    }

    /// The limits that are reached: those of the queue, and those of the concurrency key if the job has one.
    fn limits(&self) -> Vec<Reason> {
        let (limits, spec) = (&self.queue.limits, &self.job.spec);
        let queue = Limiter {
            name: format!("queue {}", spec.queue),
            passed: &self.passed_queue,
            held: self.held.iter().collect(),
            causes: (Cause::QueueLimit, Cause::QueueRate),
            option: "",
        };
        let mut reasons = self.closed(&queue, limits.concurrency, limits.rate);
        if let Some(key) = &spec.options.concurrency_key {
            let key = Limiter {
                name: format!("key {key}"),
                passed: &self.passed_key,
                held: self.held.iter().filter(|held| held.key.as_ref() == Some(key)).collect(),
                causes: (Cause::KeyLimit, Cause::KeyRate),
                option: "key-",
            };
            reasons.extend(self.closed(&key, limits.key_limit(), limits.key_rate));
        }
        reasons
    }

    /// Why a limiter allows no more starts.
    fn closed(&self, limiter: &Limiter<'_>, limit: Option<u32>, rate: Option<Rate>) -> Vec<Reason> {
        let Limiter { name, passed, held, causes, option } = limiter;
        let raise = |what: &str| format!("punctual queues limit {} --{option}{what}", self.job.spec.queue);
        let mut reasons = Vec::new();
        if let Some(limit) = limit.filter(|limit| passed.running >= *limit) {
            let by = named(held, passed.running);
            let text = format!("The {name} is at its limit of {limit} concurrent job{}{by}.", s(limit as usize));
            let advice = format!("Wait for one to end, or raise the limit: {}", raise("concurrency N"));
            reasons.push(reason(causes.0, text, advice));
        }
        let opens_at = rate.map(|rate| (rate, rate.opens_at(&passed.starts, self.now)));
        if let Some((rate, opens_at)) = opens_at.filter(|(_, at)| *at > self.now) {
            let wait = time::in_words(opens_at.since(self.now));
            let text = format!("The {name} is at its rate limit of {rate}; the next job may start in {wait}.");
            reasons.push(reason(causes.1, text, format!("Raise the rate: {}", raise("rate N/TIME"))));
        }
        reasons
    }

    /// The job may have crashed its worker, and now runs where a crash affects no other job.
    fn suspected(&self) -> Reason {
        let (crashes, max) = (self.job.crash_count, self.job.spec.max_crashes());
        let due = time::in_words(self.now.since(self.job.run_at));
        let text = format!(
            "It has been due for {due}. It was running at {crashes} crash{} of its workers (of {max} at most), so it runs apart from other jobs, and waits for a \
             place: a process that a supervisor keeps for such jobs, or a worker without a supervisor that runs no other one.",
            if crashes == 1 { "" } else { "es" }
        );
        let advice = format!("Show how its workers ended: punctual jobs show {}", self.job.id);
        reason(Cause::Suspect, text, advice)
    }

    /// Nothing prevents the job from starting but the load of the workers.
    fn busy(&self) -> Reason {
        let (queue, name) = (&self.job.spec.queue, &self.job.spec.name);
        let could = self.workers.iter().filter(|worker| worker.serves(queue) && worker.handles(name));
        let could: Vec<&WorkerRecord> = could.collect();
        let due = time::in_words(self.now.since(self.job.run_at));
        if could.iter().all(|worker| worker.heartbeat.running >= worker.heartbeat.concurrency) {
            let text = format!(
                "It has been due for {due}. All {} worker{} that could run it {} busy, with {} jobs.",
                could.len(),
                s(could.len()),
                if could.len() == 1 { "is" } else { "are" },
                could.iter().map(|worker| worker.heartbeat.running).sum::<u32>()
            );
            let fair = if self.queue.limits.fair { " Keys of this queue take turns." } else { "" };
            let advice =
                "Start more workers, let them run more at once (--concurrency), or give the job a higher priority";
            return reason(Cause::WorkersBusy, text + fair, advice);
        }
        let text = format!(
            "It has been due for {due}, a worker has room for it, and nothing is in its way: it is about to start."
        );
        reason(Cause::AboutToStart, text, "")
    }

    fn runs(&self) -> Reason {
        let job = &self.job;
        let worker = job.worker_id.map(|worker| worker.to_string()).unwrap_or_default();
        let lease_until = job.lease_until.unwrap_or(self.now);
        let since = time::in_words(self.now.since(job.started_at.unwrap_or(self.now)));
        if lease_until <= self.now {
            let text = format!(
                "It was started {since} ago by {worker}, whose lease expired {} ago. A live worker returns it to the queue.",
                time::in_words(self.now.since(lease_until))
            );
            return reason(Cause::WorkerLost, text, "If there is no live worker, start one: punctual work");
        }
        let text =
            format!("It is running, attempt {} of {}, for {since}, on {worker}.", job.attempt, job.spec.max_attempts);
        reason(Cause::Running, text, "")
    }

    fn ended(&self) -> Reason {
        let job = &self.job;
        let ago = time::in_words(self.now.since(job.finished_at.unwrap_or(job.updated_at)));
        let event = self.last_event.as_ref();
        let by = event.and_then(|event| event.actor.as_ref()).map(|actor| format!(" by {actor}")).unwrap_or_default();
        let why = event.and_then(|event| event.detail.as_ref()).map(|why| format!(": {why}")).unwrap_or_default();
        let again = format!("Run it again: punctual jobs run {}", job.id);
        match job.status {
            Status::Dead => {
                let fault =
                    job.error.as_ref().map(|fault| format!(": {}", first_line(&fault.message))).unwrap_or_default();
                let spent = if job.attempt >= job.spec.max_attempts {
                    "no retries left"
                } else {
                    "failed permanently by its handler"
                };
                let text = format!(
                    "It has been dead for {ago}, after {} attempt{}, {spent}{fault}",
                    job.attempt,
                    s(job.attempt as usize)
                );
                reason(Cause::Dead, text, format!("Retry it: punctual jobs retry {}", job.id))
            }
            Status::Cancelled => reason(Cause::Cancelled, format!("It was cancelled {ago} ago{by}{why}"), again),
            Status::Deleted => reason(Cause::Deleted, format!("It was deleted {ago} ago{by}{why}"), ""),
            _ => reason(Cause::Succeeded, format!("It succeeded {ago} ago."), again),
        }
    }
}

/// A limiter that applies to the job.
struct Limiter<'a> {
    name: String,
    passed: &'a LimitUsage,
    /// The known jobs that occupy its slots.
    held: Vec<&'a Held>,
    /// The causes to report for its concurrency limit and for its rate.
    causes: (Cause, Cause),
    /// Prefix of the command-line options that change it.
    option: &'static str,
}

/// Names the first of `all` jobs that occupy slots, as far as they are known.
fn named(known: &[&Held], all: u32) -> String {
    let named: Vec<String> = known.iter().take(NAMED_MAX_COUNT).map(|held| held_by(held)).collect();
    let more = (all as usize).saturating_sub(named.len());
    match (named.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(": {}", named.join(", ")),
        (false, more) => format!(": {} and {more} more", named.join(", ")),
    }
}

fn held_by(Held { job, worker, is_cancelled, .. }: &Held) -> String {
    let by = worker.map_or_else(|| job.to_string(), |worker| format!("{job} on {worker}"));
    if *is_cancelled { format!("{by} (cancelled; its handler has not ended)") } else { by }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What to do about jobs that no worker has a handler for.
///
/// ```
/// use punctual_core::explain::handler_advice;
/// assert!(handler_advice("mail").contains("[handlers.mail]"));
/// assert!(handler_advice("send mail").contains(r#"[handlers."send mail"]"#));
/// ```
pub fn handler_advice(job: &str) -> String {
    let is_bare = job.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    // Other keys of TOML are in quotes, with the escapes of JSON.
    let key = if is_bare { job.to_owned() } else { serde_json::Value::from(job).to_string() };
    format!(
        "Start a worker whose program registers a handler for {job}, or declare [handlers.{key}] in punctual.toml \
         and restart its workers"
    )
}
