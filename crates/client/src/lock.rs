//! Named locks: one owner at a time, among all processes that share a store.

use std::{sync::Arc, time::Duration};

use punctual_core::{Error, Lock, Store, check, limits};

use crate::Punctual;

impl Punctual {
    /// Takes a named lock for `ttl`, if nobody else has it. It ends by itself then, unless it is
    /// [extended](HeldLock::extend).
    ///
    /// Names that begin with `punctual.` are reserved.
    ///
    /// Whoever stands still for longer than that no longer has it and may not know. So have whatever the lock guards
    /// refuse a [token](HeldLock::token) that is less than one that it has seen.
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
        // One for each time: nobody has a lock twice.
        let owner = format!("{}:{:016x}", std::process::id(), fastrand::u64(..));
        let lock = self.store().lock(name, owner, ttl).await?;
        Ok(lock.map(|lock| HeldLock { store: Arc::clone(self.store()), lock }))
    }
}

fn check_ttl(ttl: Duration) -> Result<(), Error> {
    Ok(check::duration("ttl", ttl, limits::LEASE_MIN, limits::LEASE_MAX)?)
}

/// A lock that somebody has taken. It is not freed when this is dropped: it ends with its time.
#[derive(Debug)]
pub struct HeldLock {
    store: Arc<dyn Store>,
    lock: Lock,
}

impl HeldLock {
    /// Greater than that of whoever had it before.
    pub const fn token(&self) -> u64 {
        self.lock.token
    }

    /// What was taken: its name, its owner, and until when it was theirs at first.
    pub const fn lock(&self) -> &Lock {
        &self.lock
    }

    /// Keeps it for `ttl` from now on; says whether it was still held.
    pub async fn extend(&self, ttl: Duration) -> Result<bool, Error> {
        check_ttl(ttl)?;
        Ok(self.store.extend_lock(self.lock.name.clone(), self.lock.owner.clone(), ttl).await?)
    }

    /// Frees it; says whether it was still held.
    pub async fn release(self) -> Result<bool, Error> {
        Ok(self.store.unlock(self.lock.name, self.lock.owner).await?)
    }
}
