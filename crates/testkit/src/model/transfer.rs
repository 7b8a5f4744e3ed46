//! Transfer of data to and from another store.

use async_trait::async_trait;
use punctual_core::{
    JobId, Status, StoreResult,
    store::ports::TransferStore,
    transfer::{self, Dependency, ExportBatch},
};

use super::{
    state::{Record, State},
    store::ModelStore,
};

impl State {
    /// Imports a batch; returns how many of its records were new.
    pub(super) fn import(&mut self, batch: ExportBatch) -> usize {
        match batch {
            ExportBatch::Queues(all) => new_of(all, |(queue, done)| {
                if self.queues.contains_key(&queue.name) {
                    return false;
                }
                self.queue_events.extend(done.into_iter().rev().map(|event| (queue.name.clone(), event)));
                self.queues.insert(queue.name.clone(), queue).is_none()
            }),
            ExportBatch::Jobs(all) => new_of(all, |record| self.import_job(record)),
            ExportBatch::Dependencies(all) => new_of(all, |one| {
                let is_new = !self.dependencies.contains(&one);
                self.dependencies.extend(Some(one).filter(|_| is_new));
                is_new
            }),
            ExportBatch::Workflows(all) => new_of(all, |(workflow, nodes)| {
                let id = workflow.id;
                for (node, job) in nodes {
                    self.nodes.entry((id, node)).or_insert(job);
                }
                self.workflows.insert(id, workflow).is_none()
            }),
            ExportBatch::Schedules(all) => new_of(all, |(schedule, done)| {
                let name = schedule.spec.name.clone();
                if self.schedules.contains_key(&name) {
                    return false;
                }
                self.schedule_events.extend(done.into_iter().rev().map(|event| (name.clone(), event)));
                self.schedules.insert(name, schedule).is_none()
            }),
            ExportBatch::Rollups(hour, all) => new_of(all, |rollup| {
                let key = (hour, rollup.name, rollup.queue, rollup.measure, rollup.bucket);
                self.rollups.insert(key, rollup.count).is_none()
            }),
            ExportBatch::Notifications(all) => new_of(all, |message| {
                if self.notifications.iter().any(|known| known.id == message.id) {
                    return false;
                }
                self.last_notification = self.last_notification.max(message.id);
                self.notifications.push(message);
                true
            }),
        }
    }

    fn import_job(&mut self, record: transfer::Record) -> bool {
        let transfer::Record { job, events, attempts, logs, any_failed } = record;
        if self.find(job.id).is_some() {
            return false;
        }
        if let Some((scope, key)) = job.spec.unique_key()
            && !matches!(job.status, Status::Cancelled | Status::Deleted)
        {
            let until = job.spec.unique().expires_at(job.created_at);
            self.keys.entry((scope.to_owned(), key.to_owned())).or_insert((job.id, until));
        }
        if any_failed {
            self.saw_failure.insert(job.id);
        }
        let logs = logs.into_iter().enumerate().map(|(line, log)| ((log.run, line as u32), log)).collect();
        // A job that runs at most once and was started by the other store must not start a second time here.
        let confirmed = (job.status == Status::Processing).then_some(job.run);
        // Jobs are imported in reverse order: later ones are older.
        let was_limited = job.status == Status::Processing && self.is_limited(&job);
        self.jobs.insert(0, Record { job, attempts, events, logs, confirmed, was_limited });
        true
    }
}

fn new_of<T>(all: Vec<T>, mut import: impl FnMut(T) -> bool) -> usize {
    all.into_iter().map(|one| usize::from(import(one))).sum()
}

#[async_trait]
impl TransferStore for ModelStore {
    async fn dependencies(&self, children: Vec<JobId>) -> StoreResult<Vec<Dependency>> {
        let state = self.state();
        let mut found: Vec<Dependency> =
            state.dependencies.iter().filter(|one| children.contains(&one.child)).copied().collect();
        found.sort();
        Ok(found)
    }

    async fn import(&self, batch: ExportBatch) -> StoreResult<usize> {
        self.write(|state, _| state.import(batch))
    }
}
