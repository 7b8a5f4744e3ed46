//! Administers a store directly.

use std::{ops::ControlFlow, time::Duration};

use anyhow::Result;
use async_trait::async_trait;
use punctual::{
    Admin, Draft, Enqueued, Filter, JobId, Page, Punctual, Role, Timestamp, TokenId, Verb, WorkflowId,
    admin::{
        Access, Backfilled, BulkDone, CleanupDone, CreatedToken, DurationRow, EndedAttempts, FailureReport, JobDetail,
        JobList, JobView, Overview, Preview, Put, QueueDetail, QueueView, Ran, Retention, ScheduleDetail, ScheduleList,
        SuccessRow, WorkflowDetail, WorkflowList, WorkflowRetried,
    },
    core::{Invalid, Lock, Pending, Token, WorkerRecord, explain::Explanation},
    input::{DefaultsInput, JobInput, LimitChanges, ScheduleInput, WorkflowInput},
};
use serde_json::Value;

use crate::administer::{Administer, Bounds, Waited};

/// A store, and the actor of its changes.
#[derive(Debug)]
pub(crate) struct Local {
    punctual: Punctual,
    admin: Admin,
    actor: String,
}

impl Local {
    pub(crate) fn new(punctual: Punctual, actor: String) -> Self {
        Self { admin: punctual.admin(actor.clone()), punctual, actor }
    }

    fn draft(&self, job: JobInput) -> Result<Draft, Invalid> {
        Ok(job.draft()?.created_by(self.actor.clone()))
    }
}

#[async_trait]
impl Administer for Local {
    fn location(&self) -> String {
        self.punctual.store().info().location
    }

    fn now(&self) -> Timestamp {
        self.punctual.store().now()
    }

    async fn enqueue(&self, job: JobInput) -> Result<Enqueued> {
        Ok(self.punctual.enqueue(self.draft(job)?).await?)
    }

    async fn enqueue_all(&self, jobs: Vec<JobInput>) -> Result<Vec<Enqueued>> {
        let drafts = jobs.into_iter().map(|job| self.draft(job)).collect::<Result<Vec<_>, _>>()?;
        Ok(self.punctual.enqueue_all(drafts).await?)
    }

    async fn wait(&self, id: JobId, timeout: Duration) -> Result<Waited> {
        let done = self.punctual.wait(id, timeout).await?;
        let result = done.result.as_ref().map(|result| result.as_str().to_owned());
        Ok(Waited { job: JobView::of(&done), result })
    }

    async fn jobs(&self, filter: Filter, page: Page) -> Result<JobList> {
        Ok(self.admin.jobs(filter, page).await?)
    }

    async fn job(&self, id: JobId) -> Result<JobDetail> {
        Ok(self.admin.job(id).await?)
    }

    async fn explain(&self, id: JobId) -> Result<Explanation> {
        Ok(self.admin.explain(id).await?)
    }

    async fn retry(&self, id: JobId) -> Result<()> {
        Ok(self.admin.retry(id).await?)
    }

    async fn cancel(&self, id: JobId, reason: Option<String>) -> Result<()> {
        Ok(self.admin.cancel(id, reason).await?)
    }

    async fn delete(&self, id: JobId) -> Result<()> {
        Ok(self.admin.delete(id).await?)
    }

    async fn run(&self, id: JobId) -> Result<Ran> {
        Ok(self.admin.run(id).await?)
    }

    async fn preview(&self, verb: Verb, filter: Filter) -> Result<Preview> {
        Ok(self.admin.preview(verb, filter).await?)
    }

    async fn bulk(&self, verb: Verb, filter: Filter, on_page: &mut (dyn FnMut(BulkDone) + Send)) -> Result<BulkDone> {
        let on_page = |done: BulkDone| {
            on_page(done);
            ControlFlow::Continue(())
        };
        Ok(self.admin.bulk(verb, filter, on_page).await?)
    }

    async fn submit(&self, workflow: WorkflowInput<Value>) -> Result<WorkflowId> {
        Ok(self.punctual.submit(workflow.workflow(&self.actor)?).await?)
    }

