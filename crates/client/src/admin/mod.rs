//! Operations for operators. All user interfaces go through this service; none shows a raw payload.

mod bulk;
mod explain;
mod queues;
mod report;
mod schedules;
mod tokens;
mod upkeep;
mod view;
mod workflows;

use std::collections::BTreeMap;

use punctual_core::{
    Attempt, Change, Changed, Error, Event, Filter, History, JobId, Lock, LogLine, Page, Relative, Spec, Status, Verb,
    WorkerRecord, check, limits,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::schedules::{PutRequest, decide_put, put};
pub use self::{
    bulk::{BulkDone, Preview},
    queues::{QueueDetail, QueueView},
    report::{DurationRow, EndedAttempts, FailureReport, SuccessRow},
    schedules::{Backfilled, Put, ScheduleDetail, ScheduleList, ScheduleView},
    tokens::{Access, CreatedToken, check_secret, hash_secret},
    upkeep::{CleanupDone, Retention},
    view::JobView,
    workflows::{WorkflowDetail, WorkflowList, WorkflowRetried, WorkflowView, is_callback},
};
use crate::{Draft, Punctual};

/// The admin service: see `Punctual::admin`.
#[derive(Debug, Clone)]
pub struct Admin {
    punctual: Punctual,
    actor: String,
}

/// Job and worker counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overview {
    /// Number of jobs by status, with an entry for every status.
    pub jobs: BTreeMap<Status, u64>,
    /// Number of jobs by queue and status, without entries for zero.
    pub queues: BTreeMap<String, BTreeMap<Status, u64>>,
    /// Number of jobs by name and status, without entries for zero.
    pub names: BTreeMap<String, BTreeMap<Status, u64>>,
    /// Number of live workers.
    pub workers: u64,
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobView>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A job with its attempts, events and logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JobDetail {
    /// The job.
    pub job: JobView,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// Its events.
    pub events: Vec<Event>,
    /// The log lines of its attempts.
    pub logs: Vec<LogLine>,
    /// Its parents: the jobs that it depends on; at most the first hundred.
    pub parents: Vec<Relative>,
    /// Its children: the jobs that depend on it; at most the first hundred.
    pub children: Vec<Relative>,
}

/// Maximum number of parents, and of children, in a job's detail.
pub const RELATIVES_SHOWN: usize = 100;

/// The result of [`Admin::run`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ran {
    /// The job itself may start now.
    Itself,
    /// The job had finished: a new job that refers to it was enqueued.
    Again(JobId),
}

impl Admin {
    pub(crate) fn new(punctual: Punctual, actor: String) -> Self {
        let actor = actor.replace('\0', "\u{fffd}").chars().take(limits::LABEL_MAX_CHARS).collect();
        Self { punctual, actor }
    }

    /// Returns the number of jobs and workers.
    pub async fn overview(&self) -> Result<Overview, Error> {
        let mut overview = Overview {
            jobs: Status::ALL.into_iter().map(|status| (status, 0)).collect(),
            queues: BTreeMap::new(),
            names: BTreeMap::new(),
            workers: 0,
        };
        for count in self.punctual.store().counts().await? {
            *overview.jobs.entry(count.status).or_default() += count.count;
            *overview.queues.entry(count.queue).or_default().entry(count.status).or_default() += count.count;
            *overview.names.entry(count.name).or_default().entry(count.status).or_default() += count.count;
        }
        let now = self.punctual.store().now();
        let workers = self.workers().await?;
        overview.workers = workers.iter().filter(|worker| is_live(worker, now)).count() as u64;
        Ok(overview)
    }

    /// Returns a page of the jobs that match `filter`.
    pub async fn jobs(&self, mut filter: Filter, page: Page) -> Result<JobList, Error> {
        page.check()?;
        // A status that is given twice must not be listed twice.
        filter.statuses.sort_unstable();
        filter.statuses.dedup();
        let found = self.punctual.store().list(filter, page).await?;
        Ok(JobList { jobs: found.jobs.iter().map(JobView::of).collect(), next: found.next })
    }

