//! What an operator may do to a job. A pure decision, as [`settle`](crate::settle()) is for workers.

use std::fmt;

use serde::Deserialize;

use crate::{Job, JobId, Refused, Status, Timestamp};

/// An operator's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Run a dead job again, or a retrying one now; its history goes on.
    Retry,
    /// Make sure that it does not run (any more).
    Cancel,
    /// Hide it; retention removes it later.
    Delete,
    /// Do not wait for its time.
    #[serde(rename = "run")]
    RunNow,
}

impl Verb {
    /// The status that it asks for.
    pub const fn target(self) -> Status {
        match self {
            Self::Retry | Self::RunNow => Status::Queued,
            Self::Cancel => Status::Cancelled,
            Self::Delete => Status::Deleted,
        }
    }

    /// The statuses that it applies to, in the order in which jobs go through them: a bulk action that goes the same way
    /// meets those that move on meanwhile.
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
            (Self::Cancel, Status::Dead) => "; it will not run unless somebody retries it, delete it to hide it",
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

/// An operator's wish for one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The job.
    pub job: JobId,
    /// What is wanted.
    pub verb: Verb,
    /// Who wants it.
    pub actor: String,
    /// Why, if they say.
    pub reason: Option<String>,
}

/// What became of a [`Change`].
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// The job has the new status.
    Done,
    /// It had it already; no event was written.
    Already,
    /// The state machine forbids it; nothing changed.
    Refused(Refused),
    /// There is no such job.
    NotFound,
}

/// Applies `verb` to `job` as of `now`. Says whether the job had the status already.
///
/// Engines read the job, call this, and write the job back with one event, all in one transaction.
pub fn apply(verb: Verb, job: &mut Job, now: Timestamp) -> Result<bool, Refused> {
    let (from, to) = (job.status, verb.target());
    if from == to {
        return Ok(true);
    }
    if !verb.applies_to().contains(&from) || !from.may_become(to) {
        return Err(Refused { job: job.id, from, to, hint: verb.hint(from) });
    }
    job.status = to;
    job.updated_at = now;
    job.worker_id = None;
    job.lease_until = None;
    if to == Status::Queued {
        job.waiting_on = 0;
        job.run_at = now;
        job.finished_at = None;
        // A dead job that is tried by hand gets at least one more attempt.
        job.spec.max_attempts = job.spec.max_attempts.max(job.attempt.saturating_add(1));
    } else if from.is_active() {
        job.finished_at = Some(now);
    }
    Ok(false)
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
        assert_eq!((job.spec.max_attempts, job.finished_at, job.run_at), (4, None, Timestamp::from_micros(9)));
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
