//! The dispatch lease: whether Redis or the primary store hands out a queue's jobs.
//!
//! The primary store decides: it stores until when Redis hands out jobs, and the epoch of each queue. Every process
//! that claims extends that time, keeps to the epochs, and reads both again before its copy is outdated. So no two
//! sides ever hand out the same jobs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{
    StoreResult, Timestamp,
    dispatch::{DispatchedQueue, GRACE, PrimaryStore, Reachability},
};
use redis::RedisResult;
use tokio::time::{self, Instant};

use crate::{keys::Namespace, scripts::OWN, server::Server};

/// How long Redis hands out jobs after the lease was extended.
const PROLONG: Duration = Duration::from_secs(2);
/// How long the state may be trusted after it was read, and how often it is read again.
const GOOD_FOR: Duration = Duration::from_secs(1);
const READ_PERIOD: Duration = Duration::from_millis(300);
/// The state is kept current for this long after its last use, so that operations need not wait for it.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How often a claim reads the state again if the process was suspended while it was read.
const READ_AGAIN_MAX: usize = 3;
/// The pause between two sides that hand out the same jobs: until the first has noticed, and the jobs that it handed
/// out are recorded or given up.
pub(crate) const PAUSE: Duration = GOOD_FOR.saturating_add(GRACE);
/// How long after its last claim a process counts as claiming.
const CLAIMS_FOR: Duration = Duration::from_secs(5);
/// How long after the last proof of ownership no other server's jobs may be in Redis.
const OWNED_FOR: Duration = Duration::from_secs(3);
/// Maximum number of queues whose nodes are checked at once in a cluster.
const SIGNS_MAX_QUEUES: usize = 16;
/// Interval between log messages that Redis cannot be used.
const LOG_AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The message if the jobs in Redis belong to another server.
const IS_A_COPY: &str = "its jobs are of another PostgreSQL server; if this database is a copy of that one, use another Redis, or run \
                         `update punctual_dispatch set store_id = gen_random_uuid()` in the copy";
/// How long a job is new after it was stored. Within this time, the process that stored it sends it to Redis with its
/// document; later it gets there by the reconciler.
const NEW_FOR_MS: u64 = 2_000;

/// The dispatch state that this process has read.
#[derive(Debug, Clone)]
pub(crate) struct DispatchState {
    /// When the primary store was queried.
    requested_at: Instant,
    /// When the state became known: finding out that Redis cannot be used may take long.
    known_since: Instant,
    /// How much longer Redis handed out jobs at that time.
    left: Duration,
    /// Scheduled jobs up to this time have been dispatched.
    pub(crate) due_until: Option<Timestamp>,
    queues: HashMap<String, DispatchedQueue>,
    /// The time of Redis then, in milliseconds, if it was reached and accepted a write.
    redis_ms: Option<u64>,
    /// Whether Redis had enough memory to cache jobs.
    caches: bool,
    /// How long ago a worker could not reach Redis, if recently.
    pub(crate) missed: Option<Duration>,
}

/// The dispatch state of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueDispatch {
    /// The queue has not been assigned to Redis.
    Unknown,
    /// No side hands out its jobs yet.
    Closed { opens_in: Duration },
    /// A process may open it now.
    Ready { epoch: u64 },
    /// Redis hands out its jobs.
    Open { epoch: u64, since: Duration },
}

impl DispatchState {
    /// Whether Redis hands out jobs and the state is recent enough to rely on that.
    pub(crate) fn is_open(&self) -> bool {
        self.redis_ms.is_some() && self.requested_at.elapsed() < self.left.min(GOOD_FOR)
    }

    /// Whether Redis handed out jobs when the primary store was queried.
    const fn was_open(&self) -> bool {
        self.redis_ms.is_some() && !self.left.is_zero()
    }

    /// The dispatch state of a queue.
    pub(crate) fn queue(&self, queue: &str) -> QueueDispatch {
        let passed = self.requested_at.elapsed();
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

    /// The epoch in which a queue is open. Jobs may be sent to Redis, whether or not claims may take them from there.
    pub(crate) fn epoch(&self, queue: &str) -> Option<u64> {
        match self.queue(queue) {
            QueueDispatch::Open { epoch, .. } if self.redis_ms.is_some() => Some(epoch),
            _ => None,
        }
    }

    /// The same, if all jobs that were stored before have been sent to Redis, so that no other process sends a job that
    /// is stored from now on.
    pub(crate) fn settled_epoch(&self, queue: &str) -> Option<u64> {
        let loaded = self.queues.get(queue).is_some_and(|queue| queue.loaded);
        self.epoch(queue).filter(|_| loaded)
    }

    /// Whether Redis has enough memory to cache jobs.
    pub(crate) const fn caches(&self) -> bool {
        self.caches
    }

    /// The queues that are assigned to Redis.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &DispatchedQueue> {
        self.queues.values()
    }

    /// Until when a job that is stored now is new, by the clock of Redis.
    pub(crate) fn new_until(&self) -> u64 {
        self.redis_ms.unwrap_or(0) + self.requested_at.elapsed().as_millis() as u64 + NEW_FOR_MS
    }
}

/// Reads the dispatch state from the primary store, and extends the lease.
pub(crate) struct DispatchLease {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    known: Mutex<Option<Arc<DispatchState>>>,
    /// When the state last changed. A state that was read before that may be outdated.
    forgotten: Mutex<Instant>,
    /// The run of the primary store's server that answered last, and the run before that.
    runs: Mutex<[String; 2]>,
    /// When the state was last used.
    wanted: Mutex<Instant>,
    /// When a claim last used it.
    claimed: Mutex<Option<Instant>>,
    /// Why Redis is not used, and when that was last logged.
    refused: Mutex<Option<(String, Instant)>>,
    /// One task reads the state for all.
    reading: tokio::sync::Mutex<()>,
}

