//! Locks.

use std::time::Duration;

use punctual_core::{Lock, check, limits, time::Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Named;
use crate::{call::Call, problem::Problem, route::Nothing};

pub(crate) async fn list(call: Call, _: Nothing) -> Result<Vec<Lock>, Problem> {
    Ok(call.admin().locks().await?)
}

/// Result of a lock release.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Freed {
    /// Whether the lock was held.
    freed: bool,
}

pub(crate) async fn free(call: Call, Named { name }: Named, _: Nothing) -> Result<Freed, Problem> {
    let freed = call.admin().unlock(&name).await?;
    tracing::info!(lock = name, actor = call.caller.name(), freed, "a lock was freed by hand");
    Ok(Freed { freed })
}

/// A request for a lock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LockParams")]
pub(crate) struct LockParams {
    /// Owner of the lock: a unique name.
    owner: String,
    /// How long the lock is held unless it is released, such as `30s`.
    ttl: Span,
}

/// Result of a request for a lock.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AcquiredLock")]
pub(crate) struct Acquired {
    /// The lock; null if another owner holds it.
    lock: Option<Lock>,
}

pub(crate) async fn acquire(
    call: Call,
    Named { name }: Named,
    LockParams { owner, ttl }: LockParams,
) -> Result<Acquired, Problem> {
    check_wish(&name, &owner, Some(ttl.0))?;
    Ok(Acquired { lock: call.punctual().store().lock(name, owner, ttl.0).await? })
}

/// Selects the owner of a lock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LockOwner")]
pub(crate) struct Owner {
    /// Owner of the lock.
    owner: String,
}

pub(crate) async fn release(call: Call, Named { name }: Named, Owner { owner }: Owner) -> Result<Freed, Problem> {
    check_wish(&name, &owner, None)?;
    Ok(Freed { freed: call.punctual().store().unlock(name, owner).await? })
}

fn check_wish(name: &str, owner: &str, ttl: Option<Duration>) -> Result<(), Problem> {
    check::lock_name(name)?;
    check::word("owner", owner, limits::LABEL_MAX_CHARS)?;
    Ok(ttl.map_or(Ok(()), |ttl| check::duration("ttl", ttl, limits::LEASE_MIN, limits::LEASE_MAX))?)
}
