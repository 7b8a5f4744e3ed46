//! THE port: what every engine implements. Batch in, batch out; no policy.
//!
//! An engine is told what to store, never why. Decisions come from [`settle`](crate::settle()) and
//! [`change::apply`](crate::change::apply), limits from [`Spec::check`](crate::Spec::check); callers apply them
//! before they come here. All times are the store's own: an engine takes `now` from its clock, once for
//! each call, and adds the durations that it is given.
//!
//! Every call is one transaction: all of it happens or nothing does.
//!
//! The operations are grouped by noun, one trait and one file for each; a [`Store`] is the sum of them. A store in
//! front of another is a [`Layer`]: it implements what it changes, and [passes on](PassOn) the rest.
//!
//! | question | file |
//! |---|---|
//! | how are jobs stored and changed? | `jobs` |
//! | how do workers get jobs and end them? | `claims` |
//! | what keeps an execution under way? | `leases` |
//! | what is read of jobs? | `reader` |
//! | workflows and dependencies | `flow` |
//! | schedules | `schedules` |
//! | queues and their limits | `queues` |
//! | workers | `workers` |
//! | locks | `locks` |
//! | messages to users | `notifications` |
//! | tokens, and requests that count once | `tokens` |
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
    engine::{AppliedMigration, Diagnostic, EngineStore, Metric, Schema, StoreInfo, Watch},
    flow::FlowStore,
    jobs::{Enqueued, JobStore},
    layer::{Layer, PassOn},
    leases::{LeaseStore, ProgressReport},
    locks::{Lock, LockStore},
    notifications::NotificationStore,
    queues::QueueStore,
    reader::{Count, JobReader, Pending},
    retention::{RetentionPolicy, RetentionStore},
    schedules::ScheduleStore,
    tokens::TokenStore,
    transfer::TransferStore,
    workers::{Heartbeat, WorkerRecord, WorkerStore},
};
use crate::StoreError;

/// What an engine's call returns.
pub type StoreResult<T> = Result<T, StoreError>;

/// All traits of a store, for whoever calls or implements them on a type of their own.
pub mod ports {
    pub use super::{
        ClaimStore, EngineStore, FlowStore, JobReader, JobStore, LeaseStore, LockStore, NotificationStore, QueueStore,
        RetentionStore, ScheduleStore, Store, TokenStore, TransferStore, WorkerStore,
    };
}

/// The names of the operations that a [layer](Layer) sees pass by.
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

/// A durable place for jobs.
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
