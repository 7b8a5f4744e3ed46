//! Explanations and their reasons.

use serde::{Deserialize, Serialize};

use crate::{JobId, Status};

/// The reasons for the current status of a job, the decisive one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Job ID.
    pub job: JobId,
    /// Current status of the job.
    pub status: Status,
    /// Reasons: the decisive one first, then further obstacles.
    pub reasons: Vec<Reason>,
}

/// A reason for the current status of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reason {
    /// Machine-readable kind of the reason.
    pub cause: Cause,
    /// Explanation in words.
    pub text: String,
    /// Recommended action, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// Machine-readable kind of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The job waits for its parents.
    WaitsForParents,
    /// The job waits for a parent that has failed and may be retried.
    WaitsForFailedParent,
    /// The job is scheduled for a later time.
    NotDue,
    /// The last attempt failed; the job is retried later.
    BackingOff,
    /// The machine's clock, which determines the job's start time or lease, was set.
    ClockStepped,
    /// The queue is paused.
    QueuePaused,
    /// The settings of the queue cannot be read, so it is unknown which limits it has.
    QueueUnreadable,
    /// There are no live workers.
    NoWorker,
    /// No live worker serves the queue.
    NoWorkerForQueue,
    /// No live worker of the queue has a handler for the job's name.
    NoWorkerForName,
    /// The concurrency limit of the queue is reached.
    QueueLimit,
    /// The concurrency limit of the job's concurrency key is reached.
    KeyLimit,
    /// The rate limit of the queue is reached.
    QueueRate,
    /// The rate limit of the job's concurrency key is reached.
    KeyRate,
    /// The job was running when a worker was lost, and waits for a slot in which it runs isolated from other jobs.
    Suspect,
    /// All workers that could run the job are busy.
    WorkersBusy,
    /// Nothing prevents the job from starting.
    AboutToStart,
    /// The job is running.
    Running,
    /// The job was started by a worker that has not sent a heartbeat since.
    WorkerLost,
    /// The job succeeded.
    Succeeded,
    /// The job is dead: it is not retried.
    Dead,
    /// The job was cancelled.
    Cancelled,
    /// The job was deleted.
    Deleted,
}

pub(super) fn reason(cause: Cause, text: String, advice: impl Into<String>) -> Reason {
    let advice = advice.into();
    Reason { cause, text, advice: (!advice.is_empty()).then_some(advice) }
}
