//! How Redis is used.

use punctual_core::{StoreError, StoreResult};

use crate::server::Address;

/// How Redis is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where jobs are handed out.
    pub address: Address,
    /// Independent servers for locks: an odd number of them, most of which have to agree. If there are none, the one
    /// above decides alone.
    pub locks: Vec<Address>,
    /// Whether jobs that begin before the primary store knows are locked on these servers until it does. Needs
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
        let bad = |reason: &str| StoreError::Unreachable { store: "redis".to_owned(), reason: reason.to_owned() };
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
