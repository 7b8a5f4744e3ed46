//! Remote workers: claim jobs, extend their leases, report progress and settle them. A claim is fenced by its attempt
//! and its worker, as claims of other workers are.

use std::{
    collections::{BTreeMap, HashSet},
    future,
    time::Duration,
};

use punctual_client::Failure;
use punctual_core::{
    AttemptId, Claim, ClaimRequest, Claimed, Heartbeat, Job, JobError, Json, LogLevel, LogLine, Outcome, Progress,
    ProgressReport, Retry, Role, Settled, Settlement, Store, StoreResult, Timestamp, WorkerId, WorkerRecord, check,
    job::cut_bytes, limits, redact, settle as decide, time::Span,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    call::Call,
    problem::{Code, Problem},
    route::Nothing,
};

/// Default lease.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// Maximum wait of one claim request.
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(crate) async fn workers(call: Call, _: Nothing) -> Result<Vec<WorkerRecord>, Problem> {
    Ok(call.admin().workers().await?)
}

/// Registers a worker and is its heartbeat. Send it every 10 seconds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignOfLife {
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

pub(crate) async fn heartbeat(call: Call, _: Nothing, sign: SignOfLife) -> Result<(), Problem> {
    let SignOfLife { worker, host, pid, queues, names, concurrency, running } = sign;
    check::word("host", &host, limits::LABEL_MAX_CHARS)?;
    check_words(&queues, &names)?;
    let registered_by = call.caller.token_id();
    let heartbeat = Heartbeat { id: worker, host, pid, queues, names, concurrency, running, registered_by };
    Ok(call.punctual().store().heartbeat(heartbeat).await?)
}

fn check_words(queues: &[String], names: &[String]) -> Result<(), Problem> {
    const WORDS_MAX: usize = 1_000;
    for (field, words, max) in [("queues", queues, limits::QUEUE_MAX_CHARS), ("names", names, limits::NAME_MAX_CHARS)] {
        if words.len() > WORDS_MAX {
            return Err(Problem::invalid(field, format!("{} of them, at most {WORDS_MAX} are allowed", words.len())));
        }
        for word in words {
            check::word(field, word, max)?;
        }
    }
    Ok(())
}

/// A request for jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClaimParams")]
pub(crate) struct ClaimParams {
    /// Id of the worker.
    worker: WorkerId,
    /// Queues to claim from; any queue if empty.
    #[serde(default)]
    queues: Vec<String>,
    /// Strict order: take from a queue only while those listed before it are empty, whatever the priority of their
    /// jobs.
    #[serde(default)]
    strict: bool,
    /// Job names to claim: those that the worker has handlers for.
    names: Vec<String>,
    /// Maximum number of jobs.
    limit: usize,
    /// Lease of the claimed jobs, such as `30s`.
    lease: Option<Span>,
    /// How long to wait if no job is ready, such as `20s`; at most 1 minute.
    wait: Option<Span>,
    /// How to handle suspects: jobs that were running when their worker was lost. They may crash their process again,
    /// so a process must not run two of them.
    #[serde(default)]
    suspects: Suspects,
    /// Whether the worker confirms starts itself, as `confirm` of a job describes. Otherwise jobs count as started when
    /// this request is answered.
    #[serde(default)]
    confirms: bool,
}

/// Which suspects a worker receives: jobs that were running when their worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Suspects {
    /// One suspect at a time, alone in its response, before other jobs.
    #[default]
    Beside,
    /// No suspects: another process claims them.
    Elsewhere,
    /// One suspect at a time, and no other jobs.
    Only,
}

impl ClaimParams {
    fn request(self) -> Result<ClaimRequest, Problem> {
        check_words(&self.queues, &self.names)?;
        if self.names.is_empty() {
            return Err(Problem::invalid(
                "names",
                "must not be empty; expected the job names that the worker has handlers for",
            ));
        }
        check::range("limit", self.limit, 1..=limits::CLAIM_MAX_JOBS)?;
        let lease = self.lease.map_or(LEASE_DEFAULT, |span| span.0);
        check::duration("lease", lease, limits::LEASE_MIN, limits::LEASE_MAX)?;
        let wait = self.wait.map_or(Duration::ZERO, |span| span.0).min(WAIT_MAX);
        Ok(ClaimRequest {
            worker: self.worker,
            queues: self.queues,
            in_order: self.strict,
            names: self.names,
            suspects: false,
            limit: self.limit,
            lease,
            ahead: Duration::ZERO,
            wait,
        })
    }
}

