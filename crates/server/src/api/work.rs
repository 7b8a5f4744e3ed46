//! Remote workers: claim jobs, extend their leases, report progress and settle them. A claim is fenced by its attempt
//! and its worker, as claims of other workers are.

mod claim;
mod settle;

use std::time::Duration;

use punctual_core::{
    AttemptId, Heartbeat, LogLevel, LogLine, Progress, ProgressReport, Role, Timestamp, WorkerId, WorkerRecord, check,
    job::cut_bytes, limits, redact, time::Span,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::{claim::claim, settle::settle};
use crate::{
    problem::{Code, Problem},
    request::RequestContext,
    route::Nothing,
};

/// Default lease.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);

pub(crate) async fn workers(request: RequestContext, _: Nothing) -> Result<Vec<WorkerRecord>, Problem> {
    Ok(request.admin().workers().await?)
}

/// A heartbeat of a worker; the first one registers the worker. Send one every 10 seconds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerHeartbeat {
    /// Worker id: `wrk_` and 32 random hexadecimal digits, new for each start of the worker.
    worker: WorkerId,
    /// Host name of its machine.
    host: String,
    /// Process id.
    #[serde(default)]
    pid: u32,
    /// Queues it works on; all queues if empty.
    #[serde(default)]
    queues: Vec<String>,
    /// Job names it has handlers for.
    names: Vec<String>,
    /// Maximum concurrent jobs.
    concurrency: u32,
    /// Number of jobs it runs now.
    #[serde(default)]
    running: u32,
}

pub(crate) async fn heartbeat(request: RequestContext, _: Nothing, params: WorkerHeartbeat) -> Result<(), Problem> {
    let WorkerHeartbeat { worker, host, pid, queues, names, concurrency, running } = params;
    check::name("host", &host, limits::LABEL_MAX_CHARS)?;
    check_names(&queues, &names)?;
    let registered_by = request.caller.token_id();
    let heartbeat = Heartbeat { id: worker, host, pid, queues, names, concurrency, running, registered_by };
    Ok(request.punctual().store().heartbeat(heartbeat).await?)
}

fn check_names(queues: &[String], names: &[String]) -> Result<(), Problem> {
    const COUNT_MAX: usize = 1_000;
    for (field, values, max) in [("queues", queues, limits::QUEUE_MAX_CHARS), ("names", names, limits::NAME_MAX_CHARS)]
    {
        if values.len() > COUNT_MAX {
            return Err(Problem::invalid(
                field,
                format!("must have at most {COUNT_MAX} entries, not {}", values.len()),
            ));
        }
        for value in values {
            check::name(field, value, max)?;
        }
    }
    Ok(())
}

/// A request to extend leases.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeaseExtension {
    /// Id of the worker that holds them.
    worker: WorkerId,
    /// Ids of the executions.
    attempts: Vec<AttemptId>,
    /// New lease from now on, such as `30s`.
    lease: Option<Span>,
}

/// Which executions the worker still holds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeldClaims {
    /// One entry per execution, in order. Stop a job whose entry is false: it was cancelled, or the worker no longer
    /// holds it.
    held: Vec<bool>,
}

pub(crate) async fn extend(
    request: RequestContext,
    _: Nothing,
    LeaseExtension { worker, attempts, lease }: LeaseExtension,
) -> Result<HeldClaims, Problem> {
    check_count("attempts", attempts.len())?;
    let lease = lease.map_or(LEASE_DEFAULT, |span| span.0);
    check::duration("lease", lease, limits::LEASE_MIN, limits::LEASE_MAX)?;
    Ok(HeldClaims { held: request.punctual().store().extend(worker, lease, attempts).await? })
}

/// Jobs that are about to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Confirmation {
    /// Id of the worker that holds them.
    worker: WorkerId,
    /// Ids of the executions.
    attempts: Vec<AttemptId>,
}

pub(crate) async fn confirm(
    request: RequestContext,
    _: Nothing,
    Confirmation { worker, attempts }: Confirmation,
) -> Result<HeldClaims, Problem> {
    check_count("attempts", attempts.len())?;
    Ok(HeldClaims { held: request.punctual().store().confirm(worker, attempts).await? })
}

