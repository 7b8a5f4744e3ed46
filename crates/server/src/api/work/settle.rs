//! Outcomes that remote workers report.

use punctual_core::{
    AttemptId, Claim, Job, JobError, Json, Outcome, Retry, Settled, Settlement, WorkerId, limits, settle as decide,
    time::Span,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_count;
use crate::{problem::Problem, request::RequestContext, route::Nothing};

/// Outcomes of executions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobEnds {
    /// Id of the worker that ran them.
    worker: WorkerId,
    /// One outcome per execution.
    jobs: Vec<JobEnd>,
}

/// Outcome of an execution.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JobEnd")]
pub(crate) struct JobEnd {
    /// Id of the execution.
    attempt_id: AttemptId,
    /// The outcome.
    outcome: RemoteOutcome,
    /// Result of the job, if it succeeded.
    result: Option<Json>,
    /// Error message, if it failed.
    error: Option<String>,
    /// Whether to retry a failed job: by default as its retry policy says; false for no retry.
    retry: Option<bool>,
    /// Delay before a failed job is retried or a snoozed job runs again, such as `5m`.
    after: Option<Span>,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Outcome")]
pub(crate) enum RemoteOutcome {
    /// The job succeeded.
    Succeeded,
    /// The job failed.
    Failed,
    /// The job exceeded its timeout.
    TimedOut,
    /// The job is snoozed: it runs again later, and the attempt does not count as failed.
    Snoozed,
    /// The job is returned unfinished; the attempt does not count.
    Released,
}

impl JobEnd {
    fn into_outcome(self, index: usize) -> Result<Outcome, Problem> {
        let invalid = |field: &str, problem: &str| Problem::invalid(format!("jobs[{index}].{field}"), problem);
        if self.after.is_some_and(|span| span.0 > limits::DELAY_MAX) {
            return Err(invalid("after", &format!("must be at most {} days", limits::DELAY_MAX.as_secs() / 86_400)));
        }
        let after = self.after.map(|span| span.0);
        Ok(match self.outcome {
            RemoteOutcome::Succeeded => {
                if let Some(result) = &self.result {
                    result
                        .check("result", limits::RESULT_MAX_BYTES)
                        .map_err(|error| invalid("result", &error.problem))?;
                }
                Outcome::Succeeded { result: self.result.filter(|result| result.as_str() != "null") }
            }
            RemoteOutcome::Failed => Outcome::Failed {
                fault: JobError::new(self.error.unwrap_or_else(|| "no error message given".into())),
                retry: match (self.retry, after) {
                    (Some(false), _) => Retry::Never,
                    (_, Some(after)) => Retry::After(after),
                    _ => Retry::ByPolicy,
                },
            },
            RemoteOutcome::TimedOut => Outcome::TimedOut,
            RemoteOutcome::Snoozed => Outcome::Snoozed {
                after: after.ok_or_else(|| {
                    invalid("after", "is required when the outcome is `snoozed`; expected a duration, such as 5m")
                })?,
            },
            RemoteOutcome::Released => Outcome::Released,
        })
    }
}

/// Results of a settlement.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Settled")]
pub(crate) struct SettleResults {
    /// One entry per execution, in order: whether its outcome was recorded. False if the worker no longer held the
    /// execution.
    settled: Vec<bool>,
}

pub(crate) async fn settle(
    request: RequestContext,
    _: Nothing,
    JobEnds { worker, jobs }: JobEnds,
) -> Result<SettleResults, Problem> {
    check_count("jobs", jobs.len())?;
    let store = request.punctual().store();
    let mut outcomes = Vec::with_capacity(jobs.len());
    for (index, end) in jobs.into_iter().enumerate() {
        outcomes.push((end.attempt_id, end.into_outcome(index)?));
    }
    let (mut settlements, mut exists) = (Vec::with_capacity(outcomes.len()), Vec::with_capacity(outcomes.len()));
    for (attempt, outcome) in outcomes {
        let settlement = match outcome {
            Outcome::Succeeded { result } => Some(Settlement::succeed(attempt, worker, result)),
            Outcome::Released => Some(Settlement::release(attempt, worker)),
            // The next step depends on the job's current state; the fence holds only if the job is still as the worker
            // received it.
            outcome => store.get(attempt.job).await?.map(|job| {
                let job = Box::new(Job { run: attempt.run, ..job });
                decide(&Claim::new(job, worker), outcome, fastrand::f64())
            }),
        };
        exists.push(settlement.is_some());
        settlements.extend(settlement);
    }
    let mut answers = store.settle(settlements).await?.into_iter();
    let settled = exists.into_iter().map(|exists| exists && answers.next() == Some(Settled::Done)).collect();
    Ok(SettleResults { settled })
}
