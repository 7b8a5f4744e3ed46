//! Locks. Redis says no, and the primary store says yes.
//!
//! A lock is taken on most of some independent nodes, within its time: Redlock. Whoever fails there asks nobody else,
//! and that is nearly everybody who wants what somebody has. Whoever succeeds asks the primary store, which gives the
//! fencing token, and refuses while the time of another has not passed. So neither a node that has forgotten its locks
//! nor a client that stood still makes anybody a second owner; `docs/adr/0015` says more.

use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::Timestamp;
use redis::RedisResult;
use tokio::time::{self, Instant};

use crate::{
    scripts::{LOCK, UNLOCK},
    server::Server,
};

/// The longest that one node is waited for: an answer that takes a good part of the lock's time is worth little.
const NODE_MAX_WAIT: Duration = Duration::from_millis(500);
/// Clocks of nodes run apart by a hundredth, and expire keys to the millisecond.
const DRIFT: (u32, Duration) = (100, Duration::from_millis(2));

/// How the nodes have voted on a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    /// Most of them have given it, and enough of its time is left.
    Won,
    /// Somebody else has it.
    Lost,
    /// Too few have answered to say.
    Unclear,
}

/// Locks on some independent nodes.
#[derive(Clone)]
pub(crate) struct Locks {
    nodes: Vec<Server>,
}

impl Locks {
    pub(crate) const fn on(nodes: Vec<Server>) -> Self {
        Self { nodes }
    }

    /// Takes each of some locks that is free, out of time or the owner's already. Those that are not won are held
    /// nowhere afterwards.
    pub(crate) async fn take(&self, keys: &[String], owner: &str, now: Timestamp, ttl: Duration) -> Vec<Vote> {
        let began = Instant::now();
        let answers = join_all(self.nodes.iter().map(|node| ask(node, keys, owner, now, ttl))).await;
        let in_time = began.elapsed() + ttl / DRIFT.0 + DRIFT.1 < ttl;
        let majority = self.nodes.len() / 2 + 1;
        let vote = |lock: usize| {
            let said = |word: bool| answers.iter().flatten().filter(|answer| answer.get(lock) == Some(&word)).count();
            match (said(true), said(false)) {
                (given, _) if given >= majority && in_time => Vote::Won,
                (given, refused) if given + refused < majority => Vote::Unclear,
                _ => Vote::Lost,
            }
        };
        let votes: Vec<Vote> = (0..keys.len()).map(vote).collect();
        let not_won = keys.iter().zip(&votes).filter(|(_, vote)| **vote != Vote::Won);
        self.release(&not_won.map(|(key, _)| key.clone()).collect::<Vec<_>>(), owner).await;
        votes
    }

    /// Frees those that the owner holds, wherever it does.
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
                tracing::debug!(server = %node.address(), "cannot free locks in Redis; they run out");
            }
        }
    }
}

/// Asks one node, but not for long.
async fn ask(node: &Server, keys: &[String], owner: &str, now: Timestamp, ttl: Duration) -> Option<Vec<bool>> {
    let mut call = LOCK.prepare_invoke();
    for key in keys {
        call.key(key);
    }
    call.arg(owner).arg(now.as_micros()).arg(now.after(ttl).as_micros()).arg(ttl.as_millis().max(1) as u64);
    let answer: RedisResult<Vec<bool>> = time::timeout(NODE_MAX_WAIT.min(ttl / 4), node.run(&call)).await.ok()?;
    match answer {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::debug!(server = %node.address(), %error, "a node does not vote on a lock");
            None
        }
    }
}
