//! The store: the primary store with Redis in front of its queues.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use punctual_core::{
    AttemptId, Change, Changed, Claim, ClaimRequest, Claimed, Diagnostic, Enqueued, Heartbeat, JobId, Lock, NewJob,
    Queue as QueueRecord, QueueEvent, QueueSave, Schema, Settled, Settlement, StoreError, StoreInfo, StoreResult,
    Timestamp, Verb, Watch, WorkerId, WorkerRecord,
    dispatch::{GRACE, Hint, Lane, PrimaryStore},
    limiter::{LimitUsage, OccupiedSlot},
    store::{Layer, Metric, PassOn, ports::*},
};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use crate::{
    claim, dead_workers, diagnostics,
    dispatch_lease::QueueDispatch,
    heartbeats::ALIVE_FOR,
    locks::Vote,
    options::Options,
    push::{self, BeforeStoring},
    server::store_error,
    shared::Shared,
};

/// Interval between checks whether claimed jobs have been recorded.
const CLOSE_POLL_PERIOD: Duration = Duration::from_millis(5);

/// Jobs that a primary store owns and Redis hands out.
#[derive(Clone)]
pub struct DispatchStore(Arc<Shared>);

impl fmt::Debug for DispatchStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DispatchStore({:?}, {})", self.0.primary, self.0.server.address())
    }
}

impl DispatchStore {
    /// Puts Redis in front of a primary store that was opened for dispatching.
    ///
    /// Redis need not be reachable: until it is, the primary store hands out the jobs.
    pub async fn open(primary: Arc<dyn PrimaryStore>, options: impl Into<Options>) -> StoreResult<Self> {
        Ok(Self(Arc::new(Shared::open(primary, options.into()).await?)))
    }

    /// The store that owns the jobs.
    pub fn primary(&self) -> &Arc<dyn PrimaryStore> {
        &self.0.primary
    }

    /// Records all executions that have begun, so that the next query of the primary store includes them.
    pub async fn record(&self) {
        self.0.write_behind.flush().await;
    }

    /// Removes all keys of this store from Redis. For a store that is about to be dropped and has no other users.
    pub async fn remove_keys(&self) -> StoreResult<()> {
        let remove = async {
            for key in self.0.server.scan(&self.0.namespace.pattern()).await? {
                let _: u64 = self.0.server.call(redis::cmd("UNLINK").arg(key)).await?;
            }
            Ok(())
        };
        remove.await.map_err(|error| store_error(self.0.server.address(), &error))
    }

    /// Called before a queue is limited: afterwards Redis hands out no more jobs of it, and the primary store knows the
    /// jobs that Redis has handed out.
    async fn close(&self, name: &str) -> StoreResult<()> {
        let state = self.0.dispatch_lease.state().await?;
        let QueueDispatch::Open { epoch, .. } = state.queue(name) else { return Ok(()) };
        let deadline = Instant::now() + 2 * GRACE;
        while let Ok(1..) = self.0.queue(name, epoch).close().await {
            self.0.write_behind.flush().await;
            if Instant::now() > deadline {
                break;
            }
            time::sleep(CLOSE_POLL_PERIOD).await;
        }
        Ok(())
    }

    /// Removes jobs from Redis that must not be handed out any more.
    async fn forget(&self, ids: &[JobId]) -> StoreResult<()> {
        let state = self.0.dispatch_lease.state().await?;
        for id in ids {
            let job = self.0.primary.get(*id).await?;
            let Some(job) = job.filter(|job| !job.status.is_active()) else { continue };
            let Some(epoch) = state.epoch(&job.spec.queue) else { continue };
            let lane = Lane { queue: job.spec.queue, name: job.spec.name, priority: job.spec.priority };
            let hint = Hint { lane: Arc::new(lane), run_at: job.run_at, job: *id };
            let queue = self.0.queue(&hint.lane.queue, epoch);
            if let Err(error) = queue.forget(std::slice::from_ref(&hint)).await {
                tracing::debug!(%error, "cannot take a job from Redis");
            }
        }
        Ok(())
    }
}

/// Watches the primary store, and executions that were lost before the primary store knew them.
struct Listener {
    primary: Box<dyn Watch>,
    lost: watch::Receiver<()>,
}

#[async_trait]
impl Watch for Listener {
    async fn changed(&mut self) {
        tokio::select! {
            () = self.primary.changed() => {}
            Ok(()) = self.lost.changed() => {}
        }
    }
}

impl Layer for DispatchStore {
    fn inner(&self) -> &dyn Store {
        &*self.0.primary
    }

    /// All executions that have begun are recorded before the primary store is queried.
    async fn around<T: Send>(
        &self,
        _operation: &'static str,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        self.record().await;
        call.await
    }
}

