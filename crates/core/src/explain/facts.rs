//! The facts from which an explanation is derived.

use crate::{
    ClockStep, Event, Job, JobId, QueueSettings, Relative, Timestamp, WorkerId, WorkerRecord, limiter::LimitUsage,
};

/// A job that occupies a slot in the limits of its queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// Its concurrency key.
    pub key: Option<String>,
    /// The worker that runs it.
    pub worker: Option<WorkerId>,
    /// Whether the job was cancelled while its handler has not ended yet.
    pub is_cancelled: bool,
}

/// The facts from which an explanation is derived.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The job.
    pub job: Job,
    /// The current time.
    pub now: Timestamp,
    /// The parents of the job.
    pub parents: Vec<Relative>,
    /// The settings of its queue.
    pub queue: QueueSettings,
    /// The live workers.
    pub workers: Vec<WorkerRecord>,
    /// The usage of the limits of its queue.
    pub passed_queue: LimitUsage,
    /// The usage of the limits of its key, if it has one.
    pub passed_key: LimitUsage,
    /// Jobs of its queue that occupy slots, cancelled ones first; at least as many as a sentence names.
    pub held: Vec<Held>,
    /// The last event of the job.
    pub last_event: Option<Event>,
    /// The last time that the store's clock was set, if any.
    pub clock_step: Option<ClockStep>,
}
