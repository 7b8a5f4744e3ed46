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

/// Whether anybody held it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Freed {
    /// Whether anybody did.
    freed: bool,
}

pub(crate) async fn free(call: Call, Named { name }: Named, _: Nothing) -> Result<Freed, Problem> {
    let freed = call.admin().unlock(&name).await?;
    tracing::info!(lock = name, actor = call.caller.name(), freed, "a lock was freed by hand");
    Ok(Freed { freed })
}

/// Whose lock, and for how long.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LockWish")]
pub(crate) struct Wish {
    /// Who wants it: a name that nobody else has.
    owner: String,
    /// For how long, such as `30s`.
    ttl: Span,
}

/// A lock, if it was to be had.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AcquiredLock")]
pub(crate) struct Acquired {
    /// Nothing if somebody else holds it.
    lock: Option<Lock>,
}

pub(crate) async fn acquire(call: Call, Named { name }: Named, Wish { owner, ttl }: Wish) -> Result<Acquired, Problem> {
    check_wish(&name, &owner, Some(ttl.0))?;
    Ok(Acquired { lock: call.punctual().store().lock(name, owner, ttl.0).await? })
}

/// Whose lock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LockOwner")]
pub(crate) struct Owner {
    /// Who holds it.
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
