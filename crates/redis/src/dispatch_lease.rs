//! Who hands out a queue's jobs now.
//!
//! The primary store has the last word: until when Redis does, and in which epoch of each queue. Whoever claims
//! prolongs the one and goes by the other, and asks again before what it knows is old. So nobody hands out jobs that
//! somebody else may be handing out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{
    StoreResult, Timestamp,
    dispatch::{DispatchedQueue, GRACE, PrimaryStore, Sight},
};
use redis::RedisResult;
use tokio::time::{self, Instant};

use crate::{keys::Namespace, scripts::OWN, server::Server};

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
/// A process claims jobs for so long after it last did.
const CLAIMS_FOR: Duration = Duration::from_secs(5);
/// For so long after a sign of life no other server's jobs may be in Redis.
const OWNED_FOR: Duration = Duration::from_secs(3);
/// In a cluster, the nodes of so many queues are asked at a time.
const SIGNS_MAX_QUEUES: usize = 16;
/// How often a process says that it cannot use Redis.
const SAY_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// What is said where another server owns the jobs in Redis.
const IS_A_COPY: &str = "its jobs are of another PostgreSQL server; if this database is a copy of that one, use another Redis, or run \
                         `update punctual_dispatch set store_id = gen_random_uuid()` in the copy";
/// A job is new for so long after it was stored. By then it is in Redis with all that is known of it, or comes there in
/// another way.
const NEW_FOR_MS: u64 = 2_000;

/// What this process knows of who hands out jobs.
#[derive(Debug, Clone)]
pub(crate) struct DispatchState {
    /// When the primary store was asked.
    asked: Instant,
    /// Since when it counts as known: that Redis cannot be used is found out by a look that may take long.
    known_since: Instant,
    /// How much longer Redis handed out jobs then.
    left: Duration,
    /// Jobs that wait for a time up to this one have been told.
    pub(crate) due_until: Option<Timestamp>,
    queues: HashMap<String, DispatchedQueue>,
    /// What time it was in Redis then, in milliseconds, if it was reached and took a write.
    redis_ms: Option<u64>,
    /// Whether it had memory enough to cache jobs.
    caches: bool,
    /// How long ago a worker could not reach it, if it was lately.
    pub(crate) missed: Option<Duration>,
}

/// How a queue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueDispatch {
    /// Redis has not been given it.
    Unknown,
    /// Nobody hands out its jobs yet.
    Closed { opens_in: Duration },
    /// Somebody is to open it.
    Ready { epoch: u64 },
    /// Redis hands out its jobs.
    Open { epoch: u64, since: Duration },
}

impl DispatchState {
    /// Whether Redis hands out jobs, as far as this process may trust what it knows.
    pub(crate) fn is_open(&self) -> bool {
        self.redis_ms.is_some() && self.asked.elapsed() < self.left.min(GOOD_FOR)
    }

    /// Whether it did when the primary store was asked.
    const fn was_open(&self) -> bool {
        self.redis_ms.is_some() && !self.left.is_zero()
    }

    /// How a queue stands.
    pub(crate) fn queue(&self, queue: &str) -> QueueDispatch {
        let passed = self.asked.elapsed();
        match self.queues.get(queue) {
            None => QueueDispatch::Unknown,
            Some(DispatchedQueue { epoch, opened: Some(since), .. }) => {
                QueueDispatch::Open { epoch: *epoch, since: *since + passed }
            }
            Some(DispatchedQueue { opens_in, .. }) if *opens_in > passed => {
                QueueDispatch::Closed { opens_in: *opens_in - passed }
            }
            Some(DispatchedQueue { epoch, .. }) => QueueDispatch::Ready { epoch: *epoch },
        }
    }

    /// The epoch in which a queue is open. Redis may be told of its jobs, whether or not anybody may claim them there.
    pub(crate) fn epoch(&self, queue: &str) -> Option<u64> {
        match self.queue(queue) {
            QueueDispatch::Open { epoch, .. } if self.redis_ms.is_some() => Some(epoch),
            _ => None,
        }
    }

