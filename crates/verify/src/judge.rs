//! Judges each guarantee by the store and the record of executions.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use futures_util::{StreamExt, TryStreamExt, stream};
use punctual::{
    AttemptStatus, JobId, Punctual, Status,
    core::{Attempt, Job},
};
use punctual_testkit::conformance::audit_store;

use crate::{
    Guarantee, OnProgress,
    caught::caught,
    jobs::{Acknowledged, Kind},
    record::Execution,
    workers::Interruption,
};

/// Number of jobs read concurrently.
const READ_AT_ONCE: usize = 8;

/// An acknowledged job, and its final state.
struct Ended<'a> {
    id: JobId,
    kind: &'a Kind,
    /// `None` if the store does not contain the job.
    job: Option<Job>,
    attempts: Vec<Attempt>,
}

/// An execution, and the time until which it can have had an effect: its process may have been interrupted before the
/// execution ended.
struct Span<'a> {
    execution: &'a Execution,
    until: u64,
    interrupted: bool,
}

/// What clients and workers recorded during the chaos run.
pub(crate) struct Observations<'a> {
    pub(crate) acknowledged: &'a Acknowledged,
    pub(crate) executions: &'a [Execution],
    pub(crate) interruptions: &'a [Interruption],
}

pub(crate) async fn judge(
    url: &str,
    observations: Observations<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Guarantee>> {
    let Observations { acknowledged, executions, interruptions } = observations;
    let punctual = Punctual::connect(url).await?;
    let all = acknowledged.len() as u64;
    let ended: Vec<Ended<'_>> = stream::iter(acknowledged.iter().enumerate())
        .map(|(number, (id, kind))| {
            on_progress("audit", number as u64, all);
            read(&punctual, *id, kind)
        })
        .buffer_unordered(READ_AT_ONCE)
        .try_collect()
        .await?;
    let spans = spans(executions, interruptions);
    Ok(vec![
        not_lost(&ended),
        audited(url).await,
        one_at_a_time(&spans),
        recovered(&ended),
        crashes_spend_no_attempt(&ended),
        at_most_once(&ended, executions),
        suspended_change_nothing(&ended, &spans),
        within_limits(acknowledged, &spans),
        not_early(&ended),
    ])
}

async fn read<'a>(punctual: &Punctual, id: JobId, kind: &'a Kind) -> Result<Ended<'a>> {
    let job = punctual.store().get(id).await?;
    let attempts = punctual.store().history(id).await?.attempts;
    Ok(Ended { id, kind, job, attempts })
}

fn spans<'a>(executions: &'a [Execution], interruptions: &[Interruption]) -> Vec<Span<'a>> {
    let span = |execution: &'a Execution| {
        let end = execution.end.unwrap_or(u64::MAX);
        let within = |interruption: &&Interruption| {
            interruption.process == execution.process
                && execution.start <= interruption.until
                && interruption.from < end
        };
        let cut = interruptions.iter().filter(within).map(|interruption| interruption.from).min();
        Span { execution, until: cut.map_or(end, |cut| cut.max(execution.start)), interrupted: cut.is_some() }
    };
    executions.iter().map(span).collect()
}

