//! Named locks.

use std::time::Duration;

use serde::Serialize;

use crate::{Timestamp, store::StoreResult};

port! {
    /// Named locks.
    pub trait LockStore {
        /// Takes the lock if it is free, expired, or the owner's already. Each acquisition returns a greater token.
        async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>>;

        /// Keeps a lock that the owner holds; says whether it did.
        async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool>;

        /// Frees a lock that the owner holds; says whether it did.
        async fn unlock(&self, name: String, owner: String) -> StoreResult<bool>;

        /// The locks that are held, by name.
        async fn locks(&self) -> StoreResult<Vec<Lock>>;
    }
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// Who holds it.
    pub owner: String,
    /// Grows with each acquisition: whoever guards a resource can refuse an older one.
    pub token: u64,
    /// Until when.
    pub expires_at: Timestamp,
}
