//! Operator actions on a job. A pure decision, as [`settle`](crate::settle()) is for workers.

use std::{fmt, time::Duration};

use serde::Deserialize;

use crate::{Job, JobId, Refused, Status, Timestamp};

/// An operator action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Run a dead job again, or a retrying job now; its history continues.
    Retry,
    /// Cancel the job: it does not run, or is stopped if it is running.
    Cancel,
    /// Hide the job; retention removes it later.
    Delete,
    /// Run the job now instead of at its scheduled time.
    #[serde(rename = "run")]
    RunNow,
}

impl Verb {
    /// The status that the action leads to.
    pub const fn target(self) -> Status {
        match self {
            Self::Retry | Self::RunNow => Status::Queued,
            Self::Cancel => Status::Cancelled,
            Self::Delete => Status::Deleted,
        }
    }

    /// The statuses that the action applies to, in the order in which jobs pass through them. A bulk action that
    /// proceeds in the same order also finds the jobs that change status meanwhile.
    pub const fn applies_to(self) -> &'static [Status] {
        match self {
            Self::Retry => &[Status::Dead, Status::Retrying],
            Self::Cancel => &[Status::Waiting, Status::Scheduled, Status::Retrying, Status::Queued, Status::Processing],
            Self::Delete => &[Status::Queued, Status::Dead, Status::Succeeded, Status::Cancelled],
            Self::RunNow => &[Status::Waiting, Status::Scheduled, Status::Retrying],
        }
    }

    const fn hint(self, from: Status) -> &'static str {
        match (self, from) {
            (Self::Retry, Status::Succeeded | Status::Cancelled) => "; run it once more as a new job with `jobs run`",
            (Self::Retry, Status::Scheduled) => "; start it now with `jobs run`",
            (Self::Retry | Self::RunNow, Status::Processing) => "; it is running now",
            (Self::RunNow, Status::Dead) => "; continue it with `jobs retry`",
            (Self::Delete, Status::Scheduled | Status::Processing | Status::Retrying | Status::Waiting) => {
                "; cancel it first"
            }
            (Self::Cancel, Status::Dead) => "; it will not run unless it is retried; delete it to hide it",
            _ => "",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::RunNow => "run",
        })
    }
}

/// An operator action on one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The job.
    pub job: JobId,
    /// The action.
    pub verb: Verb,
    /// The operator who requests it.
    pub actor: String,
    /// The reason, if one was given.
    pub reason: Option<String>,
}

/// The result of a [`Change`].
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// The job has the new status.
    Done,
    /// The job had the status already; no event was written.
    Already,
    /// The state machine forbids it; nothing changed.
    Refused(Refused),
    /// No job has this id.
    NotFound,
}

/// Applies `verb` to `job` as of `now`. Returns whether the job had the status already.
///
/// Engines read the job, call this, and write the job back with one event, all in one transaction.
pub fn apply(verb: Verb, job: &mut Job, now: Timestamp) -> Result<bool, Refused> {
    let (from, to) = (job.status, verb.target());
    if from == to {
        return Ok(true);
    }
    if !verb.applies_to().contains(&from) || !from.may_become(to) {
        return Err(Refused { job: job.id, from, to, hint: verb.hint(from), holder: None });
    }
    job.status = to;
    job.updated_at = now;
    job.worker_id = None;
    job.lease_until = None;
    if to == Status::Queued {
        job.waiting_on = 0;
        job.run_at = now;
        job.finished_at = None;
        // A dead job that is retried manually gets at least one more attempt. A job that runs at most once keeps its
        // limit of one attempt.
        if job.spec.runs_at_most_once() {
            job.attempt = 0;
        } else {
            job.spec.max_attempts = job.spec.max_attempts.max(job.attempt.saturating_add(1));
        }
    } else if from.is_active() {
        job.finished_at = Some(now);
    }
    Ok(false)
}

/// The job that holds a unique key, and the end of the key's period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHolder {
    /// The job.
    pub job: JobId,
    /// Its status.
    pub status: Status,
    /// The end of the key's period, if it has one.
    pub expires_at: Option<Timestamp>,
}

/// The change to a job's unique key when the job is to run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// The key is not changed.
    Leave,
    /// The job takes the key; the value is the end of its period, if it has one.
    Take(Option<Timestamp>),
}

/// The scope and the unique key that a finished job may have lost and needs again before `verb` makes it active.
pub fn needed_key(verb: Verb, job: &Job) -> Option<(String, &str)> {
    let revived = job.status.is_finished() && verb.target().is_active() && verb.applies_to().contains(&job.status);
    if revived { job.spec.unique_key() } else { None }
}

