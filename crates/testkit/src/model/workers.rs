//! Workers.

use async_trait::async_trait;
use punctual_core::{Heartbeat, StoreResult, Timestamp, WorkerId, WorkerRecord, store::ports::WorkerStore};

use super::{state::State, store::ModelStore};

impl State {
    pub(super) fn end_leases(&mut self, now: Timestamp, worker: WorkerId) -> usize {
        self.slots.retain(|slot| slot.worker != worker);
        let held = self.jobs.iter_mut().filter(|record| record.job.worker_id == Some(worker));
        let live = held.filter(|record| record.job.lease_until.is_some_and(|until| until > now));
        live.map(|record| record.job.lease_until = Some(now)).count()
    }
}

#[async_trait]
impl WorkerStore for ModelStore {
    async fn heartbeat(&self, heartbeat: Heartbeat) -> StoreResult<()> {
        self.write(|state, now| {
            let known = state.workers.entry(heartbeat.id).or_insert(WorkerRecord {
                heartbeat: heartbeat.clone(),
                started_at: now,
                seen_at: now,
            });
            known.heartbeat.running = heartbeat.running;
            known.seen_at = now;
        })
    }

    async fn deregister(&self, worker: WorkerId) -> StoreResult<()> {
        self.write(|state, _| drop(state.workers.remove(&worker)))
    }

    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
        self.write(|state, now| state.end_leases(now, worker))
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        let mut workers: Vec<_> = self.state().workers.values().cloned().collect();
        workers.sort_by_key(|worker| (worker.started_at, worker.heartbeat.id));
        Ok(workers)
    }
}
