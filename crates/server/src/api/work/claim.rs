//! Claims of remote workers.

use std::{
    collections::{BTreeMap, HashSet},
    future,
    time::Duration,
};

use punctual_client::Failure;
use punctual_core::{
    AttemptId, Claim, ClaimRequest, Claimed, Json, LogLevel, Settlement, Store, StoreResult, Timestamp, WorkerId,
    check, limits, settle as decide, time::Span,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{LEASE_DEFAULT, check_names};
use crate::{problem::Problem, request::RequestContext, route::Nothing};

/// Maximum wait of one claim request.
const WAIT_MAX: Duration = Duration::from_secs(60);

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
    fn claim_request(self) -> Result<ClaimRequest, Problem> {
        check_names(&self.queues, &self.names)?;
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
pub(crate) struct ClaimedJobs {
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
    /// When the lease expires, unless it is extended.
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

pub(crate) async fn claim(request: RequestContext, _: Nothing, params: ClaimParams) -> Result<ClaimedJobs, Problem> {
    let (suspects, confirms) = (params.suspects, params.confirms);
    let claim_request = params.claim_request()?;
    let waits = !claim_request.wait.is_zero();
    let closed = async {
        match &request.peer {
            Some(peer) if waits => peer.closed().await,
            _ => future::pending().await,
        }
    };
    let claimed = tokio::select! {
        claimed = claimed(&**request.punctual().store(), claim_request, suspects) => claimed?,
        () = request.app.stopping.cancelled() => return Ok(ClaimedJobs::default()),
        () = closed => return Ok(ClaimedJobs::default()),
    };
    // The worker's next request may reach another server. If sharing fails, the worker may still reach this one.
    let attempts = claimed.claims.iter().map(Claim::attempt_id).collect();
    if let Err(error) = request.punctual().store().share_claims(attempts).await {
        tracing::warn!(%error, "cannot share claims with other servers yet");
    }
    let claims = if confirms { claimed.claims } else { confirmed(&request, claimed.claims).await? };
    let mut response = ClaimedJobs::default();
    for claim in claims {
        match remote(&request, &claim, confirms).await {
            Ok(job) => response.jobs.push(job),
            // The job cannot be run: the attempt fails.
            Err(failure) => end(&request, vec![decide(&claim, failure.into_outcome(), fastrand::f64())]).await,
        }
    }
    Ok(response)
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
async fn confirmed(request: &RequestContext, mut claims: Vec<Claim>) -> Result<Vec<Claim>, Problem> {
    let unconfirmed: Vec<&Claim> = claims.iter().filter(|claim| claim.job.needs_confirmation()).collect();
    let Some(worker) = unconfirmed.first().map(|claim| claim.worker) else { return Ok(claims) };
    let attempts: Vec<AttemptId> = unconfirmed.iter().map(|claim| claim.attempt_id()).collect();
    let held = match request.punctual().store().confirm(worker, attempts.clone()).await {
        Ok(held) => held,
        Err(error) => {
            end(request, claims.iter().map(|claim| Settlement::release(claim.attempt_id(), worker)).collect()).await;
            return Err(error.into());
        }
    };
    let lost: HashSet<AttemptId> = attempts.into_iter().zip(held).filter(|(_, held)| !held).map(|(id, _)| id).collect();
    claims.retain(|claim| !lost.contains(&claim.attempt_id()));
    Ok(claims)
}

/// Ends executions that never started. If that fails, their leases expire.
async fn end(request: &RequestContext, settlements: Vec<Settlement>) {
    if let Err(error) = request.punctual().store().settle(settlements).await {
        tracing::warn!(%error, "cannot settle claims that were not sent to the worker; their leases expire");
    }
}

async fn remote(request: &RequestContext, claim: &Claim, confirms: bool) -> Result<RemoteJob, Failure> {
    let (job, spec, options) = (&claim.job, &claim.job.spec, &claim.job.spec.options);
    let mut parents = BTreeMap::new();
    if options.parent_results.wanted(false) {
        for parent in request.punctual().parent_results(job.id).await? {
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
