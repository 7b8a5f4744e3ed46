//! A job as people may see it.

use punctual_core::{
    Job, JobError, JobId, Json, Occurrence, OnParentFailure, Progress, RetryPolicy, Status, Timestamp, WorkerId,
    WorkflowId, redact,
};
use serde::Serialize;
use serde_json::Value;

/// A job without its raw payload: secrets are redacted, long parts are cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// Where it stands.
    pub status: Status,
    /// 0 to 10, higher first.
    pub priority: u8,
    /// The time it was asked for.
    pub scheduled_at: Timestamp,
    /// When it may next start.
    pub run_at: Timestamp,
    /// Attempts spent, the current one included.
    pub attempt: u32,
    /// Attempts allowed.
    pub max_attempts: u32,
    /// Attempts that ended because the worker was lost.
    pub crash_count: u32,
    /// Crashes allowed.
    pub max_crashes: u32,
    /// How long one attempt may take.
    pub timeout_ms: u64,
    /// When it is tried again.
    pub retry: RetryPolicy,
    /// On whose behalf it runs.
    pub user_id: Option<String>,
    /// What it belongs to.
    pub correlation_id: Option<String>,
    /// The key it holds or held.
    pub unique_key: Option<String>,
    /// The key whose limit it shares.
    pub concurrency_key: Option<String>,
    /// The workflow it is part of.
    pub workflow_id: Option<WorkflowId>,
    /// The name it has there.
    pub node: Option<String>,
    /// The workflow whose end it tells.
    pub callback_of: Option<WorkflowId>,
    /// What it does when one of its parents dies or is cancelled.
    pub on_parent_failure: OnParentFailure,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Who asked for it.
    pub created_by: Option<String>,
    /// The span it continues, as a W3C `traceparent`.
    pub trace: Option<String>,
    /// What was kept with it.
    pub metadata: Option<Value>,
    /// A sentence for people.
    pub description: Option<String>,
    /// Which occurrence of which schedule it is.
    pub occurrence: Option<Occurrence>,
    /// The finished job that it repeats.
    pub rerun_of: Option<JobId>,
    /// How long it is kept once finished.
    pub keep_for_ms: Option<u64>,
    /// Whether it is dropped at restart.
    pub ephemeral: bool,
    /// Unfinished parents.
    pub waiting_on: u32,
    /// Who holds it.
    pub worker_id: Option<WorkerId>,
    /// Until when.
    pub lease_until: Option<Timestamp>,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// The payload with its secrets hidden.
    pub payload_preview: Value,
    /// The result with its secrets hidden.
    pub result_preview: Option<Value>,
    /// Why its last attempt failed.
    pub error: Option<JobError>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it came to an end.
    pub finished_at: Option<Timestamp>,
}

impl JobView {
    /// The view of a job.
    pub fn of(job: &Job) -> Self {
        let (spec, options) = (&job.spec, &job.spec.options);
        let preview = |document: &Json| redact::preview(document, &options.redact_keys);
        Self {
            id: job.id,
            name: spec.name.clone(),
            queue: spec.queue.clone(),
            status: job.status,
            priority: spec.priority,
            scheduled_at: job.scheduled_at(),
            run_at: job.run_at,
            attempt: job.attempt,
            max_attempts: spec.max_attempts,
            crash_count: job.crash_count,
            max_crashes: spec.max_crashes(),
            timeout_ms: spec.timeout.as_millis() as u64,
            retry: job.retry(),
            user_id: spec.user_id.clone(),
            correlation_id: spec.correlation_id.clone(),
            unique_key: spec.unique_key.clone(),
            concurrency_key: options.concurrency_key.clone(),
            workflow_id: spec.workflow_id,
            node: options.node.clone(),
            callback_of: options.callback_of,
            on_parent_failure: options.on_parent_failure,
            tags: options.tags.clone(),
            created_by: options.created_by.clone(),
            trace: options.trace.clone(),
            metadata: options.metadata.as_ref().and_then(|metadata| Json::of(metadata).ok()).map(|json| preview(&json)),
            description: options.description.clone(),
            occurrence: options.occurrence.clone(),
            rerun_of: options.rerun_of,
            keep_for_ms: spec.keep_for.map(|keep| keep.as_millis() as u64),
            ephemeral: spec.ephemeral,
            waiting_on: job.waiting_on,
            worker_id: job.worker_id,
            lease_until: job.lease_until,
            progress: job.progress.clone(),
            payload_preview: preview(&spec.payload),
            result_preview: job.result.as_ref().map(preview),
            error: job.error.clone(),
            created_at: job.created_at,
            updated_at: job.updated_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
        }
    }
}