fn not_lost(ended: &[Ended<'_>]) -> Guarantee {
    let mut guarantee = Guarantee::new("An acknowledged job is stored, and comes to an end.");
    for Ended { id, job, .. } in ended {
        let problem = match job {
            None => Some("is not in the store".to_owned()),
            Some(job) if !job.status.is_finished() => Some(format!("is {}", job.status)),
            Some(_) => None,
        };
        guarantee.exercised(problem.map(|problem| format!("{id} {problem}")));
    }
    guarantee
}

/// Audits every job and every index; fails as a whole.
async fn audited(url: &str) -> Guarantee {
    let mut guarantee =
        Guarantee::new("Each job has one end and a complete history, and all indexes and counters are consistent.");
    let url = url.to_owned();
    let audited = caught(move || async move {
        let punctual = Punctual::connect(&url).await.map_err(|error| error.to_string())?;
        Ok(audit_store(&**punctual.store()).await as u64)
    });
    match audited.await.unwrap_or_else(Err) {
        Ok(jobs) => guarantee.exercised = jobs,
        Err(problem) => guarantee.exercised(Some(problem)),
    }
    guarantee
}

fn one_at_a_time(spans: &[Span<'_>]) -> Guarantee {
    let mut guarantee = Guarantee::new(
        "No two workers execute a job at the same time, and no run begins twice unless its worker was lost.",
    );
    let mut last: HashMap<JobId, &Span<'_>> = HashMap::new();
    for span in spans {
        let Execution { job, run, start, .. } = *span.execution;
        let problem = match last.get(&job) {
            Some(before) if before.until > start => Some(format!(
                "{job}: run {run} began {} ms before run {} was over",
                (before.until - start) / 1_000,
                before.execution.run
            )),
            Some(before) if before.execution.run == run && !before.interrupted => {
                Some(format!("{job}: run {run} began twice"))
            }
            _ => None,
        };
        guarantee.exercised(problem);
        if last.get(&job).is_none_or(|before| before.until <= span.until) {
            last.insert(job, span);
        }
    }
    guarantee
}

fn recovered(ended: &[Ended<'_>]) -> Guarantee {
    let mut guarantee = Guarantee::new("A job whose worker was lost is executed again.");
    for Ended { id, kind, job, .. } in ended {
        let Some(job) = job.as_ref().filter(|job| job.crash_count > 0 && !kind.once) else { continue };
        guarantee.exercised((job.status != Status::Succeeded).then(|| format!("{id} is {}", job.status)));
    }
    guarantee
}

fn crashes_spend_no_attempt(ended: &[Ended<'_>]) -> Guarantee {
    let mut guarantee = Guarantee::new("A lost worker spends no attempt of its jobs.");
    for Ended { id, kind, job, .. } in ended {
        let Some(job) = job.as_ref().filter(|job| job.crash_count > 0 && !kind.once) else { continue };
        let expected = kind.failures + 1;
        let problem =
            format!("{id} spent {} attempts instead of {expected}, with {} crashes", job.attempt, job.crash_count);
        guarantee.exercised((job.attempt != expected).then_some(problem));
    }
    guarantee
}

fn at_most_once(ended: &[Ended<'_>], executions: &[Execution]) -> Guarantee {
    let mut guarantee = Guarantee::new("A job with max_attempts = 1 is executed at most once.");
    let mut starts: HashMap<JobId, u64> = HashMap::new();
    for execution in executions {
        *starts.entry(execution.job).or_default() += 1;
    }
    for Ended { id, .. } in ended.iter().filter(|ended| ended.kind.once) {
        let count = starts.get(id).copied().unwrap_or(0);
        guarantee.exercised((count > 1).then(|| format!("{id} was executed {count} times")));
    }
    guarantee
}

fn suspended_change_nothing(ended: &[Ended<'_>], spans: &[Span<'_>]) -> Guarantee {
    let mut guarantee =
        Guarantee::new("A worker that was suspended past its lease cannot settle a job that another has taken.");
    let mut latest: HashMap<JobId, u32> = HashMap::new();
    for Span { execution, .. } in spans {
        let run = latest.entry(execution.job).or_default();
        *run = (*run).max(execution.run);
    }
    let attempts: HashMap<(JobId, u32), AttemptStatus> = ended
        .iter()
        .flat_map(|ended| ended.attempts.iter().map(|attempt| ((ended.id, attempt.id.run), attempt.status)))
        .collect();
    for Span { execution, interrupted, .. } in spans {
        let Execution { job, run, end, .. } = **execution;
        // The guarantee applies only if the execution continued after its process was suspended, and another worker has
        // started the job meanwhile.
        if !interrupted || end.is_none() || latest.get(&job).is_none_or(|latest| *latest == run) {
            continue;
        }
        let settled = attempts.get(&(job, run)) == Some(&AttemptStatus::Succeeded);
        guarantee.exercised(settled.then(|| format!("{job}: run {run} succeeded, and a later one began")));
    }
    guarantee
}

fn within_limits(acknowledged: &Acknowledged, spans: &[Span<'_>]) -> Guarantee {
    let mut guarantee = Guarantee::new("Concurrency limits of queues and keys are never exceeded.");
    let mut by_limit: BTreeMap<&(String, u32), Vec<&Span<'_>>> = BTreeMap::new();
    for span in spans {
        if let Some(limit) = acknowledged.get(&span.execution.job).and_then(|kind| kind.limit.as_ref()) {
            by_limit.entry(limit).or_default().push(span);
        }
    }
    for ((what, limit), spans) in by_limit {
        let mut running: Vec<u64> = Vec::new();
        for span in spans {
            running.retain(|until| *until > span.execution.start);
            running.push(span.until);
            let problem = format!("{what}: {} at once instead of {limit}", running.len());
            guarantee.exercised((running.len() > *limit as usize).then_some(problem));
        }
    }
    guarantee
}

fn not_early(ended: &[Ended<'_>]) -> Guarantee {
    let mut guarantee = Guarantee::new("No job starts before its time.");
    for Ended { id, job, .. } in ended {
        let Some((job, started)) = job.as_ref().and_then(|job| Some((job, job.started_at?))) else { continue };
        guarantee
            .exercised((started < job.run_at).then(|| format!("{id} started at {started}, before {}", job.run_at)));
    }
    guarantee
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use punctual::{
        Timestamp,
        core::{AttemptId, WorkerId},
    };

    use super::*;

    const SUSPENDED: Interruption = Interruption { process: 10, from: 150, until: 800 };

    fn execution(job: u128, run: u32, process: u32, time: Range<u64>) -> Execution {
        Execution { job: JobId::from_bits(job), run, process, start: time.start, end: Some(time.end) }
    }

    fn unfinished(job: u128, run: u32, process: u32, start: u64) -> Execution {
        Execution { job: JobId::from_bits(job), run, process, start, end: None }
    }

    #[test]
    fn two_executions_of_a_job_that_overlap_are_found() {
        let apart = [execution(1, 1, 10, 100..200), execution(1, 2, 11, 200..300)];
        assert!(one_at_a_time(&spans(&apart, &[])).held());
        let overlapping = [execution(1, 1, 10, 100..250), execution(1, 2, 11, 200..300)];
        assert_eq!(one_at_a_time(&spans(&overlapping, &[])).violations.len(), 1);
        // The process was suspended meanwhile.
        let suspended = [SUSPENDED];
        assert!(one_at_a_time(&spans(&overlapping, &suspended)).held());
    }

    #[test]
    fn an_execution_that_starts_as_its_process_is_killed_counts_as_interrupted() {
        let executions = [unfinished(1, 1, 10, 160), execution(1, 2, 11, 200..300)];
        let killed = Interruption { process: 10, from: 150, until: u64::MAX };
        assert!(one_at_a_time(&spans(&executions, &[killed])).held());
        // Another process, or an interruption long before.
        let other = [Interruption { process: 12, ..killed }, Interruption { until: 155, ..SUSPENDED }];
        assert_eq!(one_at_a_time(&spans(&executions, &other)).violations.len(), 1);
    }

    #[test]
    fn a_run_that_begins_twice_is_found_unless_its_worker_was_lost() {
        let twice = [execution(1, 1, 10, 100..200), execution(1, 1, 11, 300..400)];
        assert_eq!(one_at_a_time(&spans(&twice, &[])).violations.len(), 1);
        let lost = [unfinished(1, 1, 10, 100), execution(1, 1, 11, 300..400)];
        assert!(one_at_a_time(&spans(&lost, &[SUSPENDED])).held());
    }

    #[test]
    fn a_limit_that_is_exceeded_is_found() {
        let kind = Kind { limit: Some(("key k1".to_owned(), 1)), ..Kind::default() };
        let acknowledged: Acknowledged = [1, 2].map(|job| (JobId::from_bits(job), kind.clone())).into();
        let executions = [execution(1, 1, 10, 100..250), execution(2, 1, 11, 200..300)];
        let judged = within_limits(&acknowledged, &spans(&executions, &[]));
        assert_eq!((judged.exercised, judged.violations.len()), (2, 1));
        assert!(within_limits(&acknowledged, &spans(&executions, &[SUSPENDED])).held());
    }

    #[test]
    fn a_success_of_a_suspended_worker_whose_job_another_has_taken_is_found() {
        let (kind, id) = (Kind::default(), JobId::from_bits(1));
        let executions = [execution(1, 1, 10, 100..900), execution(1, 2, 11, 500..600)];
        let suspended = [SUSPENDED];
        let judged = |status| {
            let (worker_id, at) = (WorkerId::from_bits(7), Timestamp::from_micros(0));
            let of = AttemptId { job: id, run: 1 };
            let finished_at = Some(at);
            let attempt = Attempt { id: of, attempt: 1, status, worker_id, started_at: at, finished_at, error: None };
            let ended = [Ended { id, kind: &kind, job: None, attempts: vec![attempt] }];
            suspended_change_nothing(&ended, &spans(&executions, &suspended))
        };
        assert!(judged(AttemptStatus::Lost).held());
        assert_eq!((judged(AttemptStatus::Lost).exercised, judged(AttemptStatus::Succeeded).violated), (1, 1));
    }

    #[test]
    fn a_job_that_runs_at_most_once_and_ran_twice_is_found() {
        let kind = Kind { once: true, ..Kind::default() };
        let ended = [Ended { id: JobId::from_bits(1), kind: &kind, job: None, attempts: Vec::new() }];
        let executions = [unfinished(1, 1, 10, 100), execution(1, 2, 11, 200..300)];
        assert_eq!(at_most_once(&ended, &executions).violations.len(), 1);
        assert!(at_most_once(&ended, &executions[..1]).held());
        assert_eq!(not_lost(&ended).violations.len(), 1, "the store does not have it");
    }
}
