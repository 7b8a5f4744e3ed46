//! Registered workers.

use serde::{Deserialize, Serialize};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

    /// Whether the worker has a handler for jobs of a name. A worker without names has no handlers: unlike queues,
    /// names are never left out, neither by workers of this library nor in the claims of remote workers.
    pub fn handles(&self, job: &str) -> bool {
        self.heartbeat.names.iter().any(|name| name == job)
    }

    /// Whether the worker runs jobs of a name in a queue.
    pub fn runs(&self, queue: &str, job: &str) -> bool {
        self.serves(queue) && self.handles(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(queues: &[&str], names: &[&str]) -> WorkerRecord {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let heartbeat = Heartbeat {
            id: WorkerId::from_bits(1),
            host: "here".to_owned(),
            pid: 1,
            queues: owned(queues),
            names: owned(names),
            concurrency: 1,
            running: 0,
            registered_by: None,
        };
        WorkerRecord { heartbeat, started_at: Timestamp::MIN, seen_at: Timestamp::MIN }
    }

    #[test]
    fn a_worker_without_queues_serves_all_and_one_without_names_runs_nothing() {
        assert!(worker(&[], &["mail"]).runs("post", "mail") && worker(&["post"], &["mail"]).runs("post", "mail"));
        assert!(!worker(&["other"], &["mail"]).runs("post", "mail") && !worker(&[], &["pay"]).runs("post", "mail"));
        let idle = worker(&[], &[]);
        assert!(idle.serves("post") && !idle.handles("mail") && !idle.runs("post", "mail"));
    }
}
