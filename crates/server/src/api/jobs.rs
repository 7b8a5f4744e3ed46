//! Jobs.

use std::{ops::ControlFlow, time::Duration};

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

use super::{OfJob, PAGE_DEFAULT, Why};
use crate::{call::Call, problem::Problem, route::Nothing};

/// Default wait for a job.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Maximum wait of one request.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum number of jobs that one bulk request changes; repeat the request to change more.
const BULK_MAX_JOBS: u64 = 100_000;

/// Jobs to enqueue.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewJobs")]
pub(crate) struct Batch {
    /// The jobs. Either all of them are enqueued, or none.
    jobs: Vec<JobInput<Json>>,
}

/// Results of enqueued jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnqueuedAll {
    /// One result per job, in order.
    jobs: Vec<Enqueued>,
}

pub(crate) async fn enqueue(call: Call, _: Nothing, job: JobInput<Json>) -> Result<Enqueued, Problem> {
    let draft = job.draft()?.created_by(call.caller.name());
    let enqueued = call.enqueue(vec![draft]).await?;
    enqueued.into_iter().next().ok_or_else(|| Problem::invalid("job", "the store answered for none"))
}

pub(crate) async fn enqueue_all(call: Call, _: Nothing, Batch { jobs }: Batch) -> Result<EnqueuedAll, Problem> {
    let by = call.caller.name();
    let mut drafts = Vec::with_capacity(jobs.len());
    for (place, job) in jobs.into_iter().enumerate() {
        let draft = job
            .draft()
            .map_err(|invalid| Problem::invalid(format!("jobs[{place}].{}", invalid.field), invalid.problem))?;
        drafts.push(draft.created_by(&by));
    }
    Ok(EnqueuedAll { jobs: call.enqueue(drafts).await? })
}

/// A filter for jobs: all given conditions must match. Without conditions, all jobs that are not deleted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobQuery {
    /// Jobs with any of these statuses; may be repeated.
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
    /// Maximum number of rows.
    limit: Option<usize>,
    /// Cursor: the `next` of the previous page.
    after: Option<String>,
    /// Action of a bulk request; ignored by other requests.
    verb: Option<Verb>,
}

impl JobQuery {
    fn filter(&self) -> Filter {
        Filter {
            statuses: self.status.clone(),
            queue: self.queue.clone(),
            name: self.name.clone(),
            user_id: self.user.clone(),
            correlation_id: self.correlation.clone(),
            tag: self.tag.clone(),
            schedule: self.schedule.clone(),
            since: self.since.map(|when| when.0),
            until: self.until.map(|when| when.0),
        }
    }
}

pub(crate) async fn list(call: Call, which: JobQuery) -> Result<JobList, Problem> {
    let page = Page { limit: which.limit.unwrap_or(PAGE_DEFAULT), after: which.after.clone() };
    Ok(call.admin().jobs(which.filter(), page).await?)
}

pub(crate) async fn show(call: Call, OfJob { id }: OfJob) -> Result<JobDetail, Problem> {
    Ok(call.admin().job(id).await?)
}

pub(crate) async fn attempts(call: Call, OfJob { id }: OfJob) -> Result<Vec<Attempt>, Problem> {
    call.punctual().job(id).await?;
    Ok(call.punctual().store().history(id).await?.attempts)
}

pub(crate) async fn events(call: Call, OfJob { id }: OfJob) -> Result<Vec<Event>, Problem> {
    call.punctual().job(id).await?;
    Ok(call.punctual().store().history(id).await?.events)
}

pub(crate) async fn logs(call: Call, OfJob { id }: OfJob) -> Result<Vec<LogLine>, Problem> {
    call.punctual().job(id).await?;
    Ok(call.punctual().store().logs(id, limits::LOG_MAX_LINES).await?)
}

pub(crate) async fn explain(call: Call, OfJob { id }: OfJob) -> Result<Explanation, Problem> {
    Ok(call.admin().explain(id).await?)
}

/// A wait for a job to finish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiting {
    /// Job id.
    id: JobId,
    /// Maximum wait, such as `10s`; by default 30 seconds, at most 60 seconds.
    timeout: Option<Span>,
}

pub(crate) async fn wait(call: Call, Waiting { id, timeout }: Waiting) -> Result<JobView, Problem> {
    let timeout = timeout.map_or(WAIT_DEFAULT, |span| span.0);
    if timeout > WAIT_MAX {
        let problem = format!("must be at most {} s; to wait longer, ask again", WAIT_MAX.as_secs());
        return Err(Problem::invalid("timeout", problem));
    }
    let job = tokio::select! {
        job = call.punctual().wait(id, timeout) => job?,
        () = call.app.stopping.cancelled() => call.punctual().job(id).await?,
    };
    Ok(JobView::of(&job))
}

pub(crate) async fn retry(call: Call, OfJob { id }: OfJob, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().retry(id).await?)
}

pub(crate) async fn cancel(call: Call, OfJob { id }: OfJob, Why { reason }: Why) -> Result<(), Problem> {
    Ok(call.admin().cancel(id, reason).await?)
}

pub(crate) async fn delete(call: Call, OfJob { id }: OfJob, _: Nothing) -> Result<(), Problem> {
    Ok(call.admin().delete(id).await?)
}

/// The job that runs now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RunningJob")]
pub(crate) struct Running {
    /// Id of the job, or of the copy that was enqueued if the job had finished.
    job: JobId,
    /// Whether the job is a new copy.
    again: bool,
}

pub(crate) async fn run(call: Call, OfJob { id }: OfJob, _: Nothing) -> Result<Running, Problem> {
    Ok(match call.admin().run(id).await? {
        Ran::Itself => Running { job: id, again: false },
        Ran::Again(job) => Running { job, again: true },
    })
}

/// The action and the filter of a bulk request.
fn bulk_of(which: &JobQuery) -> Result<(Verb, Filter), Problem> {
    if which.limit.is_some() || which.after.is_some() {
        return Err(Problem::invalid("limit", "a bulk action has no pages; narrow it by the filter"));
    }
    let verb = which.verb.ok_or_else(|| Problem::invalid("verb", "is missing"))?;
    Ok((verb, which.filter()))
}

pub(crate) async fn preview(call: Call, which: JobQuery) -> Result<Preview, Problem> {
    let (verb, filter) = bulk_of(&which)?;
    Ok(call.admin().preview(verb, filter).await?)
}

pub(crate) async fn bulk(call: Call, which: JobQuery, _: Nothing) -> Result<BulkDone, Problem> {
    let (verb, filter) = bulk_of(&which)?;
    if filter == Filter::default() {
        return Err(Problem::invalid(
            "status",
            "say which jobs: by status, queue, name, user, correlation, tag, schedule, since or until",
        ));
    }
    let enough = |done: BulkDone| match done.changed + done.passed_over {
        jobs if jobs >= BULK_MAX_JOBS => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    Ok(call.admin().bulk(verb, filter, enough).await?)
}
