//! What the commands ask for. A store answers ([`local`](crate::local)), or a server over HTTP
//! ([`remote`](crate::remote)); the commands do not know which.

use std::{fmt, time::Duration};

use anyhow::Result;
use async_trait::async_trait;
use punctual::{
    Enqueued, Filter, JobId, Page, Role, Timestamp, TokenId, Verb, WorkflowId,
    admin::{
        Access, Backfilled, BulkDone, CleanupDone, CreatedToken, DurationRow, EndedAttempts, FailureReport, JobDetail,
        JobList, JobView, Overview, Preview, Put, QueueDetail, QueueView, Ran, Retention, ScheduleDetail, ScheduleList,
        SuccessRow, WorkflowDetail, WorkflowList, WorkflowRetried,
    },
    core::{
        Lock, Pending, Token, WorkerRecord,
        explain::Explanation,
        queue::{check_pattern, fits},
    },
    input::{DefaultsInput, JobInput, LimitChanges, ScheduleInput, WorkflowInput},
};
use serde_json::Value;

/// From an instant up to another.
pub(crate) type Bounds = (Timestamp, Timestamp);

/// A job that was waited for.
#[derive(Debug)]
pub(crate) struct Waited {
    pub(crate) job: JobView,
    /// Its result as JSON; over HTTP, with secrets redacted.
    pub(crate) result: Option<String>,
}

/// The operations of all commands that administer.
#[async_trait]
pub(crate) trait Administer: fmt::Debug + Send + Sync {
    /// The location of the store without secrets, or the URL of the server.
    fn location(&self) -> String;
    /// The current time by the clock of the store; also while the store does not answer.
    fn now(&self) -> Timestamp;

    async fn enqueue(&self, job: JobInput) -> Result<Enqueued>;
    /// Enqueues all of them or, if one is refused, none.
    async fn enqueue_all(&self, jobs: Vec<JobInput>) -> Result<Vec<Enqueued>>;
    /// Waits until the job has finished.
    async fn wait(&self, id: JobId, timeout: Duration) -> Result<Waited>;

    async fn jobs(&self, filter: Filter, page: Page) -> Result<JobList>;
    async fn job(&self, id: JobId) -> Result<JobDetail>;
    async fn explain(&self, id: JobId) -> Result<Explanation>;
    async fn retry(&self, id: JobId) -> Result<()>;
    async fn cancel(&self, id: JobId, reason: Option<String>) -> Result<()>;
    async fn delete(&self, id: JobId) -> Result<()>;
    async fn run(&self, id: JobId) -> Result<Ran>;
    async fn preview(&self, verb: Verb, filter: Filter) -> Result<Preview>;
    /// Applies `verb` to all jobs that match; `on_page` receives the number of jobs done so far.
    async fn bulk(&self, verb: Verb, filter: Filter, on_page: &mut (dyn FnMut(BulkDone) + Send)) -> Result<BulkDone>;

    async fn submit(&self, workflow: WorkflowInput<Value>) -> Result<WorkflowId>;
    /// Waits until all jobs of the workflow have finished, at most for `timeout`.
    async fn wait_workflow(&self, id: WorkflowId, timeout: Duration) -> Result<()>;
    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> Result<WorkflowList>;
    async fn workflow(&self, id: WorkflowId) -> Result<WorkflowDetail>;
    async fn cancel_workflow(&self, id: WorkflowId, reason: Option<String>) -> Result<u64>;
    async fn retry_workflow(&self, id: WorkflowId) -> Result<WorkflowRetried>;

    async fn schedules(&self, after: Option<String>, limit: usize) -> Result<ScheduleList>;
    async fn schedule(&self, name: &str, upcoming: usize) -> Result<ScheduleDetail>;
    async fn put_schedule(&self, name: &str, schedule: ScheduleInput) -> Result<Put>;
    async fn pause_schedule(&self, name: &str) -> Result<()>;
    async fn resume_schedule(&self, name: &str) -> Result<()>;
    async fn trigger_schedule(&self, name: &str) -> Result<JobId>;
    async fn delete_schedule(&self, name: &str) -> Result<()>;
    async fn preview_backfill(&self, name: &str, bounds: Bounds) -> Result<Vec<Timestamp>>;
    async fn backfill_schedule(&self, name: &str, bounds: Bounds) -> Result<Backfilled>;

    async fn queues(&self) -> Result<Vec<QueueView>>;
    async fn queue(&self, name: &str) -> Result<QueueDetail>;
    async fn pause_queue(&self, name: &str) -> Result<()>;
    async fn resume_queue(&self, name: &str) -> Result<()>;
    async fn set_queue_defaults(&self, name: &str, defaults: DefaultsInput) -> Result<()>;
    async fn change_queue_limits(&self, name: &str, changes: LimitChanges) -> Result<()>;
    /// The existing queues whose names match a pattern: `*` matches any text, `?` any one character.
    async fn matching_queues(&self, pattern: &str) -> Result<Vec<String>> {
        check_pattern(pattern)?;
        let names = self.queues().await?.into_iter().map(|queue| queue.name);
        Ok(names.filter(|name| fits(pattern, name)).collect())
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>>;
    async fn locks(&self) -> Result<Vec<Lock>>;
    /// Releases a lock of any owner; returns whether it was held.
    async fn unlock(&self, name: &str) -> Result<bool>;

    async fn overview(&self) -> Result<Overview>;
    async fn failures(&self, bounds: Bounds) -> Result<FailureReport>;
    async fn stuck(&self, longer_than: Duration) -> Result<Vec<JobView>>;
    async fn pending(&self) -> Result<Vec<Pending>>;
    async fn success_rates(&self, bounds: Bounds) -> Result<Vec<SuccessRow>>;
    async fn durations(&self, bounds: Bounds) -> Result<Vec<DurationRow>>;
    async fn ended_attempts(&self, bounds: Bounds) -> Result<EndedAttempts>;

    async fn create_token(&self, name: &str, roles: &[Role], lifetime: Option<Duration>) -> Result<CreatedToken>;
    async fn tokens(&self) -> Result<Vec<Token>>;
    /// Revokes a token; returns whether it was valid.
    async fn revoke_token(&self, id: TokenId, allow_last_admin: bool) -> Result<bool>;
    async fn access(&self) -> Result<Access>;
    async fn open_access(&self) -> Result<()>;

    /// Runs retention to its end, with these periods, or with those of the server; `on_step` receives the totals.
    async fn cleanup(&self, retention: Retention, on_step: &mut (dyn FnMut(CleanupDone) + Send))
    -> Result<CleanupDone>;
}
