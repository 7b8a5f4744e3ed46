//! The settings of queues, and the usage of their limits.

use crate::{
    Queue, QueueEvent, QueueSave,
    limiter::{LimitUsage, OccupiedSlot},
    store::StoreResult,
};

port! {
    /// The settings of queues, and the usage of their limits.
    pub trait QueueStore {
        /// The queues that have settings, by name.
        async fn queues(&self) -> StoreResult<Vec<Queue>>;

        /// Changes the settings of a queue, unless they were changed meanwhile; returns whether it did. Jobs of a
        /// paused queue are not claimed from then on.
        async fn save_queue(&self, save: QueueSave) -> StoreResult<bool>;

        /// The changes of the queue with this name, latest first, at most `limit`.
        async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>>;

        /// The usage of the limits of a queue, or of a key in it.
        async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage>;

        /// The slots of a queue and its keys that executions of cancelled jobs occupy, in the order of the jobs' ids.
        async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>>;
    }
}