impl PassOn<dyn LeaseStore> for DispatchStore {}
impl PassOn<dyn JobReader> for DispatchStore {}
impl PassOn<dyn FlowStore> for DispatchStore {}
impl PassOn<dyn ScheduleStore> for DispatchStore {}
impl PassOn<dyn NotificationStore> for DispatchStore {}
impl PassOn<dyn TokenStore> for DispatchStore {}
impl PassOn<dyn TransferStore> for DispatchStore {}
impl PassOn<dyn RetentionStore> for DispatchStore {}

#[async_trait]
impl JobStore for DispatchStore {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        let before = BeforeStoring::read(&self.0).await?;
        let stored = self.0.primary.store(jobs.clone()).await?;
        // The jobs are stored: an error of Redis must not fail the call.
        if let Err(error) = push::push(&self.0, jobs, &stored, &before).await {
            tracing::debug!(%error, "cannot pass new jobs to Redis; they will be found later");
        }
        if stored.iter().any(|stored| stored.enqueued.updated) {
            // The cached document of an updated job is outdated.
            self.0.reconciler.dispatch_due(&self.0.dispatch_lease, Duration::ZERO).await?;
        }
        self.0.work.wake();
        Ok(stored.into_iter().map(|stored| stored.enqueued).collect())
    }

    async fn change(&self, changes: Vec<Change>) -> StoreResult<Vec<Changed>> {
        self.record().await;
        let gone = |change: &&Change| matches!(change.verb, Verb::Cancel | Verb::Delete);
        let ids: Vec<JobId> = changes.iter().filter(gone).map(|change| change.job).collect();
        let changed = self.0.primary.change(changes).await?;
        self.forget(&ids).await?;
        Ok(changed)
    }
}

#[async_trait]
impl ClaimStore for DispatchStore {
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        claim::claim(&self.0, request).await
    }

    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.around("confirm", self.0.primary.confirm(worker, attempts)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        // On a task of its own: dropping the caller must not cancel half-done work.
        let write_behind = Arc::clone(&self.0.write_behind);
        let settled = tokio::spawn(async move { write_behind.settle(settlements).await }).await;
        settled.map_err(|_| StoreError::Closed)?
    }

    async fn share_claims(&self, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.0.write_behind.record_now(attempts).await
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        dead_workers::take_from_dead(&self.0, worker).await?;
        self.0.primary.claims_of_dead(worker, limit).await
    }
}

#[async_trait]
impl QueueStore for DispatchStore {
    async fn queues(&self) -> StoreResult<Vec<QueueRecord>> {
        self.around("queues", self.0.primary.queues()).await
    }

    async fn save_queue(&self, save: QueueSave) -> StoreResult<bool> {
        self.record().await;
        let (name, paused) = (save.name.clone(), save.settings.paused);
        let former = self.0.primary.queues().await?.into_iter().find(|queue| queue.name == name);
        let settings = former.map(|queue| queue.settings).unwrap_or_default();
        // Limits that cannot be read may have closed the queue.
        let was_guarded = settings.unreadable.is_some() || settings.limits.guard_all();
        let guarded = save.settings.limits.guard_all();
        if guarded {
            self.close(&name).await?;
        }
        let saved = self.0.primary.save_queue(save).await?;
        let state = self.0.dispatch_lease.state().await?;
        if let QueueDispatch::Open { epoch, .. } = state.queue(&name) {
            if saved && let Err(error) = self.0.queue(&name, epoch).pause(paused).await {
                tracing::warn!(queue = name, %error, "cannot pause or resume the queue in Redis");
            }
            if (saved && was_guarded && !guarded) || (!saved && guarded && !was_guarded) {
                // Redis hands out its jobs again, without a pause: no claim is checking limits, since `save_queue`
                // waits for those.
                self.0.primary.give(name, epoch, Duration::ZERO).await?;
                self.0.dispatch_lease.forget();
            }
        }
        self.0.primary.reload().await?;
        self.0.work.wake();
        Ok(saved)
    }

    async fn queue_events(&self, name: String, limit: usize) -> StoreResult<Vec<QueueEvent>> {
        self.around("queue_events", self.0.primary.queue_events(name, limit)).await
    }

    async fn limit_usage(&self, queue: String, key: Option<String>) -> StoreResult<LimitUsage> {
        self.around("limit_usage", self.0.primary.limit_usage(queue, key)).await
    }

    async fn occupied_slots(&self, queue: String) -> StoreResult<Vec<OccupiedSlot>> {
        self.around("occupied_slots", self.0.primary.occupied_slots(queue)).await
    }
}