/// Claimed jobs.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "Claimed")]
pub(crate) struct Handed {
    /// The jobs, in the order in which to start them.
    jobs: Vec<RemoteJob>,
}

/// A claimed job to run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClaimedJob")]
pub(crate) struct RemoteJob {
    /// Id of this execution, used to extend and settle it.
    attempt_id: AttemptId,
    /// Job id.
    id: punctual_core::JobId,
    /// Job name, which selects the handler.
    name: String,
    /// Queue of the job.
    queue: String,
    /// Number of this attempt, from 1.
    attempt: u32,
    /// Maximum number of attempts.
    max_attempts: u32,
    /// Timeout of this attempt in milliseconds.
    timeout_ms: u64,
    /// JobEnd of the lease, unless it is extended.
    lease_until: Option<Timestamp>,
    /// User the job belongs to.
    user_id: Option<String>,
    /// Correlation id that related jobs share.
    correlation_id: Option<String>,
    /// Trace context to continue, as a W3C `traceparent`.
    trace: Option<String>,
    /// Trace state, as a W3C `tracestate`.
    trace_state: Option<String>,
    /// Metadata of the job.
    metadata: Option<Value>,
    /// Minimum level of log lines; lines below it are not kept.
    log_level: Option<LogLevel>,
    /// Whether the job was running when its worker was lost. Claim no other suspect (`"suspects": "elsewhere"`) before
    /// this job has ended.
    suspect: bool,
    /// Whether the job must run alone in its process: let other jobs end before it starts.
    runs_alone: bool,
    /// Whether the start must be confirmed right before the job starts, because the job does not run again if its
    /// worker is lost after that.
    confirm: bool,
    /// Payload of the job.
    payload: Json,
    /// Results of the parent jobs, by job id and by name in the workflow, if the job requests them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parents: BTreeMap<String, Option<Json>>,
}

pub(crate) async fn claim(call: Call, _: Nothing, params: ClaimParams) -> Result<Handed, Problem> {
    let (suspects, confirms) = (params.suspects, params.confirms);
    let request = params.request()?;
    let waits = !request.wait.is_zero();
    let closed = async {
        match &call.peer {
            Some(peer) if waits => peer.closed().await,
            _ => future::pending().await,
        }
    };
    let claimed = tokio::select! {
        claimed = claimed(&**call.punctual().store(), request, suspects) => claimed?,
        () = call.app.stopping.cancelled() => return Ok(Handed::default()),
        () = closed => return Ok(Handed::default()),
    };
    // The worker's next request may reach another server. If sharing fails, the worker may still reach this one.
    let attempts = claimed.claims.iter().map(Claim::attempt_id).collect();
    if let Err(error) = call.punctual().store().share_claims(attempts).await {
        tracing::warn!(%error, "cannot make claims known to other servers yet");
    }
    let claims = if confirms { claimed.claims } else { confirmed(&call, claimed.claims).await? };
    let mut handed = Handed::default();
    for claim in claims {
        match remote(&call, &claim, confirms).await {
            Ok(job) => handed.jobs.push(job),
            // The job cannot be run: the attempt fails.
            Err(failure) => end(&call, vec![decide(&claim, failure.into_outcome(), fastrand::f64())]).await,
        }
    }
    Ok(handed)
}

/// Claims jobs, or one suspect. Only the remote worker knows what else runs in its process.
async fn claimed(store: &dyn Store, request: ClaimRequest, suspects: Suspects) -> StoreResult<Claimed> {
    let one = ClaimRequest { suspects: true, limit: 1, ..request.clone() };
    match suspects {
        Suspects::Elsewhere => store.claim(request).await,
        Suspects::Only => store.claim(one).await,
        Suspects::Beside => {
            let suspect = store.claim(ClaimRequest { wait: Duration::ZERO, ..one }).await?;
            if suspect.claims.is_empty() { store.claim(request).await } else { Ok(suspect) }
        }
    }
}

/// Confirms the claims that need it, and drops those that could not be confirmed. If the store fails, all claims are
/// released.
async fn confirmed(call: &Call, mut claims: Vec<Claim>) -> Result<Vec<Claim>, Problem> {
    let unconfirmed: Vec<&Claim> = claims.iter().filter(|claim| claim.job.needs_confirmation()).collect();
    let Some(worker) = unconfirmed.first().map(|claim| claim.worker) else { return Ok(claims) };
    let attempts: Vec<AttemptId> = unconfirmed.iter().map(|claim| claim.attempt_id()).collect();
    let held = match call.punctual().store().confirm(worker, attempts.clone()).await {
        Ok(held) => held,
        Err(error) => {
            end(call, claims.iter().map(|claim| Settlement::release(claim.attempt_id(), worker)).collect()).await;
            return Err(error.into());
        }
    };
    let lost: HashSet<AttemptId> = attempts.into_iter().zip(held).filter(|(_, held)| !held).map(|(id, _)| id).collect();
    claims.retain(|claim| !lost.contains(&claim.attempt_id()));
    Ok(claims)
}