    /// Returns a job with its attempts, events and logs.
    pub async fn job(&self, id: JobId) -> Result<JobDetail, Error> {
        let store = self.punctual.store();
        let job = JobView::of(&self.punctual.job(id).await?);
        let History { events, attempts } = store.history(id).await?;
        let logs = store.logs(id, limits::LOG_MAX_LINES).await?;
        let (mut parents, children) = (store.parents(id).await?, store.children(id, RELATIVES_SHOWN).await?);
        // Unfinished parents first.
        parents.sort_by_key(|parent| (parent.status.is_finished(), parent.id));
        parents.truncate(RELATIVES_SHOWN);
        Ok(JobDetail { job, attempts, events, logs, parents, children })
    }

    /// Retries a dead job, or makes a retrying job available now.
    pub async fn retry(&self, id: JobId) -> Result<(), Error> {
        self.change(id, Verb::Retry, None).await
    }

    /// Cancels a job. If it is running, its handler receives the stop signal.
    pub async fn cancel(&self, id: JobId, reason: Option<String>) -> Result<(), Error> {
        self.change(id, Verb::Cancel, reason).await
    }

    /// Marks a job as deleted; retention removes it later.
    pub async fn delete(&self, id: JobId) -> Result<(), Error> {
        self.change(id, Verb::Delete, None).await
    }

    /// Makes a waiting job available now. For a succeeded, cancelled or deleted job, enqueues a copy instead.
    pub async fn run(&self, id: JobId) -> Result<Ran, Error> {
        let job = self.punctual.job(id).await?;
        if !matches!(job.status, Status::Succeeded | Status::Cancelled | Status::Deleted) {
            return self.change(id, Verb::RunNow, None).await.map(|()| Ran::Itself);
        }
        // The old job may still hold its unique key, and the copy must not conflict with it: only the work is repeated.
        let mut spec = Spec { unique_key: None, ..job.spec };
        spec.options.unique = None;
        // The copy is not part of the old job's workflow; `workflows retry` is for that.
        (spec.workflow_id, spec.options.node, spec.options.callback_of) = (None, None, None);
        spec.options.rerun_of = Some(id);
        if let Some(trace) = self.punctual.trace_now() {
            trace.write(&mut spec.options);
        }
        spec.options.created_by = Some(self.actor.clone());
        Ok(Ran::Again(self.punctual.enqueue(Draft::of(spec)).await?.id))
    }

    /// Returns all registered workers.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, Error> {
        Ok(self.punctual.store().workers().await?)
    }

    /// Returns all locks that are held.
    pub async fn locks(&self) -> Result<Vec<Lock>, Error> {
        Ok(self.punctual.store().locks().await?)
    }

    /// Releases a lock of any owner; returns whether it was held.
    pub async fn unlock(&self, name: &str) -> Result<bool, Error> {
        check::name("lock", name, limits::LABEL_MAX_CHARS)?;
        let held = self.locks().await?.into_iter().find(|lock| lock.name == name);
        match held {
            Some(lock) => Ok(self.punctual.store().unlock(lock.name, lock.owner).await?),
            None => Ok(false),
        }
    }

    async fn change(&self, job: JobId, verb: Verb, reason: Option<String>) -> Result<(), Error> {
        if let Some(reason) = &reason {
            check::text("reason", reason, limits::DESCRIPTION_MAX_CHARS)?;
        }
        let change = Change { job, verb, actor: self.actor.clone(), reason };
        let answers = self.punctual.store().change(vec![change]).await?;
        match answers.into_iter().next() {
            Some(Changed::Refused(refused)) => Err(refused.into()),
            Some(Changed::NotFound) | None => Err(Error::NotFound(job)),
            Some(Changed::Done | Changed::Already) => Ok(()),
        }
    }
}

/// Whether a worker has sent a heartbeat within the last 30 s.
pub fn is_live(worker: &WorkerRecord, now: punctual_core::Timestamp) -> bool {
    const SILENT_MAX: std::time::Duration = std::time::Duration::from_secs(30);
    now.since(worker.seen_at) <= SILENT_MAX
}
