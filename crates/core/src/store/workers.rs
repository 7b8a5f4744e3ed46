//! Registered workers.

use serde::Serialize;

use crate::{Timestamp, TokenId, WorkerId, store::StoreResult};

port! {
    /// Registered workers.
    pub trait WorkerStore {
        /// Registers a worker, or renews its registration.
        async fn heartbeat(&self, heartbeat: Heartbeat) -> StoreResult<()>;

        /// Removes the registration of a worker.
        async fn deregister(&self, worker: WorkerId) -> StoreResult<()>;

        /// Ends the leases of a worker that is known to be dead, so that its jobs can be taken before the leases
        /// expire; returns how many. Slots that its executions occupy are released.
        async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize>;

        /// The registered workers, by the time of their start.
        async fn workers(&self) -> StoreResult<Vec<WorkerRecord>>;
    }
}

/// Heartbeat of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heartbeat {
    /// Worker ID.
    pub id: WorkerId,
    /// Host name of the worker's machine.
    pub host: String,
    /// Process ID of the worker.
    pub pid: u32,
    /// Queues that the worker serves; all when empty.
    pub queues: Vec<String>,
    /// Names of jobs that the worker has handlers for.
    pub names: Vec<String>,
    /// Maximum concurrent jobs of the worker.
    pub concurrency: u32,
    /// Number of jobs that the worker runs now.
    pub running: u32,
    /// Token that a remote worker registered with; the one of its first heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_by: Option<TokenId>,
}

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerRecord {
    /// Last heartbeat.
    #[serde(flatten)]
    pub heartbeat: Heartbeat,
    /// Time of the first heartbeat.
    pub started_at: Timestamp,
    /// Time of the last heartbeat.
    pub seen_at: Timestamp,
}

impl WorkerRecord {
    /// Whether the worker serves a queue.
    pub fn serves(&self, queue: &str) -> bool {
        let queues = &self.heartbeat.queues;
        queues.is_empty() || queues.iter().any(|served| served == queue)
    }

    /// Whether the worker has a handler for jobs of a name.
    pub fn handles(&self, job: &str) -> bool {
        let names = &self.heartbeat.names;
        names.is_empty() || names.iter().any(|name| name == job)
    }
}