    /// The same, if Redis has been told of all jobs that were stored before, so that nobody else tells it of one that
    /// is stored from now on.
    pub(crate) fn settled_epoch(&self, queue: &str) -> Option<u64> {
        let loaded = self.queues.get(queue).is_some_and(|queue| queue.loaded);
        self.epoch(queue).filter(|_| loaded)
    }

    /// Whether Redis has memory enough to cache jobs.
    pub(crate) const fn caches(&self) -> bool {
        self.caches
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

/// Asks the primary store how Redis stands, and prolongs that.
pub(crate) struct DispatchLease {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    known: Mutex<Option<Arc<DispatchState>>>,
    /// When something last changed. Whoever was asking by then may have been answered before it did.
    forgotten: Mutex<Instant>,
    /// Which run of the primary store's server answered last, and which before that.
    runs: Mutex<[String; 2]>,
    /// When it was last wanted.
    wanted: Mutex<Instant>,
    /// When a claim last wanted it.
    claimed: Mutex<Option<Instant>>,
    /// Why Redis is not used, and when that was last said.
    refused: Mutex<Option<(String, Instant)>>,
    /// One asks for all.
    asking: tokio::sync::Mutex<()>,
}

impl DispatchLease {
    /// `server_run` is which run of the primary store's server answered.
    pub(crate) fn new(
        primary: Arc<dyn PrimaryStore>,
        server: Server,
        namespace: Namespace,
        server_run: String,
    ) -> Self {
        Self {
            primary,
            server,
            namespace,
            known: Mutex::default(),
            forgotten: Mutex::new(Instant::now()),
            runs: Mutex::new([server_run, String::new()]),
            wanted: Mutex::new(Instant::now()),
            claimed: Mutex::default(),
            refused: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> Option<Arc<DispatchState>> {
        let forgotten = *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|known| known.asked >= forgotten)
    }

    /// How it stands, as far as it is known and may be trusted.
    pub(crate) async fn standing(&self) -> StoreResult<Arc<DispatchState>> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.ask(|known| known.known_since.elapsed() < GOOD_FOR / 2).await
    }

    /// The same. If it took so long to ask that the answer may not be trusted any more, it is asked for again.
    /// Only claims ask for it.
    pub(crate) async fn fresh_standing(&self) -> StoreResult<Arc<DispatchState>> {
        *self.claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
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
    pub(crate) async fn standing_since(&self, instant: Instant) -> StoreResult<Arc<DispatchState>> {
        self.ask(|known| known.asked >= instant).await
    }

    /// Asks again and again, while anybody wants to know.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            time::sleep(ASK_EVERY).await;
            let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if wanted.elapsed() < KEPT_FOR
                && let Err(error) = self.ask(|known| known.known_since.elapsed() < ASK_EVERY).await
            {
                tracing::debug!(%error, "cannot ask the primary store who hands out jobs");
            }
        }
    }

    /// Something has changed.
    pub(crate) fn forget(&self) {
        *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    async fn ask(&self, is_good: impl Fn(&DispatchState) -> bool) -> StoreResult<Arc<DispatchState>> {
        if let Some(known) = self.known().filter(|known| is_good(known)) {
            return Ok(known);
        }
        let _one = self.asking.lock().await;
        if let Some(known) = self.known().filter(|known| is_good(known)) {
            return Ok(known);
        }
        let asked = Instant::now();
        let signs = Box::pin(self.look_at_redis()).await;
        let answer = self.primary.dispatching(self.sight(signs.is_ok())).await?;
        self.remember(&answer.server_run);
        self.primary.look().await?;
        let signs = signs.ok();
        let queues = answer.queues.into_iter().map(|queue| (queue.queue.clone(), queue)).collect();
        let standing = Arc::new(DispatchState {
            asked,
            known_since: if signs.is_some() { asked } else { Instant::now() },
            left: answer.left,
            due_until: answer.due_until,
            queues,
            redis_ms: signs.as_ref().map(|signs| signs.time_ms),
            caches: signs.is_some_and(|signs| signs.caches),
            missed: answer.missed,
        });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&standing));
        Ok(standing)
    }

