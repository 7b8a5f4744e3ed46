//! Decides what follows from the end of an execution. A pure decision; engines only apply it.

use std::time::Duration;

use crate::{
    AttemptId, AttemptStatus, Job, JobError, Json, Status, StoreError, Timestamp, WorkerId,
    job::{E_DATA, E_LOST, E_TIMEOUT},
    limits, retry,
    time::Span,
};

/// A job that a worker has claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The job, as of the claim. It is boxed because it is large and is passed on often.
    pub job: Box<Job>,
    /// The worker that holds the claim.
    pub worker: WorkerId,
    /// Whether the worker has [confirmed](crate::store::ClaimStore::confirm) that its handler is about to start. Only
    /// set for expired claims and for claims of dead workers.
    pub confirmed: bool,
}

impl Claim {
    /// A job that a worker has just claimed.
    pub const fn new(job: Box<Job>, worker: WorkerId) -> Self {
        Self { job, worker, confirmed: false }
    }

    /// The execution that this claim opened.
    pub fn attempt_id(&self) -> AttemptId {
        AttemptId { job: self.job.id, run: self.job.run }
    }
}

/// How an execution ended, as its worker reports it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The handler returned.
    Succeeded {
        /// The result of the handler.
        result: Option<Json>,
    },
    /// The handler failed.
    Failed {
        /// The error.
        fault: JobError,
        /// The retry that the handler requests.
        retry: Retry,
    },
    /// The handler exceeded the timeout.
    TimedOut,
    /// The handler requests to be run again later, without having failed.
    Snoozed {
        /// The delay.
        after: Duration,
    },
    /// The worker released the job unfinished.
    Released,
    /// The worker was lost: its process died, or its lease expired.
    Lost {
        /// How the worker's process ended, if a supervisor observed it.
        evidence: Option<String>,
    },
}

impl Outcome {
    /// The name in logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded { .. } => "succeeded",
            Self::Failed { .. } => "failed",
            Self::TimedOut => "timed_out",
            Self::Snoozed { .. } => "snoozed",
            Self::Released => "released",
            Self::Lost { .. } => "lost",
        }
    }
}

/// The retry that a failed handler requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// As the retry policy decides.
    ByPolicy,
    /// After this time, while attempts remain.
    After(Duration),
    /// No retry.
    Never,
}

/// What happens to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The job has succeeded.
    Succeed,
    /// The job waits for its next attempt.
    Retry {
        /// The wait.
        after: Duration,
    },
    /// The job may be retried at once.
    Requeue,
    /// The job has failed permanently.
    Die,
    /// The job returns to its queue, and the attempt does not count.
    Release,
    /// The job waits, and the attempt does not count.
    Snooze {
        /// The wait.
        after: Duration,
    },
}

impl Ending {
    /// The statuses that the job passes from `processing`, one event each.
    pub const fn path(self) -> &'static [Status] {
        match self {
            Self::Succeed => &[Status::Succeeded],
            Self::Retry { .. } => &[Status::Failed, Status::Retrying],
            Self::Requeue => &[Status::Failed, Status::Queued],
            Self::Die => &[Status::Failed, Status::Dead],
            Self::Release => &[Status::Queued],
            Self::Snooze { .. } => &[Status::Scheduled],
        }
    }

    /// The resulting status of the job.
    pub const fn status(self) -> Status {
        match self {
            Self::Succeed => Status::Succeeded,
            Self::Retry { .. } => Status::Retrying,
            Self::Requeue | Self::Release => Status::Queued,
            Self::Die => Status::Dead,
            Self::Snooze { .. } => Status::Scheduled,
        }
    }

    /// The next start time of a job with start time `run_at`, if its execution ends at `now`. A job that returns to its
    /// queue keeps its position: it has waited for its turn already, and later jobs must not run first because its
    /// worker died.
    pub fn run_at(self, run_at: Timestamp, now: Timestamp) -> Timestamp {
        match self {
            Self::Succeed | Self::Die => run_at,
            Self::Requeue | Self::Release => run_at.min(now),
            Self::Retry { after } | Self::Snooze { after } => now.after(after),
        }
    }

    /// How long the job waits, if it does.
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::Retry { after } | Self::Snooze { after } => Some(after),
            Self::Succeed | Self::Die | Self::Requeue | Self::Release => None,
        }
    }
}