/// Ends executions that never started. If that fails, their leases expire.
async fn end(call: &Call, settlements: Vec<Settlement>) {
    if let Err(error) = call.punctual().store().settle(settlements).await {
        tracing::warn!(%error, "cannot settle jobs that are not handed out; their leases expire");
    }
}

async fn remote(call: &Call, claim: &Claim, confirms: bool) -> Result<RemoteJob, Failure> {
    let (job, spec, options) = (&claim.job, &claim.job.spec, &claim.job.spec.options);
    let mut parents = BTreeMap::new();
    if options.parent_results.wanted(false) {
        for parent in call.punctual().parent_results(job.id).await? {
            parents.extend(parent.node.map(|node| (node, parent.result.clone())));
            parents.insert(parent.id.to_string(), parent.result);
        }
    }
    Ok(RemoteJob {
        attempt_id: claim.attempt_id(),
        id: job.id,
        name: spec.name.clone(),
        queue: spec.queue.clone(),
        attempt: job.attempt,
        max_attempts: spec.max_attempts,
        timeout_ms: spec.timeout.as_millis() as u64,
        lease_until: job.lease_until,
        user_id: spec.user_id.clone(),
        correlation_id: spec.correlation_id.clone(),
        trace: options.trace.clone(),
        trace_state: options.trace_state.clone(),
        metadata: options.metadata.clone(),
        log_level: options.log_level,
        suspect: job.is_suspect(),
        runs_alone: job.runs_alone(),
        confirm: confirms && job.needs_confirmation(),
        payload: spec.payload.clone(),
        parents,
    })
}

/// A request to extend leases.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extension {
    /// Id of the worker that holds them.
    worker: WorkerId,
    /// Ids of the executions.
    attempts: Vec<AttemptId>,
    /// New lease from now on, such as `30s`.
    lease: Option<Span>,
}

/// Which leases were extended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Held {
    /// One entry per execution, in order. Stop a job whose entry is false: it was cancelled, or the worker no longer
    /// holds it.
    held: Vec<bool>,
}

pub(crate) async fn extend(
    call: Call,
    _: Nothing,
    Extension { worker, attempts, lease }: Extension,
) -> Result<Held, Problem> {
    check_count("attempts", attempts.len())?;
    let lease = lease.map_or(LEASE_DEFAULT, |span| span.0);
    check::duration("lease", lease, limits::LEASE_MIN, limits::LEASE_MAX)?;
    Ok(Held { held: call.punctual().store().extend(worker, lease, attempts).await? })
}

/// Jobs that are about to start.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Confirmation")]
pub(crate) struct Starting {
    /// Id of the worker that holds them.
    worker: WorkerId,
    /// Ids of the executions.
    attempts: Vec<AttemptId>,
}

pub(crate) async fn confirm(call: Call, _: Nothing, Starting { worker, attempts }: Starting) -> Result<Held, Problem> {
    check_count("attempts", attempts.len())?;
    Ok(Held { held: call.punctual().store().confirm(worker, attempts).await? })
}

