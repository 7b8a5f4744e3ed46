//! Locks.

use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{Lock, StoreResult, Timestamp, store::ports::LockStore};

use super::{
    state::{HeldLock, State},
    store::ModelStore,
};

impl State {
    pub(super) fn lock(&mut self, now: Timestamp, name: String, owner: String, ttl: Duration) -> Option<Lock> {
        let held = self.locks.entry(name.clone()).or_insert(HeldLock { owner: None, token: 0, expires_at: now });
        let free = held.expires_at <= now || held.owner.as_ref().is_none_or(|holder| *holder == owner);
        free.then(|| {
            held.owner = Some(owner.clone());
            held.token += 1;
            held.expires_at = now.after(ttl);
            Lock { name, owner, token: held.token, expires_at: held.expires_at }
        })
    }

    pub(super) fn own_lock(&mut self, now: Timestamp, name: &str, owner: &str) -> Option<&mut HeldLock> {
        let held = self.locks.get_mut(name)?;
        (held.owner.as_deref() == Some(owner) && held.expires_at > now).then_some(held)
    }
}

#[async_trait]
impl LockStore for ModelStore {
    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
        self.write(|state, now| state.lock(now, name, owner, ttl))
    }

    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
        self.write(|state, now| {
            state.own_lock(now, &name, &owner).map(|held| held.expires_at = now.after(ttl)).is_some()
        })
    }

    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
        self.write(|state, now| state.own_lock(now, &name, &owner).map(|held| held.owner = None).is_some())
    }

    async fn locks(&self) -> StoreResult<Vec<Lock>> {
        let now = self.clock.now();
        let held = |(name, held): (&String, &HeldLock)| {
            let owner = held.owner.clone().filter(|_| held.expires_at > now)?;
            Some(Lock { name: name.clone(), owner, token: held.token, expires_at: held.expires_at })
        };
        Ok(self.state().locks.iter().filter_map(held).collect())
    }
}
