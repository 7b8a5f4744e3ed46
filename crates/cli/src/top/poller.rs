//! Reads a snapshot of the store, with queries whose cost does not grow with the number of jobs.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use punctual::{
    Filter, Page, Status, Timestamp,
    admin::{JobView, QueueView, is_live},
    core::measure::hour,
};
use tokio::sync::Mutex;

use super::{
    rates::Totals,
    snapshot::{JobRows, Oldest, QueueRow, Snapshot, Workers},
    state::{Details, Subject},
};
use crate::{
    administer::{Administer, Bounds},
    commands::{queues, show},
};

/// Maximum number of jobs in a list.
pub(crate) const JOBS_MAX: usize = 100;
/// Maximum number of queues whose oldest job is queried.
const OLDEST_MAX_QUEUES: usize = 50;
/// Counters of an hour may still be updated until this long after its end.
const LATE: Duration = Duration::from_secs(3_600);

/// Reads snapshots and details from the store.
#[derive(Debug)]
pub(crate) struct Poller {
    admin: Box<dyn Administer>,
    ended: Mutex<Option<Ended>>,
}

/// Cached counts of attempts that ended in past hours, so that the cost of a snapshot does not grow with the time that
/// `top` runs.
#[derive(Debug, Clone, Copy)]
struct Ended {
    closed: Totals,
    closed_until: Timestamp,
}

impl Poller {
    pub(crate) fn new(admin: Box<dyn Administer>) -> Self {
        Self { admin, ended: Mutex::default() }
    }

    pub(crate) fn admin(&self) -> &dyn Administer {
        &*self.admin
    }

    /// The location of the store without secrets, or the URL of the server.
    pub(crate) fn location(&self) -> String {
        self.admin.location()
    }

    /// The store's clock, which works also while the store does not answer.
    pub(crate) fn now(&self) -> Timestamp {
        self.admin.now()
    }

    /// Reads a snapshot. `around` is the index of the selected queue: if there are very many, those near it are
    /// queried.
    pub(crate) async fn snapshot(&self, around: usize) -> Result<Snapshot> {
        let views = self.admin.queues().await?;
        let mut jobs: BTreeMap<Status, u64> = Status::ALL.into_iter().map(|status| (status, 0)).collect();
        for (status, count) in views.iter().flat_map(|queue| &queue.jobs) {
            *jobs.entry(*status).or_default() += count;
        }
        let ended = self.ended().await?;
        let totals = Totals { jobs: jobs.values().sum(), deleted: jobs[&Status::Deleted], ..ended };
        Ok(Snapshot {
            workers: self.workers().await?,
            oldest: self.oldest(None).await?,
            queues: self.rows(views, around).await?,
            running: self.list(Status::Processing).await?,
            dead: self.list(Status::Dead).await?,
            at: self.now(),
            jobs,
            totals,
        })
    }

    /// The details of a job or a queue, as `jobs show` and `queues show` print them.
    pub(crate) async fn history(&self, subject: Subject) -> Result<Details> {
        let now = self.now();
        let (lines, over) = match subject {
            Subject::Job(id) => {
                let detail = self.admin.job(id).await?;
                (show::history(&detail, now), detail.job.status.is_finished())
            }
            Subject::Queue(name) => (queues::history(&self.admin.queue(&name).await?, now), false),
        };
        Ok(Details { lines, over })
    }

    async fn workers(&self) -> Result<Workers> {
        let (workers, now) = (self.admin.workers().await?, self.now());
        let mut sum = Workers::default();
        for worker in workers.iter().filter(|worker| is_live(worker, now)) {
            sum.live += 1;
            sum.slots += u64::from(worker.heartbeat.concurrency);
        }
        Ok(sum)
    }

    /// The job that has been due for longest, of all queues or of one.
    async fn oldest(&self, queue: Option<String>) -> Result<Option<Oldest>> {
        let filter = Filter { queue, ..Filter::status(Status::Queued) };
        let found = self.admin.jobs(filter, Page::first(1)).await?.jobs.into_iter().next();
        let due_ms = |job: &JobView| self.now().since(job.run_at).as_millis() as u64;
        Ok(found.map(|job| Oldest { due_ms: due_ms(&job), queue: job.queue }))
    }

    async fn rows(&self, queues: Vec<QueueView>, around: usize) -> Result<Vec<QueueRow>> {
        let first = around.saturating_sub(OLDEST_MAX_QUEUES / 2);
        let first = first.min(queues.len().saturating_sub(OLDEST_MAX_QUEUES));
        let mut rows = Vec::with_capacity(queues.len());
        for (index, queue) in queues.into_iter().enumerate() {
            let is_near = (first..first + OLDEST_MAX_QUEUES).contains(&index);
            let queued = queue.jobs.get(&Status::Queued).is_some_and(|count| *count > 0);
            let oldest = if is_near && queued { self.oldest(Some(queue.name.clone())).await? } else { None };
            rows.push(QueueRow { queue, oldest_due_ms: oldest.map(|oldest| oldest.due_ms) });
        }
        Ok(rows)
    }

    async fn list(&self, status: Status) -> Result<JobRows> {
        let found = self.admin.jobs(Filter::status(status), Page::first(JOBS_MAX)).await?;
        Ok(JobRows { jobs: found.jobs, more: found.next.is_some() })
    }

    /// The number of attempts that have ended since a time shortly before the first snapshot.
    async fn ended(&self) -> Result<Totals> {
        let mut known = self.ended.lock().await;
        let (now, closing) = (self.now(), hour(self.now()).before(LATE));
        let mut ended = known.unwrap_or(Ended { closed: Totals::default(), closed_until: closing });
        if ended.closed_until < closing {
            ended.closed = self.ended_between((ended.closed_until, closing), ended.closed).await?;
            ended.closed_until = closing;
        }
        *known = Some(ended);
        self.ended_between((ended.closed_until, now.after(LATE)), ended.closed).await
    }

    async fn ended_between(&self, bounds: Bounds, totals: Totals) -> Result<Totals> {
        let ended = self.admin.ended_attempts(bounds).await?;
        let (succeeded, failed) = (totals.succeeded + ended.succeeded, totals.failed + ended.failed);
        Ok(Totals { succeeded, failed, ..totals })
    }
}
