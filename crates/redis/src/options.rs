//! Options of Redis as the dispatcher.

use punctual_core::{StoreError, StoreResult};

use crate::server::Address;

/// Options of Redis as the dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The Redis that hands out jobs.
    pub address: Address,
    /// Independent servers for locks: an odd number of them, since a majority must agree. If there are none, the server
    /// above decides alone.
    pub locks: Vec<Address>,
    /// Whether jobs that start before the primary store knows are locked on these servers until it does. Needs
    /// [`locks`](Self::locks).
    pub lock_jobs: bool,
}

impl From<Address> for Options {
    fn from(address: Address) -> Self {
        Self { address, locks: Vec::new(), lock_jobs: false }
    }
}

impl Options {
    pub(crate) fn check(&self) -> StoreResult<()> {
        let bad = |reason: &str| StoreError::InvalidUrl { store: "redis".to_owned(), reason: reason.to_owned() };
        if self.lock_jobs && self.locks.is_empty() {
            return Err(bad("lock_jobs needs locks: the addresses of the servers on which jobs are locked"));
        }
        if self.locks.iter().any(|address| !address.is_single()) {
            return Err(bad("locks: each is one independent server, redis:// or rediss://"));
        }
        if !self.locks.is_empty() && self.locks.len().is_multiple_of(2) {
            return Err(bad("locks: an odd number of servers, since most of them have to agree"));
        }
        Ok(())
    }
}
