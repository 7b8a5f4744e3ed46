//! The route of each operation.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use punctual::{
    Enqueued, Error, Filter, JobId, Page, Role, Timestamp, TokenId, Verb, WorkflowId,
    admin::{
        Access, Backfilled, BulkDone, CleanupDone, CreatedToken, DurationRow, EndedAttempts, FailureReport, JobDetail,
        JobList, JobView, Overview, Preview, Put, QueueDetail, QueueView, Ran, Retention, ScheduleDetail, ScheduleList,
        SuccessRow, WorkflowDetail, WorkflowList, WorkflowRetried, WorkflowView,
    },
    core::{Lock, Pending, Token, WorkerRecord, explain::Explanation, time::Span},
    input::{DefaultsInput, JobInput, LimitChanges, ScheduleInput, WorkflowInput},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Remote,
    http::{Call, LONG},
};
use crate::{
    administer::{Administer, Bounds, Waited},
    exit::{Refusal, ServerError, ServerErrorKind},
};

/// Maximum wait of one request.
const WAIT: Duration = Duration::from_secs(30);

/// Jobs to enqueue.
#[derive(Serialize)]
struct Batch<'a> {
    jobs: &'a [JobInput],
}

macro_rules! answers {
    ($($name:ident { $($field:ident: $type:ty),+ })*) => {
        $(
            #[derive(Deserialize)]
            struct $name { $($field: $type),+ }
        )*
    };
}

// Answers that only wrap what an operation returns.
answers! {
    EnqueuedJobs { jobs: Vec<Enqueued> }
    SubmittedWorkflow { id: WorkflowId }
    CancelledJobs { cancelled: u64 }
    StoredSchedule { put: Put }
    Occurrences { occurrences: Vec<Timestamp> }
    ReleasedLock { freed: bool }
    RevokedToken { revoked: bool }
    RunningJob { job: JobId, again: bool }
    TriggeredJob { job: JobId }
}

/// Adds the conditions of a filter.
fn filtered<'a>(call: Call<'a>, filter: &Filter) -> Call<'a> {
    let Filter { statuses, queue, name, user_id, correlation_id, tag, schedule, since, until } = filter;
    let call = statuses.iter().fold(call, |call, status| call.query("status", status));
    call.query_some("queue", queue.as_ref())
        .query_some("name", name.as_ref())
        .query_some("user", user_id.as_ref())
        .query_some("correlation", correlation_id.as_ref())
        .query_some("tag", tag.as_ref())
        .query_some("schedule", schedule.as_ref())
        .query_some("since", *since)
        .query_some("until", *until)
}

fn within(call: Call<'_>, (since, until): Bounds) -> Call<'_> {
    call.query("since", since).query("until", until)
}

impl Remote {
    /// Repeats a wait, which a server limits, until it succeeds or the time is over.
    async fn waited<T: DeserializeOwned>(&self, path: &[&str], timeout: Duration) -> Result<Option<T>, ServerError> {
        // An instant beyond the clock's range would panic.
        let deadline = Instant::now() + timeout.min(punctual::core::limits::WAIT_MAX);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = Span(Duration::from_millis(WAIT.min(left).as_millis() as u64));
            match self.http.get(path).query("timeout", wait).within(WAIT * 2).answer().await {
                Err(error) if error.kind == ServerErrorKind::WaitEnded && left.is_zero() => return Ok(None),
                Err(error) if error.kind == ServerErrorKind::WaitEnded => {}
                answer => return answer.map(Some),
            }
        }
    }
}

#[async_trait]
impl Administer for Remote {
    fn location(&self) -> String {
        self.http.server().to_owned()
    }

    fn now(&self) -> Timestamp {
        self.clock.1.after(self.clock.0.elapsed())
    }

    async fn enqueue(&self, job: JobInput) -> Result<Enqueued> {
        Ok(self.http.post(&["jobs"]).json(&job)?.once().answer().await?)
    }

    async fn enqueue_all(&self, jobs: Vec<JobInput>) -> Result<Vec<Enqueued>> {
        let call = self.http.post(&["jobs", "batch"]).json(&Batch { jobs: &jobs })?;
        Ok(call.once().within(LONG).answer::<EnqueuedJobs>().await?.jobs)
    }

    async fn wait(&self, id: JobId, timeout: Duration) -> Result<Waited> {
        let Some(job) = self.waited::<JobView>(&["jobs", &id.to_string(), "wait"], timeout).await? else {
            let (status, waited_ms) = (self.job(id).await?.job.status, timeout.as_millis() as u64);
            return Err(Error::TimedOut { job: id, status, waited_ms }.into());
        };
        let result = job.result_preview.as_ref().map(ToString::to_string);
        Ok(Waited { job, result })
    }

