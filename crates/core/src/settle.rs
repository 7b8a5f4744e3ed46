//! What follows from the end of an execution. A pure decision; engines only apply it.

use std::time::Duration;

use crate::{
    AttemptId, AttemptStatus, Job, JobError, Json, Status, StoreError, Timestamp, WorkerId,
    job::{E_DATA, E_LOST, E_TIMEOUT},
    limits, retry,
};

/// A job in the hands of a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The job, as of the claim. It goes through many hands, and is large.
    pub job: Box<Job>,
    /// Who holds it.
    pub worker: WorkerId,
    /// Whether the worker has [confirmed](crate::store::ClaimStore::confirm) that its handler is about to start. Only
    /// claims of the lost tell: those that have expired, and those of the dead.
    pub confirmed: bool,
}

impl Claim {
    /// A job that a worker has just taken.
    pub const fn new(job: Box<Job>, worker: WorkerId) -> Self {
        Self { job, worker, confirmed: false }
    }

    /// The execution that this claim opened.
    pub fn attempt_id(&self) -> AttemptId {
        AttemptId { job: self.job.id, run: self.job.run }
    }
}

/// How an execution ended, as its worker saw it.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The handler returned.
    Succeeded {
        /// What it returned.
        result: Option<Json>,
    },
    /// The handler failed.
    Failed {
        /// Why.
        fault: JobError,
        /// How it wants to be retried.
        retry: Retry,
    },
    /// The handler ran too long.
    TimedOut,
    /// The handler wants to be run again later, without having failed.
    Snoozed {
        /// When.
        after: Duration,
    },
    /// The worker gives the job back unfinished.
    Released,
    /// The worker was lost: its process died, or its lease expired.
    Lost {
        /// How its process ended, where a supervisor saw it.
        evidence: Option<String>,
    },
}

impl Outcome {
    /// Its name in logs.
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

/// What a failed handler asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Whatever the policy says.
    ByPolicy,
    /// After this time, while attempts remain.
    After(Duration),
    /// Not at all.
    Never,
}

/// What becomes of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is done.
    Succeed,
    /// It waits for its next attempt.
    Retry {
        /// How long.
        after: Duration,
    },
    /// It may be tried again at once.
    Requeue,
    /// It has failed for the last time.
    Die,
    /// It goes back to its queue and the attempt does not count.
    Release,
    /// It waits and the attempt does not count.
    Snooze {
        /// How long.
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

    /// The status that the job comes to rest in.
    pub const fn status(self) -> Status {
        match self {
            Self::Succeed => Status::Succeeded,
            Self::Retry { .. } => Status::Retrying,
            Self::Requeue | Self::Release => Status::Queued,
            Self::Die => Status::Dead,
            Self::Snooze { .. } => Status::Scheduled,
        }
    }

    /// When a job that could start at `run_at` may start next, if its execution ends at `now`. One that goes back to
    /// its queue keeps its place: it has waited for its turn already, and those that came later are not to go first
    /// because its worker died.
    pub fn run_at(self, run_at: Timestamp, now: Timestamp) -> Timestamp {
        match self {
            Self::Succeed | Self::Die => run_at,
            Self::Requeue | Self::Release => run_at.min(now),
            Self::Retry { after } | Self::Snooze { after } => now.after(after),
        }
    }

    /// How long the job is to wait, if it is.
    pub const fn delay(self) -> Option<Duration> {
        match self {
            Self::Retry { after } | Self::Snooze { after } => Some(after),
            Self::Succeed | Self::Die | Self::Requeue | Self::Release => None,
        }
    }
}

/// The decision about one execution, for an engine to apply if the fence holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The execution; with `worker`, the fence.
    pub attempt: AttemptId,
    /// Who must still hold it.
    pub worker: WorkerId,
    /// Apply it only if the lease has run out: a reaper may not end what was extended meanwhile.
    pub only_if_expired: bool,
    /// How the attempt closes.
    pub attempt_status: AttemptStatus,
    /// What becomes of the job.
    pub ending: Ending,
    /// Why the attempt failed.
    pub fault: Option<JobError>,
    /// What the handler returned.
    pub result: Option<Json>,
    /// Whether something is known to follow from the job's end, for its workflow: a hint.
    pub flow: bool,
}

impl Settlement {
    /// Ends an execution that succeeded, whatever the job is.
    pub fn succeed(attempt: AttemptId, worker: WorkerId, result: Option<Json>) -> Self {
        let released = Self::release(attempt, worker);
        Self { attempt_status: AttemptStatus::Succeeded, ending: Ending::Succeed, result, ..released }
    }

    /// Ends an execution whose job cannot be read: it is dead, whatever its policy says.
    pub fn corrupt(attempt: AttemptId, worker: WorkerId, error: &StoreError) -> Self {
        let fault = Some(JobError::coded(E_DATA, error.to_string()));
        Self { attempt_status: AttemptStatus::Failed, ending: Ending::Die, fault, ..Self::release(attempt, worker) }
    }

    /// The same of an execution whose lease has run out, if nobody has extended it meanwhile.
    pub fn corrupt_and_expired(attempt: AttemptId, worker: WorkerId, error: &StoreError) -> Self {
        Self { only_if_expired: true, ..Self::corrupt(attempt, worker, error) }
    }

    /// Gives a job back that was not run, or not to its end, and that may start again at once.
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

    /// Whether the attempt is not spent: the job was given back, or its worker was lost.
    pub const fn gives_back_attempt(&self) -> bool {
        matches!(self.attempt_status, AttemptStatus::Released | AttemptStatus::Lost)
    }
}

/// What an engine did with a [`Settlement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It was applied.
    Done,
    /// The execution was no longer the worker's; nothing changed.
    Stale,
}

/// Decides what follows from `outcome`. `roll` is a random number from 0 up to 1, for the policy's jitter.
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
            let message = format!("the attempt took longer than its timeout of {} ms", job.spec.timeout.as_millis());
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

/// What follows when a worker is lost with its job. That is no failure of the job: it spends no attempt, but one of its
/// crashes.
///
/// A job that [needs confirmation](Job::needs_confirmation) is confirmed by its worker before the handler starts: lost
/// before that, it goes back as if it had never been claimed; lost after it, it is dead. With a single attempt that is
/// because its handler may have done anything.
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

/// The loss in words, with all that is known of it.
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