/// The change to the [needed key](needed_key) of a job, given the job that holds it now. A retry is judged by the rules
/// of an enqueue, except for the period, which is still counted from when the job was enqueued.
///
/// Engines call this before [`apply`], in the same transaction.
pub fn retake_key(verb: Verb, job: &Job, holder: Option<KeyHolder>, now: Timestamp) -> Result<KeyChange, Refused> {
    let unique = job.spec.unique();
    let expires_at = unique.expires_at(job.created_at);
    match holder {
        Some(holder) if holder.job == job.id => Ok(KeyChange::Leave),
        Some(holder) if unique.conflicts(holder.status, holder.expires_at, now) => {
            Err(Refused { job: job.id, from: job.status, to: verb.target(), hint: "", holder: Some(holder.job) })
        }
        _ if expires_at.is_some_and(|until| until <= now) => Ok(KeyChange::Leave),
        _ => Ok(KeyChange::Take(expires_at)),
    }
}

/// Extends the retention of a finished job to the end of its unique key's period, because the key would be removed with
/// the job. Returns whether that is later than now.
pub fn keep_for_unique_key(job: &mut Job, now: Timestamp) -> bool {
    let unique = job.spec.unique();
    let until = job.spec.unique_key.as_ref().and(unique.expires_at(job.created_at));
    let (Some(until), Some(finished_at)) = (until, job.finished_at) else { return false };
    if !unique.conflicts(job.status, Some(until), now) {
        return false;
    }
    // Engines store whole milliseconds.
    let left = u64::try_from(until.as_micros() - finished_at.as_micros()).unwrap_or(0).div_ceil(1_000);
    job.spec.keep_for = Some(Duration::from_millis(left));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_verb_applies_only_where_the_state_machine_agrees() {
        for verb in [Verb::Retry, Verb::Cancel, Verb::Delete, Verb::RunNow] {
            for from in verb.applies_to() {
                assert!(from.may_become(verb.target()), "{verb} from {from}");
            }
        }
    }

    #[test]
    fn every_status_answers_every_verb() {
        for verb in [Verb::Retry, Verb::Cancel, Verb::Delete, Verb::RunNow] {
            for status in Status::ALL {
                let mut job = testing::job(|job| job.status = status);
                let before = job.clone();
                match apply(verb, &mut job, Timestamp::from_micros(99)) {
                    Ok(true) => assert_eq!((status, &job), (verb.target(), &before)),
                    Ok(false) => assert_eq!(job.status, verb.target()),
                    Err(refused) => {
                        assert_eq!((refused.from, refused.to), (status, verb.target()));
                        assert_eq!(job, before, "a refusal changes nothing");
                    }
                }
            }
        }
    }

    #[test]
    fn retrying_a_dead_job_by_hand_gives_it_one_more_attempt() {
        let mut job = testing::job(|job| {
            job.status = Status::Dead;
            job.attempt = 3;
            job.spec.max_attempts = 3;
            job.finished_at = Some(Timestamp::from_micros(1));
        });
        apply(Verb::Retry, &mut job, Timestamp::from_micros(9)).unwrap();
        assert_eq!(job.spec.max_attempts, 4);
        assert_eq!(job.finished_at, None);
        assert_eq!(job.run_at, Timestamp::from_micros(9));
    }

    #[test]
    fn a_retry_takes_its_key_again_unless_another_job_is_in_the_way() {
        let job = testing::job(|job| {
            job.status = Status::Dead;
            job.spec.unique_key = Some("k".into());
            job.spec.options.unique =
                Some(crate::Unique { states: vec![Status::Queued], period: None, ..Default::default() });
        });
        let now = Timestamp::from_micros(9);
        let other = |status| Some(KeyHolder { job: JobId::from_bits(7), status, expires_at: None });
        assert!(needed_key(Verb::Retry, &job).is_some() && needed_key(Verb::Delete, &job).is_none());
        assert_eq!(retake_key(Verb::Retry, &job, None, now), Ok(KeyChange::Take(None)));
        assert_eq!(retake_key(Verb::Retry, &job, other(Status::Succeeded), now), Ok(KeyChange::Take(None)));
        let own = KeyHolder { job: job.id, status: Status::Dead, expires_at: None };
        assert_eq!(retake_key(Verb::Retry, &job, Some(own), now), Ok(KeyChange::Leave));
        let refused = retake_key(Verb::Retry, &job, other(Status::Queued), now).unwrap_err();
        assert_eq!(refused.holder, Some(JobId::from_bits(7)));
        assert!(refused.to_string().contains(&format!("; {} holds its unique key", JobId::from_bits(7))), "{refused}");
    }

    #[test]
    fn a_refusal_names_both_states_and_the_way_out() {
        let mut job = testing::job(|job| job.status = Status::Succeeded);
        let refused = apply(Verb::Retry, &mut job, Timestamp::MIN).unwrap_err();
        assert!(
            refused
                .to_string()
                .ends_with("is succeeded and cannot become queued; run it once more as a new job with `jobs run`")
        );
    }
}