    async fn wait_workflow(&self, id: WorkflowId, timeout: Duration) -> Result<()> {
        self.punctual.wait_workflow(id, timeout).await?;
        Ok(())
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> Result<WorkflowList> {
        Ok(self.admin.workflows(before, limit).await?)
    }

    async fn workflow(&self, id: WorkflowId) -> Result<WorkflowDetail> {
        Ok(self.admin.workflow(id).await?)
    }

    async fn cancel_workflow(&self, id: WorkflowId, reason: Option<String>) -> Result<u64> {
        Ok(self.admin.cancel_workflow(id, reason).await?)
    }

    async fn retry_workflow(&self, id: WorkflowId) -> Result<WorkflowRetried> {
        Ok(self.admin.retry_workflow(id).await?)
    }

    async fn schedules(&self, after: Option<String>, limit: usize) -> Result<ScheduleList> {
        Ok(self.admin.schedules(after, limit).await?)
    }

    async fn schedule(&self, name: &str, upcoming: usize) -> Result<ScheduleDetail> {
        Ok(self.admin.schedule(name, upcoming).await?)
    }

    async fn put_schedule(&self, name: &str, schedule: ScheduleInput) -> Result<Put> {
        Ok(self.admin.put_schedule(schedule.recurring(name)?).await?)
    }

    async fn pause_schedule(&self, name: &str) -> Result<()> {
        Ok(self.admin.pause_schedule(name).await?)
    }

    async fn resume_schedule(&self, name: &str) -> Result<()> {
        Ok(self.admin.resume_schedule(name).await?)
    }

    async fn trigger_schedule(&self, name: &str) -> Result<JobId> {
        Ok(self.admin.trigger_schedule(name).await?)
    }

    async fn delete_schedule(&self, name: &str) -> Result<()> {
        Ok(self.admin.delete_schedule(name).await?)
    }

    async fn preview_backfill(&self, name: &str, (since, until): Bounds) -> Result<Vec<Timestamp>> {
        Ok(self.admin.preview_backfill(name, since, until).await?)
    }

    async fn backfill_schedule(&self, name: &str, (since, until): Bounds) -> Result<Backfilled> {
        Ok(self.admin.backfill_schedule(name, since, until).await?)
    }

    async fn queues(&self) -> Result<Vec<QueueView>> {
        Ok(self.admin.queues().await?)
    }

    async fn queue(&self, name: &str) -> Result<QueueDetail> {
        Ok(self.admin.queue(name).await?)
    }

    async fn pause_queue(&self, name: &str) -> Result<()> {
        Ok(self.admin.pause_queue(name).await?)
    }

    async fn resume_queue(&self, name: &str) -> Result<()> {
        Ok(self.admin.resume_queue(name).await?)
    }

    async fn set_queue_defaults(&self, name: &str, defaults: DefaultsInput) -> Result<()> {
        Ok(self.admin.set_queue_defaults(name, defaults.defaults()?).await?)
    }

    async fn change_queue_limits(&self, name: &str, changes: LimitChanges) -> Result<()> {
        Ok(self.admin.change_queue_limits(name, |limits| changes.apply(limits)).await?)
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        Ok(self.admin.workers().await?)
    }

    async fn locks(&self) -> Result<Vec<Lock>> {
        Ok(self.admin.locks().await?)
    }

    async fn unlock(&self, name: &str) -> Result<bool> {
        Ok(self.admin.unlock(name).await?)
    }

    async fn overview(&self) -> Result<Overview> {
        Ok(self.admin.overview().await?)
    }

    async fn failures(&self, (since, until): Bounds) -> Result<FailureReport> {
        Ok(self.admin.failures(since, until).await?)
    }

    async fn stuck(&self, longer_than: Duration) -> Result<Vec<JobView>> {
        Ok(self.admin.stuck(longer_than).await?)
    }

    async fn pending(&self) -> Result<Vec<Pending>> {
        Ok(self.admin.pending().await?)
    }

    async fn success_rates(&self, (since, until): Bounds) -> Result<Vec<SuccessRow>> {
        Ok(self.admin.success_rates(since, until).await?)
    }

    async fn durations(&self, (since, until): Bounds) -> Result<Vec<DurationRow>> {
        Ok(self.admin.durations(since, until).await?)
    }

    async fn ended_attempts(&self, (since, until): Bounds) -> Result<EndedAttempts> {
        Ok(self.admin.ended_attempts(since, until).await?)
    }

    async fn create_token(&self, name: &str, roles: &[Role], lifetime: Option<Duration>) -> Result<CreatedToken> {
        Ok(self.admin.create_token(name, roles.iter().copied(), lifetime).await?)
    }

    async fn tokens(&self) -> Result<Vec<Token>> {
        Ok(self.admin.tokens().await?)
    }

    async fn revoke_token(&self, id: TokenId, allow_last_admin: bool) -> Result<bool> {
        Ok(self.admin.revoke_token(id, allow_last_admin).await?)
    }

    async fn access(&self) -> Result<Access> {
        Ok(self.admin.access().await?)
    }

    async fn open_access(&self) -> Result<()> {
        Ok(self.admin.open_access().await?)
    }

    async fn cleanup(
        &self,
        retention: Retention,
        on_step: &mut (dyn FnMut(CleanupDone) + Send),
    ) -> Result<CleanupDone> {
        Ok(self.admin.cleanup(retention, on_step).await?)
    }
}
