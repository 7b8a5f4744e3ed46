//! Named locks: each has at most one owner among all processes that share a store.

use std::{sync::Arc, time::Duration};

use punctual_core::{Error, Lock, Store, check, limits};

use crate::Punctual;

impl Punctual {
    /// Acquires a named lock for `ttl`, or returns `None` if another owner holds it. The lock expires after that time
    /// unless it is [extended](HeldLock::extend).
    ///
    /// Names that begin with `punctual.` are reserved.
    ///
    /// A process that is suspended for longer than `ttl` loses the lock and may not notice. The resource that the lock
    /// protects should therefore reject a [token](HeldLock::token) that is lower than one that it has seen.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// # let punctual = punctual_client::Punctual::connect(&url).await?;
    /// use std::time::Duration;
    /// if let Some(lock) = punctual.lock("monthly-report", Duration::from_secs(60)).await? {
    ///     assert!(punctual.lock("monthly-report", Duration::from_secs(60)).await?.is_none());
    ///     lock.release().await?;
    /// }
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn lock(&self, name: impl Into<String>, ttl: Duration) -> Result<Option<HeldLock>, Error> {
        let name = name.into();
        check::lock_name(&name)?;
        check_ttl(ttl)?;
        // A new owner for each call, so that one process cannot acquire a lock twice.
        let owner = format!("{}:{:016x}", std::process::id(), fastrand::u64(..));
        let lock = self.store().lock(name, owner, ttl).await?;
        Ok(lock.map(|lock| HeldLock { store: Arc::clone(self.store()), lock }))
    }
}

fn check_ttl(ttl: Duration) -> Result<(), Error> {
    Ok(check::duration("ttl", ttl, limits::LEASE_MIN, limits::LEASE_MAX)?)
}

/// A lock that was acquired. Dropping it does not release it: it expires after its time.
#[derive(Debug)]
pub struct HeldLock {
    store: Arc<dyn Store>,
    lock: Lock,
}

impl HeldLock {
    /// The fencing token: greater than the token of every earlier owner.
    pub const fn token(&self) -> u64 {
        self.lock.token
    }

    /// The lock as it was acquired: its name, its owner, and its first expiry time.
    pub const fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Extends the lock to `ttl` from now; returns whether it was still held.
    pub async fn extend(&self, ttl: Duration) -> Result<bool, Error> {
        check_ttl(ttl)?;
        Ok(self.store.extend_lock(self.lock.name.clone(), self.lock.owner.clone(), ttl).await?)
    }

    /// Releases the lock; returns whether it was still held.
    pub async fn release(self) -> Result<bool, Error> {
        Ok(self.store.unlock(self.lock.name, self.lock.owner).await?)
    }
}