#[async_trait]
impl WorkerStore for DispatchStore {
    async fn heartbeat(&self, heartbeat: Heartbeat) -> StoreResult<()> {
        self.0.heartbeats.heartbeat(heartbeat.id).await;
        self.record().await;
        self.0.primary.heartbeat(heartbeat).await
    }

    async fn deregister(&self, worker: WorkerId) -> StoreResult<()> {
        self.record().await;
        self.0.primary.deregister(worker).await?;
        self.0.heartbeats.stop(worker).await;
        Ok(())
    }

    async fn end_leases(&self, worker: WorkerId) -> StoreResult<usize> {
        let put_back = dead_workers::take_from_dead(&self.0, worker).await?;
        Ok(put_back + self.0.primary.end_leases(worker).await?)
    }

    async fn workers(&self) -> StoreResult<Vec<WorkerRecord>> {
        self.around("workers", self.0.primary.workers()).await
    }
}

#[async_trait]
impl LockStore for DispatchStore {
    async fn lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<Option<Lock>> {
        let key = [self.0.namespace.lock(&name)];
        if self.0.locks.take(&key, &owner, self.now(), ttl).await == [Vote::Lost] {
            return Ok(None);
        }
        let lock = self.0.primary.lock(name, owner.clone(), ttl).await;
        if !matches!(lock, Ok(Some(_))) {
            self.0.locks.release(&key, &owner).await;
        }
        lock
    }

    async fn extend_lock(&self, name: String, owner: String, ttl: Duration) -> StoreResult<bool> {
        let key = [self.0.namespace.lock(&name)];
        let extended = self.0.primary.extend_lock(name, owner.clone(), ttl).await?;
        if extended {
            self.0.locks.take(&key, &owner, self.now(), ttl).await;
        }
        Ok(extended)
    }

    async fn unlock(&self, name: String, owner: String) -> StoreResult<bool> {
        let key = [self.0.namespace.lock(&name)];
        let freed = self.0.primary.unlock(name, owner.clone()).await?;
        self.0.locks.release(&key, &owner).await;
        Ok(freed)
    }

    async fn locks(&self) -> StoreResult<Vec<Lock>> {
        self.around("locks", self.0.primary.locks()).await
    }
}

#[async_trait]
impl EngineStore for DispatchStore {
    fn info(&self) -> StoreInfo {
        let primary = self.0.primary.info();
        StoreInfo {
            engine: "postgres+redis",
            version: format!("{} + {}", primary.version, self.0.version),
            location: format!("{} + {}", primary.location, self.0.server.address()),
        }
    }

    fn now(&self) -> Timestamp {
        self.0.primary.now()
    }

    fn worker_silence_max(&self) -> Option<Duration> {
        Some(ALIVE_FOR)
    }

    fn unrecorded_until(&self, attempt: AttemptId) -> Option<std::time::Instant> {
        self.0.write_behind.unrecorded_until(attempt).map(Instant::into_std)
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(Listener { primary: self.0.primary.watch(), lost: self.0.write_behind.lost.subscribe() })
    }

    fn wake_claims(&self) {
        self.0.claim_wakeups.wake();
    }

    async fn maintain(&self) -> StoreResult<()> {
        self.0.reconciler.maintain(&self.0.dispatch_lease).await?;
        self.0.heartbeats.end_dead_leases(&self.0.repairs).await?;
        self.0.primary.maintain().await
    }

    async fn metrics(&self) -> StoreResult<Vec<Metric>> {
        const ABOUT: &str = "Repairs of differences between Redis and PostgreSQL.";
        const USED: &str = "Whether this process can use Redis: 1, or 0 while PostgreSQL hands out jobs.";
        let mut metrics = self.0.primary.metrics().await?;
        metrics.push(Metric::new(
            "punctual_dispatch_up",
            USED,
            f64::from(u8::from(self.0.dispatch_lease.refused().is_none())),
        ));
        // While Redis cannot be reached, no repairs are reported.
        for (kind, count) in self.0.repairs.all().await.unwrap_or_default() {
            let labels = vec![("kind", kind)];
            metrics.push(Metric { labels, ..Metric::new("punctual_dispatch_repairs_total", ABOUT, count as f64) });
        }
        Ok(metrics)
    }

    async fn probe(&self) -> StoreResult<()> {
        self.around("probe", self.0.primary.probe()).await
    }

    async fn schema(&self) -> StoreResult<Schema> {
        self.around("schema", self.0.primary.schema()).await
    }

    async fn check(&self) -> StoreResult<Vec<Diagnostic>> {
        self.record().await;
        let mut diagnostics = self.0.primary.check().await?;
        diagnostics.extend(diagnostics::check(&self.0).await?);
        Ok(diagnostics)
    }
}