/// The decision about one execution. An engine applies it if the fence holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The execution; with `worker`, the fence.
    pub attempt: AttemptId,
    /// The worker that must still hold the claim.
    pub worker: WorkerId,
    /// Apply it only if the lease has expired: the reaper must not end an execution whose lease was extended meanwhile.
    pub only_if_expired: bool,
    /// The resulting status of the attempt.
    pub attempt_status: AttemptStatus,
    /// What happens to the job.
    pub ending: Ending,
    /// The error of the attempt.
    pub fault: Option<JobError>,
    /// The result of the handler.
    pub result: Option<Json>,
    /// Whether the end of the job is known to have consequences for other jobs or its workflow. A hint.
    pub flow: bool,
}

impl Settlement {
    /// Ends an execution that succeeded; independent of the job.
    pub fn succeed(attempt: AttemptId, worker: WorkerId, result: Option<Json>) -> Self {
        let released = Self::release(attempt, worker);
        Self { attempt_status: AttemptStatus::Succeeded, ending: Ending::Succeed, result, ..released }
    }

    /// Ends an execution whose job cannot be read: the job is dead, regardless of its retry policy.
    pub fn corrupt(attempt: AttemptId, worker: WorkerId, error: &StoreError) -> Self {
        let fault = Some(JobError::coded(E_DATA, error.to_string()));
        Self { attempt_status: AttemptStatus::Failed, ending: Ending::Die, fault, ..Self::release(attempt, worker) }
    }

    /// The same for an execution whose lease has expired, unless it was extended meanwhile.
    pub fn corrupt_and_expired(attempt: AttemptId, worker: WorkerId, error: &StoreError) -> Self {
        Self { only_if_expired: true, ..Self::corrupt(attempt, worker, error) }
    }

    /// Returns a job to its queue that was not run, or not to its end; it may start again at once.
    pub const fn release(attempt: AttemptId, worker: WorkerId) -> Self {
        Self {
            attempt,
            worker,
            only_if_expired: false,
            attempt_status: AttemptStatus::Released,
            ending: Ending::Release,
            fault: None,
            result: None,
            flow: false,
        }
    }

    /// Whether the attempt is not counted: the job was released, or its worker was lost.
    pub const fn gives_back_attempt(&self) -> bool {
        matches!(self.attempt_status, AttemptStatus::Released | AttemptStatus::Lost)
    }
}

/// What an engine did with a [`Settlement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It was applied.
    Done,
    /// The worker no longer held the execution; nothing changed.
    Stale,
}

/// Decides what follows from `outcome`. `roll` is a random number from 0 up to 1, for the jitter of the retry policy.
///
/// ```
/// use punctual_core::{Ending, Outcome, settle, testing};
/// let mut claim = testing::claim(|job| job.crash_count = 2);
/// assert_eq!(settle(&claim, Outcome::Lost { evidence: None }, 0.5).ending, Ending::Release);
/// claim.confirmed = true;
/// assert_eq!(settle(&claim, Outcome::Lost { evidence: None }, 0.5).ending, Ending::Die);
/// ```
pub fn settle(claim: &Claim, outcome: Outcome, roll: f64) -> Settlement {
    let job = &claim.job;
    let (attempt_status, ending, fault, result) = match outcome {
        Outcome::Succeeded { result } => (AttemptStatus::Succeeded, Ending::Succeed, None, result),
        Outcome::Failed { fault, retry } => {
            let fault = fault.redacted(&job.spec.options.redact_keys);
            (AttemptStatus::Failed, after_failure(job, retry, roll), Some(fault), None)
        }
        Outcome::TimedOut => {
            let message = format!("the attempt took longer than its timeout of {}", Span(job.spec.timeout));
            let fault = JobError::coded(E_TIMEOUT, message);
            (AttemptStatus::TimedOut, after_failure(job, Retry::ByPolicy, roll), Some(fault), None)
        }
        Outcome::Snoozed { after } => (AttemptStatus::Released, wait_or(Ending::Release, after), None, None),
        Outcome::Released => return Settlement::release(claim.attempt_id(), claim.worker),
        Outcome::Lost { evidence } => return after_loss(claim, evidence.as_deref()),
    };
    let flow = job.spec.workflow_id.is_some();
    let (attempt, worker) = (claim.attempt_id(), claim.worker);
    Settlement { attempt, worker, only_if_expired: false, attempt_status, ending, fault, result, flow }
}

