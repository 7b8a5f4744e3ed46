//! The state that all operations of a store share.

use std::sync::Arc;

use punctual_core::Timestamp;

use super::{
    claim::{lanes::Lanes, scan_bounds::ScanBounds},
    clock::ServerClock,
    maintenance_state::Maintenance,
    options::Options,
    partitions::Days,
    queues::Queues,
    session::Sessions,
    statements::DispatchedBy,
    wake::Hints,
};

/// A handle to the state that all operations share.
#[derive(Clone)]
pub(crate) struct Core(pub(super) Arc<Inner>);

pub(crate) struct Inner {
    pub(super) options: Options,
    pub(super) sessions: Sessions,
    pub(super) version: String,
    /// Identifies the database and the schema.
    pub(super) database: String,
    pub(super) days: Days,
    pub(super) lanes: Lanes,
    pub(super) queues: Queues,
    pub(super) scan_bounds: ScanBounds,
    pub(super) hints: Hints,
    pub(super) server_clock: ServerClock,
    pub(super) maintenance: Maintenance,
}

impl std::ops::Deref for Core {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Core {
    /// The server's time, as estimated by this process.
    pub(crate) fn clock_now(&self) -> Timestamp {
        match &self.options.clock {
            Some(clock) => clock.now(),
            None => self.server_clock.now(),
        }
    }

    /// Whether another store hands out the jobs of this one, if known.
    pub(super) fn is_dispatched(&self) -> bool {
        self.options.dispatched || self.queues.known().dispatched
    }

    /// Which process dispatches the jobs that an enqueue stores.
    pub(super) fn enqueue_dispatched_by(&self) -> DispatchedBy {
        if self.options.dispatched { DispatchedBy::Enqueuer } else { self.dispatched_by() }
    }

    /// Which process dispatches jobs that are stored in another way.
    pub(crate) fn dispatched_by(&self) -> DispatchedBy {
        if self.is_dispatched() { DispatchedBy::Loader } else { DispatchedBy::Enqueuer }
    }
}
