//! Who hands out a queue's jobs now.
//!
//! The ledger has the last word: until when Redis does, and in which epoch of each queue. Whoever claims prolongs the one and goes by the other,
//! and asks again before what it knows is old. So nobody hands out jobs that somebody else may be handing out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{
    StoreResult, Timestamp,
    dispatch::{DispatchedQueue, GRACE, Ledger},
};
use redis::RedisResult;
use tokio::time::{self, Instant};

use crate::server::Server;

/// Redis hands out jobs for so long after somebody has said so.
const PROLONG: Duration = Duration::from_secs(2);
/// What is known is good for so long, and asked for again after so long.
const GOOD_FOR: Duration = Duration::from_secs(1);
const ASK_EVERY: Duration = Duration::from_millis(300);
/// As long as anybody has used what is known within so long, it is kept good, so that nobody has to wait for it.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// So often a process asks again that has stood still for longer than that.
const ASK_AGAIN_MAX: usize = 3;
/// Between two who hand out the same jobs: until the first has noticed, and what it handed out is recorded or given up.
pub(crate) const PAUSE: Duration = GOOD_FOR.saturating_add(GRACE);
/// A job is new for so long after it was stored. By then it is in Redis with all that is known of it, or comes there in another way.
const NEW_FOR_MS: u64 = 2_000;

/// What this process knows of who hands out jobs.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// When the ledger was asked.
    asked: Instant,
    /// How much longer Redis handed out jobs then.
    left: Duration,
    /// Jobs that wait for a time up to this one have been told.
    pub(crate) due_until: Option<Timestamp>,
    queues: HashMap<String, DispatchedQueue>,
    /// What time it was in Redis then, in milliseconds, if it was reached.
    redis_ms: Option<u64>,
}

/// How a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueStanding {
    /// Redis has not been given it.
    Unknown,
    /// Nobody hands out its jobs yet.
    Closed { opens_in: Duration },
    /// Somebody is to open it.
    Ready { epoch: u64 },
    /// Redis hands out its jobs.
    Open { epoch: u64, since: Duration },
}

impl Standing {
    /// Whether Redis hands out jobs, as far as this process may trust what it knows.
    pub(crate) fn is_open(&self) -> bool {
        self.redis_ms.is_some() && self.asked.elapsed() < self.left.min(GOOD_FOR)
    }

    /// Whether it did when the ledger was asked.
    const fn was_open(&self) -> bool {
        self.redis_ms.is_some() && !self.left.is_zero()
    }

    /// How a queue stands.
    pub(crate) fn queue(&self, queue: &str) -> QueueStanding {
        let passed = self.asked.elapsed();
        match self.queues.get(queue) {
            None => QueueStanding::Unknown,
            Some(DispatchedQueue { epoch, opened: Some(since), .. }) => {
                QueueStanding::Open { epoch: *epoch, since: *since + passed }
            }
            Some(DispatchedQueue { opens_in, .. }) if *opens_in > passed => {
                QueueStanding::Closed { opens_in: *opens_in - passed }
            }
            Some(DispatchedQueue { epoch, .. }) => QueueStanding::Ready { epoch: *epoch },
        }
    }

    /// The epoch in which a queue is open. Redis may be told of its jobs, whether or not anybody may claim them there.
    pub(crate) fn epoch(&self, queue: &str) -> Option<u64> {
        match self.queue(queue) {
            QueueStanding::Open { epoch, .. } if self.redis_ms.is_some() => Some(epoch),
            _ => None,
        }
    }

    /// The same, if Redis has been told of all jobs that were stored before, so that nobody else tells it of one that is stored from now on.
    pub(crate) fn settled_epoch(&self, queue: &str) -> Option<u64> {
        let loaded = self.queues.get(queue).is_some_and(|queue| queue.loaded);
        self.epoch(queue).filter(|_| loaded)
    }

    /// The queues that Redis has been given.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &DispatchedQueue> {
        self.queues.values()
    }

    /// Until when a job that is stored now is new, by the time of Redis.
    pub(crate) fn new_until(&self) -> u64 {
        self.redis_ms.unwrap_or(0) + self.asked.elapsed().as_millis() as u64 + NEW_FOR_MS
    }
}

/// Asks the ledger how Redis stands, and prolongs that.
pub(crate) struct Keeper {
    ledger: Arc<dyn Ledger>,
    server: Server,
    known: Mutex<Option<Arc<Standing>>>,
    /// When it was last wanted.
    wanted: Mutex<Instant>,
    /// One asks for all.
    asking: tokio::sync::Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(ledger: Arc<dyn Ledger>, server: Server) -> Self {
        Self {
            ledger,
            server,
            known: Mutex::default(),
            wanted: Mutex::new(Instant::now()),
            asking: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> Option<Arc<Standing>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How it stands, as far as it is known and may be trusted.
    pub(crate) async fn standing(&self) -> StoreResult<Arc<Standing>> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.ask(|known| known.asked.elapsed() < GOOD_FOR / 2).await
    }

    /// The same. If it took so long to ask that the answer may not be trusted any more, it is asked for again.
    pub(crate) async fn fresh_standing(&self) -> StoreResult<Arc<Standing>> {
        let mut standing = self.standing().await?;
        for _ in 0..ASK_AGAIN_MAX {
            if standing.is_open() || !standing.was_open() {
                break;
            }
            standing = self.standing_since(Instant::now()).await?;
        }
        Ok(standing)
    }

    /// How it stands, as it was asked for after that.
    pub(crate) async fn standing_since(&self, instant: Instant) -> StoreResult<Arc<Standing>> {
        self.ask(|known| known.asked >= instant).await
    }

    /// Asks again and again, while anybody wants to know.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            time::sleep(ASK_EVERY).await;
            let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if wanted.elapsed() < KEPT_FOR
                && let Err(error) = self.ask(|known| known.asked.elapsed() < ASK_EVERY).await
            {
                tracing::debug!(%error, "cannot ask the ledger who hands out jobs");
            }
        }
    }

    /// Something has changed.
    pub(crate) fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn ask(&self, is_good: impl Fn(&Standing) -> bool) -> StoreResult<Arc<Standing>> {
        if let Some(known) = self.known().filter(|known| is_good(known)) {
            return Ok(known);
        }
        let _one = self.asking.lock().await;
        if let Some(known) = self.known().filter(|known| is_good(known)) {
            return Ok(known);
        }
        let asked = Instant::now();
        let redis_ms = self.redis_ms().await;
        let prolong = redis_ms.is_some().then_some(PROLONG);
        let answer = self.ledger.dispatching(prolong).await?;
        self.ledger.look().await?;
        let queues = answer.queues.into_iter().map(|queue| (queue.queue.clone(), queue)).collect();
        let standing = Arc::new(Standing { asked, left: answer.left, due_until: answer.due_until, queues, redis_ms });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&standing));
        Ok(standing)
    }

    /// The time in Redis, if it can be reached; that of the slowest clock, if there are several.
    async fn redis_ms(&self) -> Option<u64> {
        let times: RedisResult<Vec<(u64, u64)>> = self.server.call_all(&redis::cmd("TIME")).await;
        match times {
            Ok(times) => times.into_iter().map(|(seconds, micros)| seconds * 1_000 + micros / 1_000).min(),
            Err(error) => {
                tracing::warn!(server = %self.server.address(), %error, "cannot reach Redis; jobs are handed out without it before long");
                None
            }
        }
    }
}
