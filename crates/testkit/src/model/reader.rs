//! Reads jobs, their histories and their counts.

use std::collections::BTreeMap;

use async_trait::async_trait;
use punctual_core::{
    Changes, Count, Filter, History, Job, JobId, JobPage, LogLine, Order, Page, Pending, Status, StoreError,
    StoreResult, Timestamp,
    measure::{self, Measure, Rollup},
    store::ports::JobReader,
};

use super::{
    state::{Record, State},
    store::ModelStore,
};

impl State {
    pub(super) fn list(&self, filter: &Filter, page: &Page) -> Option<JobPage> {
        let mut indexes: Vec<usize> =
            (0..self.jobs.len()).filter(|index| filter.selects(&self.jobs[*index].job)).collect();
        indexes.sort_by_key(|index| {
            let job = &self.jobs[*index].job;
            (filter.time_of(job), if filter.order() == Order::Newest { job.id.to_bits() } else { self.rank(*index) })
        });
        if filter.order() != Order::Due {
            indexes.reverse();
        }
        let start = page.after.as_deref().map_or(Some(0), |after| after.parse().ok())?;
        let rest = indexes.len().saturating_sub(start);
        let jobs: Vec<Job> =
            indexes.into_iter().skip(start).take(page.limit).map(|index| self.jobs[index].job.clone()).collect();
        let next = (rest > jobs.len()).then(|| (start + jobs.len()).to_string());
        Some(JobPage { jobs, next })
    }
}

#[async_trait]
impl JobReader for ModelStore {
    async fn get(&self, id: JobId) -> StoreResult<Option<Job>> {
        Ok(self.state().find(id).map(|record| record.job.clone()))
    }

    async fn list(&self, filter: Filter, page: Page) -> StoreResult<JobPage> {
        let cursor = page.after.clone().unwrap_or_default();
        self.state().list(&filter, &page).ok_or(StoreError::BadCursor(cursor))
    }

    async fn histories(&self, jobs: Vec<JobId>) -> StoreResult<Vec<History>> {
        let mut state = self.state();
        let history = |record: &Record| History { events: record.events.clone(), attempts: record.attempts.clone() };
        Ok(jobs.into_iter().map(|job| state.find(job).map(|record| history(record)).unwrap_or_default()).collect())
    }

    async fn changes(&self, since: Option<String>, limit: usize) -> StoreResult<Changes> {
        let now = self.clock.now();
        self.state().changes(now, since.as_deref(), limit)
    }

    async fn logs(&self, job: JobId, limit: usize) -> StoreResult<Vec<LogLine>> {
        let mut state = self.state();
        let record = state.find(job);
        Ok(record.map(|record| record.logs.values().take(limit).cloned().collect()).unwrap_or_default())
    }

    async fn counts(&self) -> StoreResult<Vec<Count>> {
        let mut counts = BTreeMap::<(String, String, Status), u64>::new();
        for Record { job, .. } in &self.state().jobs {
            *counts.entry((job.spec.queue.clone(), job.spec.name.clone(), job.status)).or_default() += 1;
        }
        Ok(counts.into_iter().map(|((queue, name, status), count)| Count { queue, name, status, count }).collect())
    }

    async fn pending_by_user(&self, limit: usize) -> StoreResult<Vec<Pending>> {
        let mut counts = BTreeMap::<(Option<String>, String), u64>::new();
        for Record { job, .. } in self.state().jobs.iter().filter(|record| record.job.status.is_active()) {
            *counts.entry((job.spec.user_id.clone(), job.spec.name.clone())).or_default() += 1;
        }
        let mut pending: Vec<_> =
            counts.into_iter().map(|((user_id, name), count)| Pending { user_id, name, count }).collect();
        pending.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cmp(b)));
        pending.truncate(limit);
        Ok(pending)
    }

    async fn dead_by_name(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<(String, u64)>> {
        let mut counts = BTreeMap::<String, u64>::new();
        for Record { job, .. } in &self.state().jobs {
            let died = job.finished_at.is_some_and(|at| at >= since && at < until);
            if job.status == Status::Dead && died {
                *counts.entry(job.spec.name.clone()).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(counts)
    }

    async fn rollups(&self, since: Timestamp, until: Timestamp) -> StoreResult<Vec<Rollup>> {
        let mut sums = BTreeMap::<(String, String, Measure, u16), u64>::new();
        for ((hour, name, queue, measure, bucket), count) in &self.state().rollups {
            if *hour >= measure::hour(since) && *hour < until {
                *sums.entry((name.clone(), queue.clone(), *measure, *bucket)).or_default() += count;
            }
        }
        let rollup = |((name, queue, measure, bucket), count)| Rollup { name, queue, measure, bucket, count };
        Ok(sums.into_iter().map(rollup).collect())
    }
}
