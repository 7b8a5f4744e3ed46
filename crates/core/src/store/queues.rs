//! The settings of queues, and what their limits let through.

use crate::{
    Queue, QueueEvent, QueueSave,
    limiter::{LimitUsage, OccupiedSlot},
    store::StoreResult,
};

port! {
    /// The settings of queues, and what their limits let through.
    pub trait QueueStore {
        /// The queues of which something was said, by name.
        async fn queues(&self) -> StoreResult<Vec<Queue>>;

        /// Changes what is said of a queue, if nobody else has meanwhile; says whether it did. What is paused is not
        /// claimed from then on.
        async fn save_queue(&self, save: QueueSave) -> StoreResult<bool>;

        /// What was done to the queue of that name, latest first, at most `limit`.
        async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>>;

        /// The usage of the limits of a queue, or of a key in it.
        async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage>;

        /// The slots of a queue and its keys that executions of cancelled jobs occupy, in the order of the jobs' ids.
        async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>>;
    }
}
