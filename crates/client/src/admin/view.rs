//! A job as user interfaces show it.

use punctual_core::{
    Job, JobError, JobId, Json, Occurrence, OnParentFailure, Progress, RetryPolicy, Status, Timestamp, WorkerId,
    WorkflowId,
    death::{Death, reason_of_death},
    redact,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A job without its raw payload: secrets are redacted, long values are cut.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Its queue.
    pub queue: String,
    /// Its status.
    pub status: Status,
    /// Priority from 0 to 10, higher first.
    pub priority: u8,
    /// The time it was first scheduled for.
    pub scheduled_at: Timestamp,
    /// The earliest time of its next start.
    pub run_at: Timestamp,
    /// Number of attempts so far, including the current one.
    pub attempt: u32,
    /// Maximum attempts.
    pub max_attempts: u32,
    /// Number of attempts that ended because the worker was lost.
    pub crash_count: u32,
    /// Maximum number of such crashes.
    pub max_crashes: u32,
    /// Timeout per attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Retry policy.
    pub retry: RetryPolicy,
    /// The user it belongs to.
    pub user_id: Option<String>,
    /// Correlation id, shared by related jobs.
    pub correlation_id: Option<String>,
    /// The unique key that it holds or held.
    pub unique_key: Option<String>,
    /// Concurrency key: jobs of a queue with the same key share a limit.
    pub concurrency_key: Option<String>,
    /// The workflow it belongs to.
    pub workflow_id: Option<WorkflowId>,
    /// Its name in that workflow.
    pub node: Option<String>,
    /// The workflow whose callback it is.
    pub callback_of: Option<WorkflowId>,
    /// Policy when a parent becomes dead or cancelled.
    pub on_parent_failure: OnParentFailure,
    /// Tags for filters.
    pub tags: Vec<String>,
    /// The actor or service that enqueued it.
    pub created_by: Option<String>,
    /// Its parent span, as a W3C `traceparent`.
    pub trace: Option<String>,
    /// Metadata stored with the job.
    pub metadata: Option<Value>,
    /// Description.
    pub description: Option<String>,
    /// The schedule and the time of the occurrence that it was enqueued for.
    pub occurrence: Option<Occurrence>,
    /// The finished job that it repeats.
    pub rerun_of: Option<JobId>,
    /// Retention after it has finished, in milliseconds.
    pub keep_for_ms: Option<u64>,
    /// Whether it is removed when workers restart.
    pub ephemeral: bool,
    /// Number of unfinished parents.
    pub waiting_on: u32,
    /// The worker that holds it.
    pub worker_id: Option<WorkerId>,
    /// When its lease expires.
    pub lease_until: Option<Timestamp>,
    /// Its last reported progress.
    pub progress: Option<Progress>,
    /// The payload with secrets redacted.
    pub payload_preview: Value,
    /// The result with secrets redacted.
    pub result_preview: Option<Value>,
    /// The error of its last failed attempt.
    pub error: Option<JobError>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// When its last attempt started.
    pub started_at: Option<Timestamp>,
    /// When it finished.
    pub finished_at: Option<Timestamp>,
}

impl JobView {
    /// The reason why the job is dead, to follow "dead for 5 min, "; only meaningful for dead jobs.
    pub fn reason_of_death(&self) -> String {
        reason_of_death(&Death {
            error: self.error.as_ref(),
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            crash_count: self.crash_count,
            max_crashes: self.max_crashes,
            retry: self.retry.clone(),
        })
    }

    /// Creates the view of a job.
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