    /// What this process has to tell the primary store.
    fn sight(&self, reached: bool) -> Sight {
        let claimed = *self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = claimed.is_some_and(|at| at.elapsed() < CLAIMS_FOR);
        match reached {
            true => Sight::Reached { prolong: PROLONG, claims },
            false if claims => Sight::Missed,
            false => Sight::Unknown,
        }
    }

    /// The primary store's server may have begun anew.
    fn remember(&self, run: &str) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs[0] != run {
            *runs = [run.to_owned(), std::mem::take(&mut runs[0])];
        }
    }

    /// Looks whether Redis can be used, and says so once if that has changed, and now and then if it cannot.
    async fn look_at_redis(&self) -> Result<Signs, String> {
        let signs = self.signs_of_life().await;
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match &signs {
            Ok(_) => {
                if refused.take().is_some() {
                    tracing::info!(server = %self.server.address(), "Redis can be used again");
                }
            }
            Err(why) => {
                let known = refused.as_ref().is_some_and(|(_, said)| said.elapsed() < SAY_AGAIN_AFTER);
                let said = refused.as_ref().filter(|_| known).map_or_else(Instant::now, |(_, said)| *said);
                if !known {
                    tracing::error!(
                        server = %self.server.address(), reason = why,
                        "Redis cannot be used; PostgreSQL hands out jobs before long, unless other workers can use it"
                    );
                }
                *refused = Some((why.clone(), said));
            }
        }
        signs
    }

    /// Why Redis cannot be used, if this process found that it cannot.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(why, _)| why.clone())
    }

    /// What Redis shows by a write that it takes: a server that only answers cannot hand out jobs. In a cluster there
    /// is a write for each of some queues, on the node that has it.
    async fn signs_of_life(&self) -> Result<Signs, String> {
        let keys = if self.server.address().is_cluster() {
            let known = self.known();
            let mut queues: Vec<String> = known.iter().flat_map(|known| known.queues.keys()).cloned().collect();
            fastrand::shuffle(&mut queues);
            queues.truncate(SIGNS_MAX_QUEUES);
            queues.iter().map(|queue| self.namespace.owner(Some(queue))).collect()
        } else {
            vec![self.namespace.owner(None)]
        };
        let mut signs = Signs { time_ms: u64::MAX, caches: true };
        for key in keys {
            signs.add(self.own(&key).await?);
        }
        if signs.time_ms == u64::MAX {
            let times: RedisResult<Vec<(u64, u64)>> = self.server.call_all(&redis::cmd("TIME")).await;
            for (seconds, micros) in times.map_err(|error| error.to_string())? {
                signs.add(Signs { time_ms: seconds * 1_000 + micros / 1_000, caches: true });
            }
        }
        Ok(signs)
    }

    /// Shows by a write that the jobs are of this primary store.
    async fn own(&self, key: &str) -> Result<Signs, String> {
        if let Some(signs) = self.try_to_own(key).await? {
            return Ok(signs);
        }
        // The primary store's server may have begun anew, and others may have heard of that before.
        let answer = self.primary.dispatching(Sight::Unknown).await.map_err(|error| error.to_string())?;
        self.remember(&answer.server_run);
        self.try_to_own(key).await?.ok_or_else(|| IS_A_COPY.to_owned())
    }

    /// The same; nothing if they are another's.
    async fn try_to_own(&self, key: &str) -> Result<Option<Signs>, String> {
        let [run, before] = self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut call = OWN.prepare_invoke();
        call.key(key).arg(&run).arg(before).arg(OWNED_FOR.as_millis() as u64);
        let answer: RedisResult<(String, u64, u64, u8)> = self.server.run(&call).await;
        let (owner, seconds, micros, caches) = answer.map_err(|error| error.to_string())?;
        let signs = Signs { time_ms: seconds * 1_000 + micros / 1_000, caches: caches == 1 };
        Ok((owner == run).then_some(signs))
    }
}

/// What Redis shows.
#[derive(Debug, Clone, Copy)]
struct Signs {
    /// Its time; that of the slowest clock, if there are several.
    time_ms: u64,
    /// Whether it has memory enough to cache jobs.
    caches: bool,
}

impl Signs {
    fn add(&mut self, other: Self) {
        self.time_ms = self.time_ms.min(other.time_ms);
        self.caches &= other.caches;
    }
}