impl DispatchLease {
    /// `server_run` is the run of the primary store's server that answered.
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
            reading: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> Option<Arc<DispatchState>> {
        let forgotten = *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|known| known.requested_at >= forgotten)
    }

    /// The dispatch state, recent enough to rely on.
    pub(crate) async fn state(&self) -> StoreResult<Arc<DispatchState>> {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.cached_or_read(|known| known.known_since.elapsed() < GOOD_FOR / 2).await
    }

    /// The same, for claims. If reading it took so long that it is outdated already, it is read again.
    pub(crate) async fn fresh_state(&self) -> StoreResult<Arc<DispatchState>> {
        *self.claimed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let mut state = self.state().await?;
        for _ in 0..READ_AGAIN_MAX {
            if state.is_open() || !state.was_open() {
                break;
            }
            state = self.state_since(Instant::now()).await?;
        }
        Ok(state)
    }

    /// The dispatch state, read after `instant`.
    pub(crate) async fn state_since(&self, instant: Instant) -> StoreResult<Arc<DispatchState>> {
        self.cached_or_read(|known| known.requested_at >= instant).await
    }

    /// Reads the state periodically, while it is in use.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            time::sleep(READ_PERIOD).await;
            let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if wanted.elapsed() < KEPT_FOR
                && let Err(error) = self.cached_or_read(|known| known.known_since.elapsed() < READ_PERIOD).await
            {
                tracing::debug!(%error, "cannot read the dispatch state from the primary store");
            }
        }
    }

    /// Marks the state as outdated.
    pub(crate) fn forget(&self) {
        *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    async fn cached_or_read(&self, is_valid: impl Fn(&DispatchState) -> bool) -> StoreResult<Arc<DispatchState>> {
        if let Some(known) = self.known().filter(|known| is_valid(known)) {
            return Ok(known);
        }
        let _one = self.reading.lock().await;
        if let Some(known) = self.known().filter(|known| is_valid(known)) {
            return Ok(known);
        }
        let requested_at = Instant::now();
        let signs = Box::pin(self.probe_redis()).await;
        let answer = self.primary.dispatching(self.reachability(signs.is_ok())).await?;
        self.remember(&answer.server_run);
        self.primary.reload().await?;
        let signs = signs.ok();
        let queues = answer.queues.into_iter().map(|queue| (queue.queue.clone(), queue)).collect();
        let state = Arc::new(DispatchState {
            requested_at,
            known_since: if signs.is_some() { requested_at } else { Instant::now() },
            left: answer.left,
            due_until: answer.due_until,
            queues,
            redis_ms: signs.as_ref().map(|signs| signs.time_ms),
            caches: signs.is_some_and(|signs| signs.caches),
            missed: answer.missed,
        });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&state));
        Ok(state)
    }

    /// What this process reports to the primary store.
    fn reachability(&self, reached: bool) -> Reachability {
        let claimed = *self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = claimed.is_some_and(|at| at.elapsed() < CLAIMS_FOR);
        match reached {
            true => Reachability::Reachable { prolong: PROLONG, claims },
            false if claims => Reachability::Unreachable,
            false => Reachability::Unknown,
        }
    }

    /// Stores the run of the primary store's server, which may have restarted.
    fn remember(&self, run: &str) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs[0] != run {
            *runs = [run.to_owned(), std::mem::take(&mut runs[0])];
        }
    }

    /// Checks whether Redis can be used. Logs a change once, and from time to time that it cannot be used.
    async fn probe_redis(&self) -> Result<Signs, String> {
        let signs = self.signs_of_life().await;
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match &signs {
            Ok(_) => {
                if refused.take().is_some() {
                    tracing::info!(server = %self.server.address(), "Redis can be used again");
                }
            }
            Err(why) => {
                let known = refused.as_ref().is_some_and(|(_, logged_at)| logged_at.elapsed() < LOG_AGAIN_AFTER);
                let logged_at =
                    refused.as_ref().filter(|_| known).map_or_else(Instant::now, |(_, logged_at)| *logged_at);
                if !known {
                    tracing::error!(
                        server = %self.server.address(), reason = why,
                        "Redis cannot be used; PostgreSQL hands out jobs before long, unless other workers can use it"
                    );
                }
                *refused = Some((why.clone(), logged_at));
            }
        }
        signs
    }

    /// Why this process cannot use Redis, if so.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(why, _)| why.clone())
    }

    /// Checks Redis by a write: a server that only answers reads cannot hand out jobs. In a cluster, one write for each
    /// of some queues, on the queue's node.
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

    /// Proves by a write that the jobs belong to this primary store.
    async fn own(&self, key: &str) -> Result<Signs, String> {
        if let Some(signs) = self.try_to_own(key).await? {
            return Ok(signs);
        }
        // The primary store's server may have restarted, and another process may have noticed that earlier.
        let answer = self.primary.dispatching(Reachability::Unknown).await.map_err(|error| error.to_string())?;
        self.remember(&answer.server_run);
        self.try_to_own(key).await?.ok_or_else(|| IS_A_COPY.to_owned())
    }

    /// The same; `None` if the jobs belong to another server.
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

/// What a check of Redis found.
#[derive(Debug, Clone, Copy)]
struct Signs {
    /// The time of Redis; the earliest, if there are several nodes.
    time_ms: u64,
    /// Whether Redis has enough memory to cache jobs.
    caches: bool,
}

impl Signs {
    fn add(&mut self, other: Self) {
        self.time_ms = self.time_ms.min(other.time_ms);
        self.caches &= other.caches;
    }
}