fn check_count(field: &str, count: usize) -> Result<(), Problem> {
    let max = limits::CLAIM_MAX_JOBS;
    if count <= max {
        return Ok(());
    }
    Err(Problem::invalid(field, format!("must have at most {max} entries, not {count}")))
}

/// Progress and log lines of running jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JobReports")]
pub(crate) struct Reports {
    /// Id of the worker that runs them.
    worker: WorkerId,
    /// One report per attempt.
    reports: Vec<RemoteReport>,
}

/// Progress and log lines of a running job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JobReport")]
pub(crate) struct RemoteReport {
    /// Id of the execution.
    attempt_id: AttemptId,
    /// Progress in percent, 0 to 100.
    percent: Option<f32>,
    /// Status message of the job.
    message: Option<String>,
    /// New log lines.
    #[serde(default)]
    lines: Vec<RemoteLine>,
}

/// A log line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewLogLine")]
pub(crate) struct RemoteLine {
    /// Number of the line, from 1. A line that is sent again with the same time is stored once.
    number: u32,
    /// Time of the line.
    at: Option<Timestamp>,
    /// Level of the line; by default `info`.
    #[serde(default)]
    level: LogLevel,
    /// The text.
    message: String,
}

pub(crate) async fn progress(
    request: RequestContext,
    _: Nothing,
    Reports { worker, reports }: Reports,
) -> Result<(), Problem> {
    check_count("reports", reports.len())?;
    let now = request.punctual().store().now();
    let mut all = Vec::with_capacity(reports.len());
    for (index, report) in reports.into_iter().enumerate() {
        let numbers = 1..=limits::LOG_MAX_LINES;
        if let Some(line) = report.lines.iter().find(|line| !numbers.contains(&(line.number as usize))) {
            let problem = check::out_of_range(&(line.number as usize), &numbers);
            return Err(Problem::invalid(format!("reports[{index}].lines.number"), problem));
        }
        let (run, attempt) = (report.attempt_id.run, report.attempt_id);
        let own_keys = redact_keys(&request, &report).await?;
        let shown = |text: &str| cut_bytes(redact::text(text, &own_keys).into_owned(), limits::LOG_LINE_MAX_BYTES);
        let line = |line: RemoteLine| {
            (line.number, LogLine { run, at: line.at.unwrap_or(now), level: line.level, message: shown(&line.message) })
        };
        let message = report.message.as_deref().map(shown);
        let progress = report.percent.map(|percent| Progress { percent: percent.clamp(0.0, 100.0), message });
        all.push(ProgressReport { attempt, worker, progress, lines: report.lines.into_iter().map(line).collect() });
    }
    Ok(request.punctual().store().report_progress(all).await?)
}

/// The keys whose values are redacted in the job's messages and log lines, if the report has any.
async fn redact_keys(request: &RequestContext, report: &RemoteReport) -> Result<Vec<String>, Problem> {
    if report.lines.is_empty() && report.message.is_none() {
        return Ok(Vec::new());
    }
    let job = request.punctual().store().get(report.attempt_id.job).await?;
    Ok(job.map(|job| job.spec.options.redact_keys).unwrap_or_default())
}

/// A worker that shuts down.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Deregistration {
    /// Id of the worker.
    worker: WorkerId,
}

/// Jobs that the worker still held.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Deregistered {
    /// Number of leases ended: jobs that the worker still held, which are lost executions.
    jobs: usize,
}

const REGISTERED_BY_OTHER: &str =
    "this worker was not registered with your token; only that token, or one with the role admin, may deregister it";

pub(crate) async fn deregister(
    request: RequestContext,
    _: Nothing,
    Deregistration { worker }: Deregistration,
) -> Result<Deregistered, Problem> {
    let store = request.punctual().store();
    if !request.caller.has(Role::Admin) {
        let own = request.caller.token_id();
        let found = store.workers().await?.into_iter().find(|record| record.heartbeat.id == worker);
        match found.map(|record| record.heartbeat.registered_by) {
            Some(registered_by) if registered_by == own => {}
            Some(_) => return Err(Problem::new(Code::Forbidden, REGISTERED_BY_OTHER)),
            // The worker was deregistered already, or never sent a heartbeat: its leases expire.
            None => return Ok(Deregistered { jobs: 0 }),
        }
    }
    let jobs = store.end_leases(worker).await?;
    store.deregister(worker).await?;
    Ok(Deregistered { jobs })
}
