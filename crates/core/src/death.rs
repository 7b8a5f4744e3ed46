//! Why a job is dead.

use crate::{
    Job, JobError, RetryPolicy,
    job::{E_DATA, E_LOST},
};

/// What a dead job keeps of its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Death<'a> {
    /// The error of its last attempt.
    pub error: Option<&'a JobError>,
    /// Attempts spent.
    pub attempt: u32,
    /// Maximum attempts.
    pub max_attempts: u32,
    /// Attempts that ended because the worker was lost.
    pub crash_count: u32,
    /// Maximum number of such crashes.
    pub max_crashes: u32,
    /// Its retry policy.
    pub retry: RetryPolicy,
}

impl<'a> Death<'a> {
    /// The same facts of a job.
    pub fn of(job: &'a Job) -> Self {
        Self {
            error: job.error.as_ref(),
            attempt: job.attempt,
            max_attempts: job.spec.max_attempts,
            crash_count: job.crash_count,
            max_crashes: job.spec.max_crashes(),
            retry: job.retry(),
        }
    }
}

/// The reason why a job is dead, to follow "dead for 5 min, ". The decisions are those of [`settle`](crate::settle()).
///
/// ```
/// use punctual_core::{death::{Death, reason_of_death}, testing};
/// let job = testing::job(|job| (job.attempt, job.spec.max_attempts) = (2, 2));
/// assert_eq!(reason_of_death(&Death::of(&job)), "after 2 attempts, no retries left");
/// ```
pub fn reason_of_death(death: &Death<'_>) -> String {
    let attempts = format!("after {} attempt{}", death.attempt, if death.attempt == 1 { "" } else { "s" });
    match death.error.and_then(|error| error.code.as_deref()) {
        Some(E_LOST) if death.max_attempts <= 1 => {
            "after its worker was lost; a job with one attempt does not run again".to_owned()
        }
        Some(E_LOST) => format!("after {} of {} crashes of its workers", death.crash_count, death.max_crashes),
        Some(E_DATA) => format!("{attempts}, not retried because its data is invalid"),
        _ if death.attempt >= death.max_attempts => format!("{attempts}, no retries left"),
        _ if death.retry.delay(death.attempt.saturating_sub(1), 0.5).is_none() => {
            format!("{attempts}, its retry policy allows no retries")
        }
        _ => format!("{attempts}, failed permanently by its handler"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttemptStatus, Claim, Ending, Outcome, Retry, Settlement, StoreError, settle, testing};

    /// The reason after the end of an execution, of a job modified by `adjust`.
    fn reason(outcome: Outcome, adjust: impl FnOnce(&mut Job)) -> String {
        let claim = Claim { confirmed: true, ..testing::claim(adjust) };
        dead(&claim, settle(&claim, outcome, 0.5))
    }

    fn dead(claim: &Claim, settlement: Settlement) -> String {
        assert_eq!(settlement.ending, Ending::Die);
        let mut job = (*claim.job).clone();
        job.crash_count += u32::from(settlement.attempt_status == AttemptStatus::Lost);
        job.attempt -= u32::from(settlement.gives_back_attempt());
        job.error = settlement.fault;
        reason_of_death(&Death::of(&job))
    }

    fn failed(retry: Retry) -> Outcome {
        Outcome::Failed { fault: JobError::new("no"), retry }
    }

    #[test]
    fn each_end_has_its_own_reason() {
        let lost = || Outcome::Lost { evidence: None };
        let last = |job: &mut Job| (job.attempt, job.spec.max_attempts) = (3, 3);
        assert_eq!(reason(failed(Retry::ByPolicy), last), "after 3 attempts, no retries left");
        assert_eq!(reason(Outcome::TimedOut, last), "after 3 attempts, no retries left");
        assert_eq!(reason(failed(Retry::Never), |_| ()), "after 1 attempt, failed permanently by its handler");
        assert_eq!(
            reason(failed(Retry::ByPolicy), |job| job.spec.options.retry = Some(RetryPolicy::none())),
            "after 1 attempt, its retry policy allows no retries"
        );
        assert_eq!(reason(lost(), |job| job.crash_count = 2), "after 3 of 3 crashes of its workers");
        assert_eq!(
            reason(lost(), |job| job.spec.max_attempts = 1),
            "after its worker was lost; a job with one attempt does not run again"
        );
        let claim = testing::claim(|_| ());
        let corrupt = Settlement::corrupt(claim.attempt_id(), claim.worker, &StoreError::Other("bad row".into()));
        assert_eq!(dead(&claim, corrupt), "after 1 attempt, not retried because its data is invalid");
    }
}
