//! Removes data that is no longer kept.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{
    Attempt, Job, JobId, RetentionPolicy, Status, StoreResult, Timestamp, Verb, change, limits,
    store::ports::RetentionStore,
};

use super::{
    state::{Cause, State},
    store::ModelStore,
};

impl State {
    pub(super) fn expire(&mut self, now: Timestamp, keep: RetentionPolicy, limit: usize) -> usize {
        let over = |job: &Job| {
            let finished = job.finished_at?;
            let kept = job.spec.keep_for.unwrap_or(keep.of(job.status));
            (job.status.is_finished() && job.status != Status::Deleted && finished.after(kept) <= now)
                .then_some((finished, job.id))
        };
        let mut ids: Vec<_> = self.jobs.iter().filter_map(|record| over(&record.job)).collect();
        ids.truncate(limit);
        for (_, id) in &ids {
            let Some(record) = self.find(*id) else { continue };
            let before = record.job.clone();
            if change::keep_for_unique_key(&mut record.job, now) {
                continue;
            }
            if change::apply(Verb::Delete, &mut record.job, now).is_ok() {
                self.changed(now, &before, Cause { actor: Some("retention"), detail: None });
            }
        }
        self.follow(now);
        ids.len()
    }

    /// Removes at most `limit` of the matching jobs, with all their data.
    pub(super) fn remove(&mut self, now: Timestamp, limit: usize, fits: impl Fn(&Job) -> bool) -> usize {
        let gone: Vec<JobId> =
            self.jobs.iter().map(|record| &record.job).filter(|job| fits(job)).map(|job| job.id).take(limit).collect();
        self.lose(now, &gone);
        self.jobs.retain(|record| !gone.contains(&record.job.id));
        self.keys.retain(|_, (holder, _)| !gone.contains(holder));
        gone.len()
    }
}

#[async_trait]
impl RetentionStore for ModelStore {
    async fn expire(&self, keep: RetentionPolicy, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| state.expire(now, keep, limit))
    }

    async fn purge(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| {
            state.remove(now, limit, |job| job.status == Status::Deleted && job.updated_at.after(after) <= now)
        })
    }

    async fn prune(&self, after: Duration, limit: usize) -> StoreResult<usize> {
        self.write(|state, now| {
            let cutoff = now.before(after);
            let (mut attempts, mut lines, mut gone) = (0, 0, 0);
            for record in &mut state.jobs {
                let ended = |attempt: &Attempt| attempt.finished_at.is_some();
                let old = |at: Timestamp| at <= cutoff;
                record.attempts.retain(|attempt| {
                    attempts += usize::from(ended(attempt));
                    let goes = attempts <= limit && attempt.finished_at.is_some_and(old);
                    gone += usize::from(goes);
                    !goes
                });
                record.logs.retain(|_, line| {
                    lines += 1;
                    let goes = lines <= limit && old(line.at);
                    gone += usize::from(goes);
                    !goes
                });
            }
            let workers = state.workers.len();
            state.workers.retain(|_, worker| worker.seen_at > now.before(limits::WORKER_SILENT_MAX));
            let rollups = state.rollups.len();
            state.rollups.retain(|(hour, ..), _| *hour >= now.before(limits::ROLLUPS_KEPT));
            let workflows = state.workflows.len();
            state.prune_workflows(cutoff);
            state.prune_limits(now);
            state.prune_tokens(now);
            gone + workers - state.workers.len() + rollups - state.rollups.len() + workflows - state.workflows.len()
        })
    }

    async fn drop_ephemeral(&self, before: Timestamp, limit: usize) -> StoreResult<usize> {
        let old = |job: &Job| job.spec.ephemeral && job.created_at < before;
        self.write(|state, now| state.remove(now, limit, |job| old(job) && job.status != Status::Processing))
    }

    async fn drop_partitions(&self, _keep: RetentionPolicy, _deleted: Duration) -> StoreResult<usize> {
        Ok(0)
    }
}
