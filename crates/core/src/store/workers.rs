//! The register of workers.

use serde::Serialize;

use crate::{Timestamp, TokenId, WorkerId, store::StoreResult};

port! {
    /// The register of workers.
    pub trait WorkerStore {
        /// Registers a worker, or says that it is still there.
        async fn heartbeat(&self, beat: Heartbeat) -> StoreResult<()>;

        /// Takes a worker off the register.
        async fn deregister(&self, worker: WorkerId) -> StoreResult<()>;

        /// Ends the leases of a worker that is known to be dead, so that others need not wait for them to run out; says
        /// how many. Slots that its executions occupy are released.
        async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize>;

        /// The workers on the register, by the time of their start.
        async fn workers(&self) -> StoreResult<Vec<WorkerRecord>>;
    }
}

/// A worker's sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Heartbeat {
    /// Who.
    pub id: WorkerId,
    /// On which machine.
    pub host: String,
    /// In which process.
    pub pid: u32,
    /// Works on these queues; on all when empty.
    pub queues: Vec<String>,
    /// Has handlers for these names.
    pub names: Vec<String>,
    /// Runs at most so many jobs at once.
    pub concurrency: u32,
    /// Runs so many now.
    pub running: u32,
    /// The token that a remote worker was registered with; it stays that of the first heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registered_by: Option<TokenId>,
}

/// A worker on the register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerRecord {
    /// What it last said.
    #[serde(flatten)]
    pub beat: Heartbeat,
    /// When it first did.
    pub started_at: Timestamp,
    /// When it last did.
    pub seen_at: Timestamp,
}