fn check_count(field: &str, count: usize) -> Result<(), Problem> {
    let max = limits::CLAIM_MAX_JOBS;
    if count <= max {
        return Ok(());
    }
    Err(Problem::invalid(field, format!("{count} of them, at most {max} are allowed")))
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

pub(crate) async fn progress(call: Call, _: Nothing, Reports { worker, reports }: Reports) -> Result<(), Problem> {
    check_count("reports", reports.len())?;
    let now = call.punctual().store().now();
    let mut all = Vec::with_capacity(reports.len());
    for (place, report) in reports.into_iter().enumerate() {
        let numbers = 1..=limits::LOG_MAX_LINES;
        if let Some(line) = report.lines.iter().find(|line| !numbers.contains(&(line.number as usize))) {
            let problem = check::out_of_range(&(line.number as usize), &numbers);
            return Err(Problem::invalid(format!("reports[{place}].lines.number"), problem));
        }
        let (run, attempt) = (report.attempt_id.run, report.attempt_id);
        let own_keys = redact_keys(&call, &report).await?;
        let shown = |text: &str| cut_bytes(redact::text(text, &own_keys).into_owned(), limits::LOG_LINE_MAX_BYTES);
        let line = |line: RemoteLine| {
            (line.number, LogLine { run, at: line.at.unwrap_or(now), level: line.level, message: shown(&line.message) })
        };
        let message = report.message.as_deref().map(shown);
        let progress = report.percent.map(|percent| Progress { percent: percent.clamp(0.0, 100.0), message });
        all.push(ProgressReport { attempt, worker, progress, lines: report.lines.into_iter().map(line).collect() });
    }
    Ok(call.punctual().store().report_progress(all).await?)
}

/// The keys whose values are redacted in the job's messages and log lines, if the report has any.
async fn redact_keys(call: &Call, note: &RemoteReport) -> Result<Vec<String>, Problem> {
    if note.lines.is_empty() && note.message.is_none() {
        return Ok(Vec::new());
    }
    let job = call.punctual().store().get(note.attempt_id.job).await?;
    Ok(job.map(|job| job.spec.options.redact_keys).unwrap_or_default())
}

/// Outcomes of executions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JobEnds")]
pub(crate) struct Ends {
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
    /// The job asks to run again later; not a failure.
    Snoozed,
    /// The job is returned unfinished; the attempt does not count.
    Released,
}

impl JobEnd {
    fn into_outcome(self, place: usize) -> Result<Outcome, Problem> {
        let wrong = |field: &str, problem: &str| Problem::invalid(format!("jobs[{place}].{field}"), problem);
        if self.after.is_some_and(|span| span.0 > limits::DELAY_MAX) {
            return Err(wrong("after", &format!("is more than {} days", limits::DELAY_MAX.as_secs() / 86_400)));
        }
        let after = self.after.map(|span| span.0);
        Ok(match self.outcome {
            RemoteOutcome::Succeeded => {
                if let Some(result) = &self.result {
                    result
                        .check("result", limits::RESULT_MAX_BYTES)
                        .map_err(|invalid| wrong("result", &invalid.problem))?;
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
                after: after.ok_or_else(|| wrong("after", "is missing: say until when it is snoozed"))?,
            },
            RemoteOutcome::Released => Outcome::Released,
        })
    }
}

/// Which outcomes were recorded.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Settled")]
pub(crate) struct WereSettled {
    /// One entry per execution, in order: whether its outcome was recorded. False if the worker no longer held the
    /// execution.
    settled: Vec<bool>,
}

pub(crate) async fn settle(call: Call, _: Nothing, Ends { worker, jobs }: Ends) -> Result<WereSettled, Problem> {
    check_count("jobs", jobs.len())?;
    let store = call.punctual().store();
    let mut outcomes = Vec::with_capacity(jobs.len());
    for (place, end) in jobs.into_iter().enumerate() {
        outcomes.push((end.attempt_id, end.into_outcome(place)?));
    }
    let (mut settlements, mut known) = (Vec::with_capacity(outcomes.len()), Vec::with_capacity(outcomes.len()));
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
        known.push(settlement.is_some());
        settlements.extend(settlement);
    }
    let mut answers = store.settle(settlements).await?.into_iter();
    let settled = known.into_iter().map(|known| known && answers.next() == Some(Settled::Done)).collect();
    Ok(WereSettled { settled })
}

/// A worker that shuts down.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leaving {
    /// Id of the worker.
    worker: WorkerId,
}

/// Jobs that the worker still held.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LeftJobs")]
pub(crate) struct Left {
    /// Number of jobs released; other workers may run them at once.
    jobs: usize,
}

const OTHERS_WORKER: &str =
    "this worker was not registered with your token; only that token, or one with the role admin, may deregister it";

pub(crate) async fn deregister(call: Call, _: Nothing, Leaving { worker }: Leaving) -> Result<Left, Problem> {
    let store = call.punctual().store();
    if !call.caller.has(Role::Admin) {
        let own = call.caller.token_id();
        let found = store.workers().await?.into_iter().find(|known| known.heartbeat.id == worker);
        match found.map(|known| known.heartbeat.registered_by) {
            Some(registered_by) if registered_by == own => {}
            Some(_) => return Err(Problem::new(Code::Forbidden, OTHERS_WORKER)),
            // The worker was deregistered already, or never sent a heartbeat: its leases expire.
            None => return Ok(Left { jobs: 0 }),
        }
    }
    let jobs = store.end_leases(worker).await?;
    store.deregister(worker).await?;
    Ok(Left { jobs })
}