/// What follows when a worker is lost with its job. This is not a failure of the job: it does not count as an attempt,
/// but as a crash.
///
/// A job that [needs confirmation](Job::needs_confirmation) is confirmed by its worker before the handler starts: if
/// the worker is lost before that, the job is released as if it had never been claimed; if it is lost after that, the
/// job is dead. A job with a single attempt is dead then because its handler may have had any effect.
fn after_loss(claim: &Claim, evidence: Option<&str>) -> Settlement {
    let (job, attempt) = (&claim.job, claim.attempt_id());
    let once = job.spec.runs_at_most_once();
    if job.needs_confirmation() && !claim.confirmed {
        return Settlement { only_if_expired: true, ..Settlement::release(attempt, claim.worker) };
    }
    let crashes = job.crash_count.saturating_add(1);
    let ending = if once || crashes >= job.spec.max_crashes() {
        Ending::Die
    } else {
        wait_or(Ending::Requeue, retry::crash_delay(crashes))
    };
    Settlement {
        attempt,
        worker: claim.worker,
        only_if_expired: true,
        attempt_status: AttemptStatus::Lost,
        ending,
        fault: Some(JobError::coded(E_LOST, loss(claim, crashes, ending, evidence))),
        result: None,
        flow: job.spec.workflow_id.is_some(),
    }
}

/// A description of the loss, with all known details.
fn loss(claim: &Claim, crashes: u32, ending: Ending, evidence: Option<&str>) -> String {
    let cause = evidence.unwrap_or("its lease expired or its process died");
    let lost = format!("worker {} lost while it ran the job: {cause}", claim.worker);
    match ending {
        Ending::Die if claim.job.spec.runs_at_most_once() => {
            format!("{lost}; max_attempts is 1, so the job does not run again")
        }
        Ending::Die => format!("{lost}; crash {crashes} of {}: quarantined", claim.job.spec.max_crashes()),
        _ => format!("{lost}; crash {crashes} of {}", claim.job.spec.max_crashes()),
    }
}

fn after_failure(job: &Job, retry: Retry, roll: f64) -> Ending {
    if job.attempt >= job.spec.max_attempts {
        return Ending::Die;
    }
    let delay = match retry {
        Retry::Never => None,
        Retry::After(delay) => Some(delay),
        Retry::ByPolicy => job.retry().delay(job.attempt.saturating_sub(1), roll),
    };
    delay.map_or(Ending::Die, |delay| wait_or(Ending::Requeue, delay))
}

