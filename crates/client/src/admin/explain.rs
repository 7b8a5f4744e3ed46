//! Why a job is not running.

use punctual_core::{
    Error, Filter, Job, JobId, Page, Status,
    explain::{Explanation, Facts, Held, explain},
    limiter::LimitUsage,
    limits,
};

use super::{Admin, is_live};

impl Admin {
    /// Explains why a job is in its current state and what to do about it: the decisive reason first.
    pub async fn explain(&self, id: JobId) -> Result<Explanation, Error> {
        let store = self.punctual.store();
        let job = store.get(id).await?.ok_or(Error::NotFound(id))?;
        let now = store.now();
        let queue = store.queues().await?.into_iter().find(|queue| queue.name == job.spec.queue);
        let queue = queue.map(|queue| queue.settings).unwrap_or_default();
        let parents = if job.status == Status::Waiting { store.parents(id).await? } else { Vec::new() };
        let workers = store.workers().await?.into_iter().filter(|worker| is_live(worker, now)).collect();
        let (passed_queue, passed_key, held) = self.limit_usage(&job).await?;
        let last_event = store.history(id).await?.events.pop();
        let clock_step = store.clock_step().await?;
        let facts = Facts { job, now, parents, queue, workers, passed_queue, passed_key, held, last_event, clock_step };
        Ok(explain(&facts))
    }

    /// The usage of the limits of a queued job, and the jobs that hold slots of its queue.
    async fn limit_usage(&self, job: &Job) -> Result<(LimitUsage, LimitUsage, Vec<Held>), Error> {
        if job.status != Status::Queued {
            return Ok(Default::default());
        }
        let (store, queue, key) = (self.punctual.store(), &job.spec.queue, &job.spec.options.concurrency_key);
        let passed_queue = store.limit_usage(queue.clone(), None).await?;
        let passed_key = match key {
            Some(key) => store.limit_usage(queue.clone(), Some(key.clone())).await?,
            None => LimitUsage::default(),
        };
        let running = Filter { queue: Some(queue.clone()), ..Filter::status(Status::Processing) };
        let held = store.list(running, Page::first(limits::PAGE_MAX_JOBS)).await?.jobs;
        let held = held.into_iter().map(|job| Held {
            job: job.id,
            key: job.spec.options.concurrency_key,
            worker: job.worker_id,
            is_cancelled: false,
        });
        let occupied = store.occupied_slots(queue.clone()).await?.into_iter().map(|slot| Held {
            job: slot.attempt.job,
            key: slot.key,
            worker: Some(slot.worker),
            is_cancelled: true,
        });
        Ok((passed_queue, passed_key, occupied.chain(held).collect()))
    }
}
