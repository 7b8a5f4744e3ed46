//! Locks.

use std::time::Duration;

use punctual_core::{Lock, check, limits, time::Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Named;
use crate::{problem::Problem, request::RequestContext, route::Nothing};

pub(crate) async fn list(request: RequestContext, _: Nothing) -> Result<Vec<Lock>, Problem> {
    Ok(request.admin().locks().await?)
}

/// Result of a lock release.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Freed {
    /// Whether the lock was held.
    freed: bool,
}

pub(crate) async fn free(request: RequestContext, Named { name }: Named, _: Nothing) -> Result<Freed, Problem> {
    let freed = request.admin().unlock(&name).await?;
    tracing::info!(lock = name, actor = request.caller.name(), freed, "released a lock of any owner");
    Ok(Freed { freed })
}

/// A request for a lock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockParams {
    /// Owner of the lock: a unique name.
    owner: String,
    /// How long the lock is held unless it is released, such as `30s`.
    ttl: Span,
}

/// Result of a request for a lock.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AcquiredLock {
    /// The lock; null if another owner holds it.
    lock: Option<Lock>,
}

pub(crate) async fn acquire(
    request: RequestContext,
    Named { name }: Named,
    LockParams { owner, ttl }: LockParams,
) -> Result<AcquiredLock, Problem> {
    check_lock(&name, &owner, Some(ttl.0))?;
    Ok(AcquiredLock { lock: request.punctual().store().lock(name, owner, ttl.0).await? })
}

/// Selects the owner of a lock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LockOwner {
    /// Owner of the lock.
    owner: String,
}

pub(crate) async fn release(
    request: RequestContext,
    Named { name }: Named,
    LockOwner { owner }: LockOwner,
) -> Result<Freed, Problem> {
    check_lock(&name, &owner, None)?;
    Ok(Freed { freed: request.punctual().store().unlock(name, owner).await? })
}

fn check_lock(name: &str, owner: &str, ttl: Option<Duration>) -> Result<(), Problem> {
    check::lock_name(name)?;
    check::name("owner", owner, limits::LABEL_MAX_CHARS)?;
    Ok(ttl.map_or(Ok(()), |ttl| check::duration("ttl", ttl, limits::LEASE_MIN, limits::LEASE_MAX))?)
}