    async fn jobs(&self, filter: Filter, page: Page) -> Result<JobList> {
        let call = filtered(self.http.get(&["jobs"]), &filter).query("limit", page.limit);
        Ok(call.query_some("after", page.after).answer().await?)
    }

    async fn job(&self, id: JobId) -> Result<JobDetail> {
        Ok(self.http.get(&["jobs", &id.to_string()]).answer().await?)
    }

    async fn explain(&self, id: JobId) -> Result<Explanation> {
        Ok(self.http.get(&["jobs", &id.to_string(), "explain"]).answer().await?)
    }

    async fn retry(&self, id: JobId) -> Result<()> {
        Ok(self.http.post(&["jobs", &id.to_string(), "retry"]).done().await?)
    }

    async fn cancel(&self, id: JobId, reason: Option<String>) -> Result<()> {
        let call = self.http.post(&["jobs", &id.to_string(), "cancel"]);
        Ok(call.json(&json!({ "reason": reason }))?.done().await?)
    }

    async fn delete(&self, id: JobId) -> Result<()> {
        Ok(self.http.delete(&["jobs", &id.to_string()]).done().await?)
    }

    async fn run(&self, id: JobId) -> Result<Ran> {
        let RunningJob { job, again } = self.http.post(&["jobs", &id.to_string(), "run"]).answer().await?;
        Ok(if again { Ran::Again(job) } else { Ran::Itself })
    }

    async fn preview(&self, verb: Verb, filter: Filter) -> Result<Preview> {
        Ok(filtered(self.http.get(&["bulk", &verb.to_string()]), &filter).answer().await?)
    }

    async fn bulk(&self, verb: Verb, filter: Filter, on_page: &mut (dyn FnMut(BulkDone) + Send)) -> Result<BulkDone> {
        let mut total = BulkDone::default();
        loop {
            let call = filtered(self.http.post(&["bulk", &verb.to_string()]), &filter);
            let done: BulkDone = call.within(LONG).answer().await?;
            // Every request meets the skipped jobs again.
            total = BulkDone { changed: total.changed + done.changed, ..done };
            on_page(total);
            if !done.more || done.changed == 0 {
                return Ok(total);
            }
        }
    }

    async fn submit(&self, workflow: WorkflowInput<Value>) -> Result<WorkflowId> {
        let call = self.http.post(&["workflows"]).json(&workflow)?.once().within(LONG);
        Ok(call.answer::<SubmittedWorkflow>().await?.id)
    }

    async fn wait_workflow(&self, id: WorkflowId, timeout: Duration) -> Result<()> {
        self.waited::<WorkflowView>(&["workflows", &id.to_string(), "wait"], timeout).await?;
        Ok(())
    }

    async fn workflows(&self, before: Option<WorkflowId>, limit: usize) -> Result<WorkflowList> {
        let call = self.http.get(&["workflows"]).query("limit", limit);
        Ok(call.query_some("after", before).answer().await?)
    }

    async fn workflow(&self, id: WorkflowId) -> Result<WorkflowDetail> {
        Ok(self.http.get(&["workflows", &id.to_string()]).answer().await?)
    }

    async fn cancel_workflow(&self, id: WorkflowId, reason: Option<String>) -> Result<u64> {
        let call = self.http.post(&["workflows", &id.to_string(), "cancel"]).json(&json!({ "reason": reason }))?;
        Ok(call.within(LONG).answer::<CancelledJobs>().await?.cancelled)
    }

    async fn retry_workflow(&self, id: WorkflowId) -> Result<WorkflowRetried> {
        Ok(self.http.post(&["workflows", &id.to_string(), "retry"]).within(LONG).answer().await?)
    }

    async fn schedules(&self, after: Option<String>, limit: usize) -> Result<ScheduleList> {
        let call = self.http.get(&["schedules"]).query("limit", limit);
        Ok(call.query_some("after", after).answer().await?)
    }

    async fn schedule(&self, name: &str, upcoming: usize) -> Result<ScheduleDetail> {
        Ok(self.http.get(&["schedules", name]).query("upcoming", upcoming).answer().await?)
    }

    async fn put_schedule(&self, name: &str, schedule: ScheduleInput) -> Result<Put> {
        let call = self.http.put(&["schedules", name]).json(&schedule)?;
        Ok(call.answer::<StoredSchedule>().await?.put)
    }

    async fn pause_schedule(&self, name: &str) -> Result<()> {
        Ok(self.http.post(&["schedules", name, "pause"]).done().await?)
    }

    async fn resume_schedule(&self, name: &str) -> Result<()> {
        Ok(self.http.post(&["schedules", name, "resume"]).done().await?)
    }

    async fn trigger_schedule(&self, name: &str) -> Result<JobId> {
        Ok(self.http.post(&["schedules", name, "trigger"]).answer::<TriggeredJob>().await?.job)
    }