fn wait_or(at_once: Ending, delay: Duration) -> Ending {
    let after = delay.min(limits::DELAY_MAX);
    match at_once {
        _ if after.is_zero() => at_once,
        Ending::Release => Ending::Snooze { after },
        _ => Ending::Retry { after },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RetryPolicy, testing};

    fn failed(retry: Retry) -> Outcome {
        Outcome::Failed { fault: JobError::new("no"), retry }
    }

    fn lost() -> Outcome {
        Outcome::Lost { evidence: None }
    }

    fn ending(attempt: u32, outcome: Outcome) -> Ending {
        let claim = testing::claim(|job| {
            job.attempt = attempt;
            job.spec.max_attempts = 3;
            job.spec.options.retry = Some(RetryPolicy::fixed(Duration::from_secs(9)).jitter(0.0));
        });
        settle(&claim, outcome, 0.5).ending
    }

    #[test]
    fn every_outcome_has_its_ending() {
        let nine = Duration::from_secs(9);
        assert_eq!(ending(1, Outcome::Succeeded { result: None }), Ending::Succeed);
        assert_eq!(ending(1, failed(Retry::ByPolicy)), Ending::Retry { after: nine });
        assert_eq!(ending(1, failed(Retry::After(nine))), Ending::Retry { after: nine });
        assert_eq!(ending(1, failed(Retry::After(Duration::ZERO))), Ending::Requeue);
        assert_eq!(ending(1, failed(Retry::Never)), Ending::Die);
        assert_eq!(ending(3, failed(Retry::ByPolicy)), Ending::Die);
        assert_eq!(ending(3, failed(Retry::After(nine))), Ending::Die);
        assert_eq!(ending(2, Outcome::TimedOut), Ending::Retry { after: nine });
        assert_eq!(ending(3, Outcome::TimedOut), Ending::Die);
        assert_eq!(ending(3, Outcome::Snoozed { after: nine }), Ending::Snooze { after: nine });
        assert_eq!(ending(3, Outcome::Snoozed { after: Duration::ZERO }), Ending::Release);
        assert_eq!(ending(3, Outcome::Released), Ending::Release);
        assert_eq!(ending(3, lost()), Ending::Requeue);
    }

    #[test]
    fn a_crash_spends_a_crash_and_no_attempt() {
        let after = |crash_count: u32| {
            let claim = Claim { confirmed: true, ..testing::claim(|job| job.crash_count = crash_count) };
            let settlement = settle(&claim, lost(), 0.5);
            assert!(settlement.gives_back_attempt() && settlement.only_if_expired);
            settlement
        };
        assert_eq!(after(0).ending, Ending::Requeue);
        assert_eq!(after(1).ending, Ending::Retry { after: Duration::from_secs(10) });
        assert_eq!(after(2).ending, Ending::Die);
        let message = after(2).fault.unwrap().message;
        assert!(message.ends_with("crash 3 of 3: quarantined"), "{message}");
    }

    #[test]
    fn a_job_with_one_attempt_goes_back_only_if_its_handler_cannot_have_started() {
        let mut claim = testing::claim(|job| job.spec.max_attempts = 1);
        let unstarted = settle(&claim, lost(), 0.5);
        assert_eq!((unstarted.ending, unstarted.attempt_status), (Ending::Release, AttemptStatus::Released));
        assert!(unstarted.only_if_expired);
        claim.confirmed = true;
        assert_eq!(settle(&claim, lost(), 0.5).ending, Ending::Die);
    }

    #[test]
    fn a_job_dies_of_a_crash_only_if_its_handler_was_about_to_start() {
        let last = testing::claim(|job| job.crash_count = 2);
        assert_eq!(settle(&last, lost(), 0.5).ending, Ending::Release);
        assert_eq!(settle(&Claim { confirmed: true, ..last }, lost(), 0.5).ending, Ending::Die);
    }

    #[test]
    fn every_path_is_legal() {
        let after = Duration::from_secs(1);
        for ending in [
            Ending::Succeed,
            Ending::Retry { after },
            Ending::Requeue,
            Ending::Die,
            Ending::Release,
            Ending::Snooze { after },
        ] {
            let mut from = Status::Processing;
            for to in ending.path() {
                assert!(from.may_become(*to), "{from} to {to}");
                from = *to;
            }
            assert_eq!(from, ending.status());
        }
    }

    #[test]
    fn a_policy_without_retries_dies_at_once_but_survives_a_lost_worker() {
        let claim = testing::claim(|job| {
            job.attempt = 1;
            job.spec.options.retry = Some(RetryPolicy::none());
        });
        assert_eq!(settle(&claim, failed(Retry::ByPolicy), 0.5).ending, Ending::Die);
        assert_eq!(settle(&claim, lost(), 0.5).ending, Ending::Requeue);
    }
}
