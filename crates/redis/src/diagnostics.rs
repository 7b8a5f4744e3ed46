//! What `punctual doctor` checks in Redis.

use punctual_core::{Diagnostic, StoreResult};
use redis::RedisResult;
use tokio::time::Instant;

use crate::{
    dispatch_lease::{DispatchState, QueueDispatch},
    server,
    shared::Shared,
};

/// The oldest version of Redis that the scripts support.
const OLDEST_VERSION: (u32, u32) = (6, 2);

/// Checks settings, connectivity, queues and repairs.
pub(crate) async fn check(store: &Shared) -> StoreResult<Vec<Diagnostic>> {
    let version = match server::info(&store.server, "server").await {
        Ok(info) => version(info.get("valkey_version").or(info.get("redis_version")).map_or("unknown", String::as_str)),
        Err(error) => {
            let message =
                format!("{error}; PostgreSQL hands out the jobs meanwhile; start Redis, or correct --dispatch");
            return Ok(vec![diagnostic("redis", false, message)]);
        }
    };
    let state = store.dispatch_lease.state_since(Instant::now()).await?;
    let writes = writes(store, &state);
    Ok(vec![version, writes, eviction(store).await, queues(store, &state).await, repairs(store).await])
}

/// Whether Redis accepts writes of this primary store, from this process and from the workers.
fn writes(store: &Shared, state: &DispatchState) -> Diagnostic {
    match (store.dispatch_lease.refused(), state.missed) {
        (Some(why), _) => diagnostic(
            "redis writes",
            false,
            format!("{why}; jobs are handed out by PostgreSQL, unless workers can use Redis"),
        ),
        (None, Some(ago)) => {
            let message = format!(
                "a worker could not use Redis {} s ago, though it is reachable from here; see the log of that worker",
                ago.as_secs()
            );
            diagnostic("redis writes", false, message)
        }
        (None, None) => diagnostic("redis writes", true, "accepted"),
    }
}

fn diagnostic(check: &str, ok: bool, message: impl Into<String>) -> Diagnostic {
    Diagnostic { check: check.into(), ok, message: message.into() }
}

fn version(version: &str) -> Diagnostic {
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let ok = found >= OLDEST_VERSION;
    let hint = if ok { "" } else { "; Punctual needs Redis 6.2 or later, or Valkey" };
    diagnostic("redis", ok, format!("version {version}{hint}"))
}

/// If Redis evicts keys when it is full, its queues are lost and reloaded again and again.
async fn eviction(store: &Shared) -> Diagnostic {
    let Ok(memory) = server::info(&store.server, "memory").await else {
        return diagnostic("redis memory", true, "unknown: the server does not report it");
    };
    let value = |name: &str| memory.get(name).map_or("unknown", String::as_str);
    let (policy, used, most) = (value("maxmemory_policy"), value("used_memory_human"), value("maxmemory_human"));
    if policy == "noeviction" || value("maxmemory") == "0" {
        return diagnostic("redis memory", true, format!("{used} in use, no eviction"));
    }
    let advice = "set maxmemory-policy noeviction; no job is lost, but queues pause until they are reloaded";
    diagnostic("redis memory", false, format!("{used} of {most} in use, and {policy} evicts keys: {advice}"))
}

/// The queues that Redis hands out, and the number of hints of each.
async fn queues(store: &Shared, state: &DispatchState) -> Diagnostic {
    let (mut found, mut lost) = (Vec::new(), Vec::new());
    for queue in state.queues() {
        let name = queue.queue.as_str();
        let QueueDispatch::Open { epoch, .. } = state.queue(name) else {
            found.push(format!("{name} (about to open)"));
            continue;
        };
        let hints: RedisResult<Option<(usize, usize)>> = store.queue(name, epoch).count().await;
        match hints {
            Ok(Some((hints, held))) => found.push(format!("{name} ({hints} jobs dispatched, {held} just claimed)")),
            Ok(None) if !store.reconciler.serves(name) => {}
            Ok(None) => lost.push(name),
            Err(error) => return diagnostic("redis queues", false, error.to_string()),
        }
    }
    found.sort();
    match (found.is_empty(), lost.is_empty()) {
        (_, false) => {
            diagnostic("redis queues", false, format!("{} will be reloaded by the next worker", lost.join(", ")))
        }
        (true, _) => diagnostic("redis queues", true, "none so far; a queue is opened with its first job"),
        _ => diagnostic("redis queues", true, found.join(", ")),
    }
}

/// Repairs since Redis was last empty. They are not a problem: repairs are part of normal operation.
async fn repairs(store: &Shared) -> Diagnostic {
    match store.repairs.all().await {
        Ok(all) if all.is_empty() => diagnostic("redis repairs", true, "none"),
        Ok(all) => {
            let found: Vec<String> = all.iter().map(|(kind, number)| format!("{kind}: {number}")).collect();
            diagnostic("redis repairs", true, found.join(", "))
        }
        Err(error) => diagnostic("redis repairs", false, error.to_string()),
    }
}