    async fn delete_schedule(&self, name: &str) -> Result<()> {
        Ok(self.http.delete(&["schedules", name]).done().await?)
    }

    async fn preview_backfill(&self, name: &str, bounds: Bounds) -> Result<Vec<Timestamp>> {
        let call = within(self.http.get(&["schedules", name, "backfill"]), bounds);
        Ok(call.answer::<Occurrences>().await?.occurrences)
    }

    async fn backfill_schedule(&self, name: &str, bounds: Bounds) -> Result<Backfilled> {
        let call = within(self.http.post(&["schedules", name, "backfill"]), bounds);
        Ok(call.within(LONG).answer().await?)
    }

    async fn queues(&self) -> Result<Vec<QueueView>> {
        Ok(self.http.get(&["queues"]).answer().await?)
    }

    async fn queue(&self, name: &str) -> Result<QueueDetail> {
        Ok(self.http.get(&["queues", name]).answer().await?)
    }

    async fn pause_queue(&self, name: &str) -> Result<()> {
        Ok(self.http.post(&["queues", name, "pause"]).done().await?)
    }

    async fn resume_queue(&self, name: &str) -> Result<()> {
        Ok(self.http.post(&["queues", name, "resume"]).done().await?)
    }

    async fn set_queue_defaults(&self, name: &str, defaults: DefaultsInput) -> Result<()> {
        Ok(self.http.put(&["queues", name, "defaults"]).json(&defaults)?.done().await?)
    }

    async fn change_queue_limits(&self, name: &str, changes: LimitChanges) -> Result<()> {
        Ok(self.http.patch(&["queues", name, "limits"]).json(&changes)?.done().await?)
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        Ok(self.http.get(&["workers"]).answer().await?)
    }

    async fn locks(&self) -> Result<Vec<Lock>> {
        Ok(self.http.get(&["locks"]).answer().await?)
    }

    async fn unlock(&self, name: &str) -> Result<bool> {
        Ok(self.http.delete(&["locks", name]).answer::<ReleasedLock>().await?.freed)
    }

    async fn overview(&self) -> Result<Overview> {
        Ok(self.http.get(&["stats"]).answer().await?)
    }

    async fn failures(&self, bounds: Bounds) -> Result<FailureReport> {
        Ok(within(self.http.get(&["reports", "failures"]), bounds).answer().await?)
    }

    async fn stuck(&self, longer_than: Duration) -> Result<Vec<JobView>> {
        Ok(self.http.get(&["reports", "stuck"]).query("longer_than", Span(longer_than)).answer().await?)
    }

    async fn pending(&self) -> Result<Vec<Pending>> {
        Ok(self.http.get(&["reports", "pending"]).answer().await?)
    }

    async fn success_rates(&self, bounds: Bounds) -> Result<Vec<SuccessRow>> {
        Ok(within(self.http.get(&["reports", "success"]), bounds).answer().await?)
    }

    async fn durations(&self, bounds: Bounds) -> Result<Vec<DurationRow>> {
        Ok(within(self.http.get(&["reports", "durations"]), bounds).answer().await?)
    }

    async fn ended_attempts(&self, bounds: Bounds) -> Result<EndedAttempts> {
        Ok(within(self.http.get(&["reports", "attempts"]), bounds).answer().await?)
    }

    async fn create_token(&self, name: &str, roles: &[Role], lifetime: Option<Duration>) -> Result<CreatedToken> {
        let body = json!({ "name": name, "roles": roles, "expires": lifetime.map(Span) });
        Ok(self.http.post(&["tokens"]).json(&body)?.answer().await?)
    }

    async fn tokens(&self) -> Result<Vec<Token>> {
        Ok(self.http.get(&["tokens"]).answer().await?)
    }

    async fn revoke_token(&self, id: TokenId, allow_last_admin: bool) -> Result<bool> {
        let call = self.http.delete(&["tokens", &id.to_string()]).query("allow_last_admin", allow_last_admin);
        Ok(call.answer::<RevokedToken>().await?.revoked)
    }

    async fn access(&self) -> Result<Access> {
        // A closed store answers only to a valid token.
        let tokens = self.tokens().await?.len();
        Ok(if tokens == 0 { Access::Open } else { Access::Closed { tokens } })
    }

    async fn open_access(&self) -> Result<()> {
        Err(Refusal("a server cannot open its store: it accepts this request only with a valid token".into()).into())
    }

    async fn cleanup(&self, _: Retention, on_step: &mut (dyn FnMut(CleanupDone) + Send)) -> Result<CleanupDone> {
        // The periods are those of the server: those of this machine may be shorter.
        let done: CleanupDone = self.http.post(&["cleanup"]).within(LONG).answer().await?;
        on_step(done);
        Ok(done)
    }
}
