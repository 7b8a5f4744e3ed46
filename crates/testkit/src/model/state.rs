//! The state of the model.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Claim, Event, EventId, IdempotentRequest, Job, JobError, JobId, LogLine,
    Notification, Queue, QueueEvent, Schedule, ScheduleEvent, Status, Timestamp, Token, WorkerId, WorkerRecord,
    Workflow, WorkflowId,
    measure::{self, Measure},
    transfer::Dependency,
};

/// The order of jobs with the same priority and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// The order in which they were enqueued.
    #[default]
    Arrival,
    /// Their ids: the same order unless they were scheduled for different times.
    Id,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) ties: Ties,
    /// In the order in which they were enqueued.
    pub(super) jobs: Vec<Record>,
    /// The holder of each unique key, and when the key expires.
    pub(super) keys: BTreeMap<(String, String), (JobId, Option<Timestamp>)>,
    pub(super) rollups: BTreeMap<(Timestamp, String, String, Measure, u16), u64>,
    pub(super) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(super) schedules: BTreeMap<String, Schedule>,
    pub(super) schedule_events: Vec<(String, ScheduleEvent)>,
    pub(super) locks: BTreeMap<String, HeldLock>,
    pub(super) notifications: Vec<Notification>,
    pub(super) last_notification: u64,
    pub(super) tokens: Vec<Token>,
    pub(super) requests: BTreeMap<String, IdempotentRequest>,
    pub(super) events: u64,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) queue_events: Vec<(String, QueueEvent)>,
    /// Recent starts of queues and their keys, and their turns.
    pub(super) limits: Limiters,
    /// Slots of executions whose jobs were cancelled, each with its queue.
    pub(super) slots: Vec<Slot>,
    pub(super) dependencies: Vec<Dependency>,
    /// Jobs that kept waiting although one of their parents failed.
    pub(super) saw_failure: BTreeSet<JobId>,
    pub(super) workflows: BTreeMap<WorkflowId, Workflow>,
    /// The jobs of workflows and their callbacks, by their names in the workflow.
    pub(super) nodes: BTreeMap<(WorkflowId, String), JobId>,
    /// Jobs that have ended, until the consequences are applied.
    pub(super) ended: BTreeMap<JobId, Status>,
}

pub(super) struct Record {
    pub(super) job: Job,
    pub(super) attempts: Vec<Attempt>,
    pub(super) events: Vec<Event>,
    pub(super) logs: BTreeMap<(u32, u32), LogLine>,
    /// The execution whose handler is about to start, as confirmed by its worker.
    pub(super) confirmed: Option<u32>,
    /// Whether its last execution was limited.
    pub(super) was_limited: bool,
}

impl Record {
    /// The claim of its worker, if it has one.
    pub(super) fn claim(&self) -> Option<Claim> {
        let claim = Claim::new(Box::new(self.job.clone()), self.job.worker_id?);
        Some(Claim { confirmed: self.confirmed == Some(self.job.run), ..claim })
    }

    /// Ends its last attempt.
    pub(super) fn close_attempt(&mut self, now: Timestamp, status: AttemptStatus, error: Option<JobError>) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.status = status;
            attempt.finished_at = Some(now);
            attempt.error = error;
        }
    }
}

pub(super) struct HeldLock {
    pub(super) owner: Option<String>,
    pub(super) token: u64,
    pub(super) expires_at: Timestamp,
}

/// A queue, and a concurrency key in it if the limit is that of a key.
pub(super) type LimitKey = (String, Option<String>);

/// The state of limits, besides the current executions.
#[derive(Debug, Default)]
pub(super) struct Limiters {
    /// Recent starts, where there is a rate.
    pub(super) starts: BTreeMap<LimitKey, Vec<(Timestamp, u32)>>,
    /// Where keys take turns: the turn of each key, and that of the queue.
    pub(super) turns: BTreeMap<LimitKey, u64>,
    pub(super) clocks: BTreeMap<String, u64>,
}

/// A slot that the execution of a cancelled job occupies.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) queue: String,
    pub(super) key: Option<String>,
    pub(super) attempt: AttemptId,
    pub(super) worker: WorkerId,
    pub(super) until: Timestamp,
}

/// An event of a job that is to be recorded.
pub(super) struct NewEvent<'a> {
    pub(super) at: Timestamp,
    pub(super) status: Status,
    pub(super) run: Option<u32>,
    pub(super) cause: Cause<'a>,
}

impl NewEvent<'_> {
    pub(super) const fn new(at: Timestamp, status: Status) -> Self {
        Self { at, status, run: None, cause: Cause { actor: None, detail: None } }
    }
}

/// The cause of an event: who acted, and why.
#[derive(Clone, Copy)]
pub(super) struct Cause<'a> {
    pub(super) actor: Option<&'a str>,
    pub(super) detail: Option<&'a str>,
}

impl State {
    /// The order of jobs with the same time.
    pub(super) fn rank(&self, index: usize) -> u128 {
        match self.ties {
            Ties::Arrival => index as u128,
            Ties::Id => self.jobs[index].job.id.to_bits(),
        }
    }

    pub(super) fn find(&mut self, id: JobId) -> Option<&mut Record> {
        self.jobs.iter_mut().find(|record| record.job.id == id)
    }

    pub(super) fn event(&mut self, id: JobId, new: NewEvent<'_>) {
        self.events += 1;
        let NewEvent { at, status, run, cause } = new;
        let (actor, detail) = (cause.actor.map(str::to_owned), cause.detail.map(str::to_owned));
        let event = Event { id: EventId::new(at, self.events), at, status, run, actor, detail };
        if let Some(record) = self.find(id) {
            record.events.push(event);
        }
    }

    pub(super) fn rollup(&mut self, now: Timestamp, job: &Job, measure: Measure, took: Duration) {
        let key = (measure::hour(now), job.spec.name.clone(), job.spec.queue.clone(), measure, measure::bucket(took));
        *self.rollups.entry(key).or_default() += 1;
    }
}
