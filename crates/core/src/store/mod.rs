//! The store port: what every engine implements. Batch in, batch out; no policy.
//!
//! Engines store decisions; they do not make them. Decisions come from [`settle`](crate::settle()) and
//! [`change::apply`](crate::change::apply), limits from [`Spec::check`](crate::Spec::check); callers apply them before
//! they call the engine. All times are those of the store: an engine reads `now` from its clock, once per call, and
//! adds the given durations.
//!
//! Every call is one transaction: it is applied completely or not at all.
//!
//! The operations are grouped by noun, one trait and one file each; a [`Store`] implements all of them. A store in
//! front of another is a [`Layer`]: it implements the operations that it changes, and [passes on](PassOn) the others.
//!
//! | question | file |
//! |---|---|
//! | how are jobs stored and changed? | `jobs` |
//! | how do workers get jobs and end them? | `claims` |
//! | how do executions keep their leases, and report progress? | `leases` |
//! | how are jobs read? | `reader` |
//! | workflows and dependencies | `flow` |
//! | schedules | `schedules` |
//! | queues and their limits | `queues` |
//! | workers | `workers` |
//! | locks | `locks` |
//! | messages to users | `notifications` |
//! | tokens, and idempotent requests | `tokens` |
//! | moving between stores | `transfer` |
//! | retention | `retention` |
//! | the engine itself: its clock, its schema, its health | `engine` |
//! | stores in front of others | `layer` |

#[macro_use]
mod layer;
mod claims;
mod engine;
mod flow;
mod jobs;
mod leases;
mod locks;
mod notifications;
mod queues;
mod reader;
mod retention;
mod schedules;
mod tokens;
mod transfer;
mod workers;

pub use self::{
    claims::{ClaimRequest, ClaimStore, Claimed},
    engine::{AppliedMigration, Create, Diagnostic, EngineStore, Metric, Schema, StoreInfo, Watch},
    flow::FlowStore,
    jobs::{Enqueued, JobStore},
    layer::{Layer, PassOn},
    leases::{LeaseStore, ProgressReport},
    locks::{Lock, LockStore},
    notifications::NotificationStore,
    queues::QueueStore,
    reader::{Count, History, JobReader, Pending},
    retention::{RetentionPolicy, RetentionStore},
    schedules::ScheduleStore,
    tokens::TokenStore,
    transfer::TransferStore,
    workers::{Heartbeat, WorkerRecord, WorkerStore},
};
use crate::{JobId, StoreError};

/// The result of a call to an engine.
pub type StoreResult<T> = Result<T, StoreError>;

/// All traits of a store, for callers, and for implementations by other types.
pub mod ports {
    pub use super::{
        ClaimStore, EngineStore, FlowStore, JobReader, JobStore, LeaseStore, LockStore, NotificationStore, QueueStore,
        RetentionStore, ScheduleStore, Store, TokenStore, TransferStore, WorkerStore,
    };
}

/// The names of the operations that a [layer](Layer) receives.
pub fn operations() -> impl Iterator<Item = &'static str> {
    const OF_PORTS: [&[&str]; 14] = [
        <dyn JobStore>::OPERATIONS,
        <dyn ClaimStore>::OPERATIONS,
        <dyn LeaseStore>::OPERATIONS,
        <dyn JobReader>::OPERATIONS,
        <dyn FlowStore>::OPERATIONS,
        <dyn ScheduleStore>::OPERATIONS,
        <dyn QueueStore>::OPERATIONS,
        <dyn WorkerStore>::OPERATIONS,
        <dyn LockStore>::OPERATIONS,
        <dyn NotificationStore>::OPERATIONS,
        <dyn TokenStore>::OPERATIONS,
        <dyn TransferStore>::OPERATIONS,
        <dyn RetentionStore>::OPERATIONS,
        engine::OPERATIONS,
    ];
    OF_PORTS.into_iter().flatten().copied()
}

/// A durable store of jobs.
#[async_trait::async_trait]
pub trait Store:
    JobStore
    + ClaimStore
    + LeaseStore
    + JobReader
    + FlowStore
    + ScheduleStore
    + QueueStore
    + WorkerStore
    + LockStore
    + NotificationStore
    + TokenStore
    + TransferStore
    + RetentionStore
    + EngineStore
{
    /// The history of a job; empty if it does not exist.
    async fn history(&self, job: JobId) -> StoreResult<History> {
        Ok(self.histories(vec![job]).await?.pop().unwrap_or_default())
    }
}

impl<S> Store for S where
    S: JobStore
        + ClaimStore
        + LeaseStore
        + JobReader
        + FlowStore
        + ScheduleStore
        + QueueStore
        + WorkerStore
        + LockStore
        + NotificationStore
        + TokenStore
        + TransferStore
        + RetentionStore
        + EngineStore
{
}
