//! Named locks.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Timestamp, store::StoreResult};

port! {
    /// Named locks.
    pub trait LockStore {
        /// Acquires the lock if it is free, expired, or already held by the owner. Each acquisition returns a greater
        /// token.
        async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>>;

        /// Extends a lock that the owner holds; returns whether it did.
        async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool>;

        /// Releases a lock that the owner holds; returns whether it did.
        async fn unlock(&self, name: String, owner: String) -> StoreResult<bool>;

        /// The held locks, by name.
        async fn locks(&self) -> StoreResult<Vec<Lock>>;
    }
}

/// A held lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lock {
    /// Name of the lock.
    pub name: String,
    /// Owner of the lock.
    pub owner: String,
    /// Fencing token. It increases with each acquisition, so a protected resource can reject older tokens.
    pub token: u64,
    /// Expiry time.
    pub expires_at: Timestamp,
}
