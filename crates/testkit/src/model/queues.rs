//! Queues, and the usage of their limits.

use async_trait::async_trait;
use punctual_core::{
    Queue, QueueEvent, QueueSave, StoreResult, Timestamp,
    limiter::{LimitUsage, OccupiedSlot},
    store::ports::QueueStore,
};

use super::{state::State, store::ModelStore};

impl State {
    pub(super) fn save_queue(&mut self, now: Timestamp, save: QueueSave) -> bool {
        let QueueSave { name, settings, revision, actor, action } = save;
        let fits = self.queues.get(&name).map_or(0, |queue| queue.revision) == revision;
        if fits {
            let former = self.queues.get(&name).map(|queue| queue.settings.limits.clone()).unwrap_or_default();
            if former != settings.limits {
                self.limits.limits_changed(&name, now);
            }
            let queue = Queue {
                name: name.clone(),
                settings,
                revision: revision + 1,
                updated_at: now,
                updated_by: actor.clone(),
            };
            self.queues.insert(name.clone(), queue);
            self.queue_events.push((name, QueueEvent { at: now, actor, action }));
        }
        fits
    }
}

#[async_trait]
impl QueueStore for ModelStore {
    async fn queues(&self) -> StoreResult<Vec<Queue>> {
        Ok(self.state().queues.values().cloned().collect())
    }

    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
        self.write(|state, now| state.save_queue(now, save))
    }

    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
        let state = self.state();
        let of_it = state.queue_events.iter().rev().filter(|(queue, _)| *queue == name);
        Ok(of_it.map(|(_, event)| event.clone()).take(limit).collect())
    }

    async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage> {
        Ok(self.state().passed(&(queue, key), self.clock.now()))
    }

    async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>> {
        Ok(self.state().occupied_slots(self.clock.now(), &queue))
    }
}
