//! Locks. Redis refuses quickly, and the primary store decides.
//!
//! A lock is taken on the majority of several independent nodes, within its lifetime: Redlock. A client that fails
//! there does not query the primary store, which takes most of the load of contended locks off it. A client that
//! succeeds queries the primary store, which issues the fencing token, and refuses while the lease of another owner has
//! not expired. So neither a node that has lost its locks nor a client that was suspended can lead to two owners; see
//! `docs/adr/0015`.

use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::Timestamp;
use redis::RedisResult;
use tokio::time::{self, Instant};

use crate::{
    scripts::{LOCK, UNLOCK},
    server::Server,
};

/// Maximum wait for one node: a lock is worth little if the answer consumed a large part of its lifetime.
const NODE_MAX_WAIT: Duration = Duration::from_millis(500);
/// Allowance for clock drift between nodes (a hundredth of the lifetime), and for the millisecond resolution of expiry.
const DRIFT: (u32, Duration) = (100, Duration::from_millis(2));

/// The result of the nodes' votes on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    /// The majority granted it, and enough of its lifetime is left.
    Won,
    /// Another owner has it.
    Lost,
    /// Too few nodes answered to decide.
    Unclear,
}

/// A request for locks, sent to each node.
struct LockRequest<'a> {
    keys: &'a [String],
    owner: &'a str,
    now: Timestamp,
    ttl: Duration,
}

/// Locks on several independent nodes.
#[derive(Clone)]
pub(crate) struct Locks {
    nodes: Vec<Server>,
}

impl Locks {
    pub(crate) const fn on(nodes: Vec<Server>) -> Self {
        Self { nodes }
    }

    /// Takes each lock that is free, expired or held by the same owner. Locks that are not won are released on all
    /// nodes.
    pub(crate) async fn take(&self, keys: &[String], owner: &str, now: Timestamp, ttl: Duration) -> Vec<Vote> {
        let began = Instant::now();
        let request = LockRequest { keys, owner, now, ttl };
        let answers = join_all(self.nodes.iter().map(|node| request_votes(node, &request))).await;
        let in_time = began.elapsed() + ttl / DRIFT.0 + DRIFT.1 < ttl;
        let majority = self.nodes.len() / 2 + 1;
        let vote = |lock: usize| {
            let count = |vote: bool| answers.iter().flatten().filter(|answer| answer.get(lock) == Some(&vote)).count();
            match (count(true), count(false)) {
                (granted, _) if granted >= majority && in_time => Vote::Won,
                (granted, refused) if granted + refused < majority => Vote::Unclear,
                _ => Vote::Lost,
            }
        };
        let votes: Vec<Vote> = (0..keys.len()).map(vote).collect();
        let not_won = keys.iter().zip(&votes).filter(|(_, vote)| **vote != Vote::Won);
        self.release(&not_won.map(|(key, _)| key.clone()).collect::<Vec<_>>(), owner).await;
        votes
    }

    /// Releases the locks that the owner holds, on all nodes.
    pub(crate) async fn release(&self, keys: &[String], owner: &str) {
        if keys.is_empty() {
            return;
        }
        let mut call = UNLOCK.prepare_invoke();
        for key in keys {
            call.key(key);
        }
        call.arg(owner);
        let calls = self.nodes.iter().map(|node| time::timeout(NODE_MAX_WAIT, node.run::<usize>(&call)));
        for (node, answer) in self.nodes.iter().zip(join_all(calls).await) {
            if !matches!(answer, Ok(Ok(_))) {
                tracing::debug!(server = %node.address(), "cannot release locks in Redis; they will expire");
            }
        }
    }
}

/// Requests the locks from one node, with a timeout.
async fn request_votes(node: &Server, request: &LockRequest<'_>) -> Option<Vec<bool>> {
    let LockRequest { keys, owner, now, ttl } = *request;
    let mut call = LOCK.prepare_invoke();
    for key in keys {
        call.key(key);
    }
    call.arg(owner).arg(now.as_micros()).arg(now.after(ttl).as_micros()).arg(ttl.as_millis().max(1) as u64);
    let answer: RedisResult<Vec<bool>> = time::timeout(NODE_MAX_WAIT.min(ttl / 4), node.run(&call)).await.ok()?;
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::debug!(server = %node.address(), %error, "a node did not vote on a lock");
            None
        }
    }
}
