//! Jobs.

use std::ops::ControlFlow;

use punctual_client::{
    admin::{BulkDone, JobDetail, JobList, JobView, Preview, Ran},
    input::JobInput,
};
use punctual_core::{
    Attempt, Enqueued, Event, Filter, JobId, Json, LogLine, Page, Status, Verb,
    explain::Explanation,
    limits,
    time::{Span, When},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ActionReason, OfJob, PAGE_DEFAULT, wait_time};
use crate::{problem::Problem, request::RequestContext, route::Nothing};

/// Maximum number of jobs that one bulk request changes; repeat the request to change more.
const BULK_MAX_JOBS: u64 = 100_000;

/// Jobs to enqueue.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJobs {
    /// The jobs. Either all of them are enqueued, or none.
    jobs: Vec<JobInput<Json>>,
}

/// Results of enqueued jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnqueuedAll {
    /// One result per job, in order.
    jobs: Vec<Enqueued>,
}

pub(crate) async fn enqueue(request: RequestContext, _: Nothing, job: JobInput<Json>) -> Result<Enqueued, Problem> {
    let draft = job.draft()?.created_by(request.caller.name());
    let enqueued = request.enqueue(vec![draft]).await?;
    enqueued.into_iter().next().ok_or_else(|| Problem::invalid("job", "the store returned no result"))
}

pub(crate) async fn enqueue_all(
    request: RequestContext,
    _: Nothing,
    NewJobs { jobs }: NewJobs,
) -> Result<EnqueuedAll, Problem> {
    let created_by = request.caller.name();
    let mut drafts = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        let draft = job
            .draft()
            .map_err(|invalid| Problem::invalid(format!("jobs[{index}].{}", invalid.field), invalid.problem))?;
        drafts.push(draft.created_by(&created_by));
    }
    Ok(EnqueuedAll { jobs: request.enqueue(drafts).await? })
}

/// Declares the parameters of a request about jobs: its own ones, and between them the conditions of a filter.
macro_rules! with_filter {
    ($(#[$attribute:meta])* $query:ident { $($before:tt)* } { $($after:tt)* }) => {
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        $(#[$attribute])*
        pub(crate) struct $query {
            $($before)*
            /// Jobs with any of these statuses; may be repeated.
            #[serde(default)]
            status: Vec<Status>,
            /// Jobs of this queue.
            queue: Option<String>,
            /// Jobs with this name.
            name: Option<String>,
            /// Jobs of this user.
            user: Option<String>,
            /// Jobs with this correlation id.
            correlation: Option<String>,
            /// Jobs with this tag.
            tag: Option<String>,
            /// Jobs of this schedule.
            schedule: Option<String>,
            /// Start of the period, inclusive.
            since: Option<When>,
            /// End of the period, exclusive.
            until: Option<When>,
            $($after)*
        }

        impl $query {
            fn into_filter(self) -> Filter {
                Filter {
                    statuses: self.status,
                    queue: self.queue,
                    name: self.name,
                    user_id: self.user,
                    correlation_id: self.correlation,
                    tag: self.tag,
                    schedule: self.schedule,
                    since: self.since.map(|when| when.0),
                    until: self.until.map(|when| when.0),
                }
            }
        }
    };
}

with_filter! {
    /// A filter for jobs, and the page of the list: all given conditions must match. Without conditions, all jobs that
    /// are not deleted.
    #[derive(Default)]
    #[serde(default)]
    JobQuery {} {
        /// Maximum number of rows.
        limit: Option<usize>,
        /// Cursor: the `next` of the previous page.
        after: Option<String>,
    }
}

with_filter! {
    /// An action on all jobs that match a filter.
    BulkQuery {
        /// The action.
        verb: Verb,
    } {}
}

pub(crate) async fn list(request: RequestContext, mut query: JobQuery) -> Result<JobList, Problem> {
    let page = Page { limit: query.limit.unwrap_or(PAGE_DEFAULT), after: query.after.take() };
    Ok(request.admin().jobs(query.into_filter(), page).await?)
}

pub(crate) async fn show(request: RequestContext, OfJob { id }: OfJob) -> Result<JobDetail, Problem> {
    Ok(request.admin().job(id).await?)
}

pub(crate) async fn attempts(request: RequestContext, OfJob { id }: OfJob) -> Result<Vec<Attempt>, Problem> {
    request.punctual().job(id).await?;
    Ok(request.punctual().store().history(id).await?.attempts)
}

pub(crate) async fn events(request: RequestContext, OfJob { id }: OfJob) -> Result<Vec<Event>, Problem> {
    request.punctual().job(id).await?;
    Ok(request.punctual().store().history(id).await?.events)
}

pub(crate) async fn logs(request: RequestContext, OfJob { id }: OfJob) -> Result<Vec<LogLine>, Problem> {
    request.punctual().job(id).await?;
    Ok(request.punctual().store().logs(id, limits::LOG_MAX_LINES).await?)
}

pub(crate) async fn explain(request: RequestContext, OfJob { id }: OfJob) -> Result<Explanation, Problem> {
    Ok(request.admin().explain(id).await?)
}

/// A wait for a job to finish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitParams {
    /// Job id.
    id: JobId,
    /// Maximum wait, such as `10s`; by default 30 seconds, at most 60 seconds.
    timeout: Option<Span>,
}

pub(crate) async fn wait(request: RequestContext, WaitParams { id, timeout }: WaitParams) -> Result<JobView, Problem> {
    let timeout = wait_time(timeout)?;
    let job = tokio::select! {
        job = request.punctual().wait(id, timeout) => job?,
        () = request.app.stopping.cancelled() => request.punctual().job(id).await?,
    };
    Ok(JobView::of(&job))
}

pub(crate) async fn retry(request: RequestContext, OfJob { id }: OfJob, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().retry(id).await?)
}

pub(crate) async fn cancel(
    request: RequestContext,
    OfJob { id }: OfJob,
    ActionReason { reason }: ActionReason,
) -> Result<(), Problem> {
    Ok(request.admin().cancel(id, reason).await?)
}

pub(crate) async fn delete(request: RequestContext, OfJob { id }: OfJob, _: Nothing) -> Result<(), Problem> {
    Ok(request.admin().delete(id).await?)
}

/// The job that runs now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunningJob {
    /// Id of the job, or of the copy that was enqueued if the job had finished.
    job: JobId,
    /// Whether the job is a new copy.
    again: bool,
}

pub(crate) async fn run(request: RequestContext, OfJob { id }: OfJob, _: Nothing) -> Result<RunningJob, Problem> {
    Ok(match request.admin().run(id).await? {
        Ran::Itself => RunningJob { job: id, again: false },
        Ran::Again(job) => RunningJob { job, again: true },
    })
}

pub(crate) async fn preview(request: RequestContext, query: BulkQuery) -> Result<Preview, Problem> {
    Ok(request.admin().preview(query.verb, query.into_filter()).await?)
}

pub(crate) async fn bulk(request: RequestContext, query: BulkQuery, _: Nothing) -> Result<BulkDone, Problem> {
    let (verb, filter) = (query.verb, query.into_filter());
    if filter == Filter::default() {
        return Err(Problem::invalid(
            "status",
            "a bulk action needs a filter; expected status, queue, name, user, correlation, tag, schedule, since or until",
        ));
    }
    let stop_at_max = |done: BulkDone| match done.changed + done.skipped {
        jobs if jobs >= BULK_MAX_JOBS => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    Ok(request.admin().bulk(verb, filter, stop_at_max).await?)
}
