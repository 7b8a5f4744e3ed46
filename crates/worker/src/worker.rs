//! A worker, from its settings to its graceful stop.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use punctual_client::{Job, Punctual, Recurring, admin::Retention};
use punctual_core::{Error, Invalid, Settlement, StoreError, WorkerId, check, limits};
use tokio::{task::JoinHandle, time};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Alerts, Handler, ManualWorker, Stats,
    alerts::{self, AlertQueue},
    claimer::Claimer,
    confirmer::{self, Confirmer},
    isolation::Isolation,
    lease,
    maintenance::{self, Restart},
    outbox::Outbox,
    registry::Registry,
    settler,
    shared::{Awaiting, Config, QueueOrder, Senders, Shared},
    ticker,
};

/// How long after the grace period jobs are released whose handlers did not react to the request to stop.
const UNRESPONSIVE_SLACK: Duration = Duration::from_millis(500);

/// Entry point to create a worker: see [`Worker::builder`].
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// Returns the settings of a worker on this store.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// use punctual_client::{Context, Draft, Punctual};
    /// use punctual_worker::Worker;
    /// use std::time::Duration;
    ///
    /// let punctual = Punctual::connect(&url).await?;
    /// let worker = Worker::builder(punctual.clone())
    ///     .handler("greet", |ctx: Context| async move {
    ///         ctx.info("hello");
    ///         Ok(None)
    ///     })
    ///     .concurrency(8)
    ///     .start()
    ///     .await?;
    /// let job = punctual.enqueue(Draft::new("greet", &"world")).await?;
    /// let done = punctual.wait(job.id, Duration::from_secs(10)).await?;
    /// assert_eq!(done.status.as_str(), "succeeded");
    /// worker.stop().await;
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn builder(punctual: Punctual) -> WorkerBuilder {
        let config = Config {
            queues: Vec::new(),
            order: QueueOrder::Together,
            concurrency: 32,
            lease: Duration::from_secs(30),
            poll_period: Duration::from_secs(1),
            drain_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            retention: Some(Retention::default()),
            upkeep_only: false,
            no_upkeep: false,
            isolation: Isolation::of_process(),
        };
        WorkerBuilder { punctual, registry: Registry::default(), config, schedules: None, alerts: None }
    }
}

/// Settings of a worker.
#[derive(Debug)]
#[must_use]
pub struct WorkerBuilder {
    punctual: Punctual,
    registry: Registry,
    config: Config,
    schedules: Option<(String, Vec<Recurring>)>,
    alerts: Option<Alerts>,
}

impl WorkerBuilder {
    /// Runs jobs of the type `J`, each with a clone of `state`.
    pub fn register<J: Job>(mut self, state: J::State) -> Self {
        self.registry.add_job::<J>(state);
        self
    }

    /// Runs jobs of this name with `handler`.
    pub fn handler(mut self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.registry.add(name, Arc::new(handler));
        self
    }

    /// Serves only these queues; all by default.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.config.queues = queues.into_iter().map(Into::into).collect();
        self
    }

    /// Serves only these queues, in strict order: jobs of a queue are claimed only while the queues before it have
    /// none.
    pub fn strict_queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.config.order = QueueOrder::Strict;
        self.queues(queues)
    }

    /// Serves only these queues, in proportion to their weights while all of them have jobs.
    pub fn weighted_queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = (Q, u32)>) -> Self {
        let (queues, weights): (Vec<Q>, Vec<u32>) = queues.into_iter().unzip();
        self.config.order = QueueOrder::Weighted(weights);
        self.queues(queues)
    }

    /// Maximum concurrent jobs; 32 by default.
    pub const fn concurrency(mut self, jobs: usize) -> Self {
        self.config.concurrency = jobs;
        self
    }

    /// Lease duration: how long a job is held without a renewal; 30 s by default.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// How often to look for jobs if no hint arrives; 1 s by default.
    pub const fn poll_period(mut self, period: Duration) -> Self {
        self.config.poll_period = period;
        self
    }

    /// How long a stop waits for running jobs before it releases them; 30 s by default.
    pub const fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.config.drain_timeout = timeout;
        self
    }

    /// Grace period of handlers after they were asked to stop; 5 s by default. The job is settled, and its slot in a
    /// limit is released, when the handler has ended or this time is over.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.config.grace = grace;
        self
    }

    /// Retention periods of finished jobs; `None` leaves retention to other workers.
    pub const fn retention(mut self, retention: Option<Retention>) -> Self {
        self.config.retention = retention;
        self
    }

    /// Runs no jobs and needs no handlers: only enqueues schedules, requeues the jobs of lost workers, and runs
    /// retention. For deployments whose jobs are run by other processes.
    pub const fn upkeep_only(mut self) -> Self {
        self.config.upkeep_only = true;
        self
    }

    /// Synchronizes the schedules of `owner`, the program that defines them, at the start: see
    /// [`Punctual::sync_schedules`].
    pub fn schedules(mut self, owner: impl Into<String>, schedules: impl IntoIterator<Item = Recurring>) -> Self {
        self.schedules = Some((owner.into(), schedules.into_iter().collect()));
        self
    }

    /// Enables alerts. One of all workers with alerts checks for them. Webhook deliveries have slots of their own,
    /// whatever queues the worker serves and however busy it is.
    pub fn alerts(mut self, alerts: Alerts) -> Self {
        self.alerts = Some(alerts);
        self
    }

    /// Checks the settings, as the start does.
    pub fn check(&self) -> Result<(), Invalid> {
        let Config { queues, concurrency, lease, poll_period, .. } = &self.config;
        if self.registry.names().is_empty() && !self.config.upkeep_only {
            return Err(Invalid::new("handlers", "must not be empty; register at least one job"));
        }
        if let Some(alerts) = &self.alerts {
            alerts.check()?;
        }
        self.registry.names().iter().try_for_each(|name| check::name("name", name, limits::NAME_MAX_CHARS))?;
        queues.iter().try_for_each(|queue| check::name("queue", queue, limits::QUEUE_MAX_CHARS))?;
        if let QueueOrder::Weighted(weights) = &self.config.order
            && weights.iter().any(|weight| !(1..=1_000).contains(weight))
        {
            return Err(Invalid::new("weight", "must be between 1 and 1000"));
        }
        if self.config.order != QueueOrder::Together && queues.len() > 1_000 {
            return Err(Invalid::too_long("queues", queues.len(), 1_000, "queues in an order"));
        }
        check::range("concurrency", *concurrency, 1..=100_000)?;
        check::duration("lease", *lease, limits::LEASE_MIN, limits::LEASE_MAX)?;
        check::duration("poll_period", *poll_period, limits::POLL_MIN, limits::POLL_MAX)
    }

    /// Starts the worker.
    pub async fn start(mut self) -> Result<RunningWorker, Error> {
        self.check()?;
        if self.config.isolation == Isolation::Only {
            self.config.concurrency = 1;
        }
        self.punctual.until_writable().await;
        if let Some((owner, schedules)) = self.schedules {
            self.punctual.sync_schedules(&owner, schedules).await?;
        }
        let alert_queue = self.alerts.map(|alerts| AlertQueue::new(self.punctual.clone(), alerts));
        let delivery_worker = alert_queue.as_ref().map(delivery_worker).transpose()?.flatten();
        let ((outbox, inbox), (confirmer, requests)) = (Outbox::new(), Confirmer::new());
        let shared = Shared::new(self.punctual, self.registry, self.config, Senders { outbox, confirmer });
        let works = !shared.config.upkeep_only;
        if works {
            lease::heartbeat(&shared).await;
        }
        let mut restart = Restart::Unclear;
        restart.check(&shared).await?;
        let done = CancellationToken::new();
        let executions = TaskTracker::new();
        let mut tasks = vec![
            tokio::spawn(settler::run(Arc::clone(&shared), inbox)),
            tokio::spawn(confirmer::run(Arc::clone(shared.store()), shared.id, requests)),
        ];
        if !shared.config.no_upkeep {
            tasks.push(tokio::spawn(maintenance::reap_on(Arc::clone(&shared), restart, done.clone())));
            tasks.push(tokio::spawn(ticker::tick_on(Arc::clone(&shared), alert_queue.clone(), done.clone())));
        }
        if let Some(alert_queue) = alert_queue {
            tasks.push(tokio::spawn(alerts::watch_on(alert_queue, shared.id.to_string(), done.clone())));
        }
        if let Some(retention) = shared.config.retention {
            tasks.push(tokio::spawn(maintenance::retain_on(Arc::clone(&shared), retention, done.clone())));
        }
        let claimer = if works {
            tasks.push(tokio::spawn(lease::keep(Arc::clone(&shared), done.clone())));
            tasks.push(tokio::spawn(lease::expire_on(Arc::clone(&shared), done.clone())));
            tokio::spawn(Claimer::new(Arc::clone(&shared), executions.clone()).run())
        } else {
            tokio::spawn(async {})
        };
        tracing::info!(worker = %shared.id, concurrency = shared.config.concurrency, "started");
        // Started after this worker, which otherwise would not be the first one after a restart.
        let delivery_worker = match delivery_worker {
            Some(delivery_worker) => Some(Box::new(Box::pin(delivery_worker.start()).await?)),
            None => None,
        };
        Ok(RunningWorker { shared, executions, claimer, tasks, done, delivery_worker })
    }

    /// Returns the worker in a manual mode for tests.
    pub fn manual(self) -> Result<ManualWorker, Error> {
        self.check()?;
        let alert_queue = self.alerts.map(|alerts| AlertQueue::new(self.punctual.clone(), alerts));
        let mut registry = self.registry;
        if let Some(delivery_worker) = alert_queue.as_ref().map(delivery_worker).transpose()?.flatten() {
            registry.add_all(delivery_worker.registry);
        }
        Ok(ManualWorker::new(self.punctual, registry, self.config, alert_queue))
    }
}

/// A running worker. If it is dropped without [`stop`](Self::stop), it continues until its runtime ends.
#[derive(Debug)]
pub struct RunningWorker {
    shared: Arc<Shared>,
    executions: TaskTracker,
    claimer: JoinHandle<()>,
    tasks: Vec<JoinHandle<()>>,
    done: CancellationToken,
    /// The worker that delivers alerts to webhooks.
    delivery_worker: Option<Box<RunningWorker>>,
}

/// The worker that delivers alerts to webhooks, if there are any. It has slots of its own, since an alert may report
/// that no slots are left.
#[cfg(feature = "webhooks")]
fn delivery_worker(alert_queue: &Arc<AlertQueue>) -> Result<Option<WorkerBuilder>, Invalid> {
    const CONCURRENT_DELIVERIES: usize = 4;
    let Some(handler) = alerts::DeliveryHandler::new(&alert_queue.alerts)? else { return Ok(None) };
    let mut worker = Worker::builder(alert_queue.punctual.clone())
        .handler(alerts::ALERT_JOB, move |ctx| Arc::clone(&handler).deliver(ctx))
        .queues([alerts::ALERTS_QUEUE])
        .concurrency(CONCURRENT_DELIVERIES)
        .retention(None);
    worker.config.no_upkeep = true;
    Ok(Some(worker))
}

#[cfg(not(feature = "webhooks"))]
fn delivery_worker(_: &Arc<AlertQueue>) -> Result<Option<WorkerBuilder>, Invalid> {
    Ok(None)
}

impl RunningWorker {
    /// Its id.
    pub fn id(&self) -> WorkerId {
        self.shared.id
    }

    /// Its statistics so far.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Returns a function that reads the statistics, which outlives this value.
    pub fn watch_stats(&self) -> impl Fn() -> Stats + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.stats()
    }

    /// Returns a function that tells why the worker does not claim jobs, if it does not; it outlives this value.
    pub fn watch_claims(&self) -> impl Fn() -> Option<&'static str> + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.why_not_claiming()
    }

    /// Waits until the worker has nothing to run: no job is due for it, and all claimed jobs are settled. Includes all
    /// jobs that were enqueued before the call.
    pub async fn until_empty(&self) {
        let _awaiting = Awaiting::begin(&self.shared);
        let mut load = self.shared.load.subscribe();
        let before = load.borrow().claims();
        loop {
            let now = *load.borrow_and_update();
            if now.is_empty_since(before) {
                return;
            }
            if now.unsettled == 0 {
                self.shared.claim_now.notify_one();
            }
            let _ = load.changed().await;
        }
    }

    /// Waits until the store has failed permanently in this process, and returns the error; see [`StoreError::Failed`].
    /// From then on the worker can neither claim nor settle, and the process should end with an error. Never returns
    /// with most engines.
    pub async fn failed(&self) -> StoreError {
        self.shared.store().failed().await
    }

    /// Stops gracefully: claims no more jobs, waits for running jobs up to the drain timeout, and then releases the
    /// rest. Returns the statistics of the worker.
    pub async fn stop(self) -> Stats {
        self.stop_or_hurry(&CancellationToken::new()).await
    }

    /// Stops without waiting for running jobs: they are released, if the store can be reached.
    pub async fn stop_now(self) -> Stats {
        let now = CancellationToken::new();
        now.cancel();
        self.stop_or_hurry(&now).await
    }

    /// Stops like [`stop`](Self::stop); once `hurry` is cancelled, the running handlers are asked to stop, and their
    /// jobs are released within half a second.
    pub async fn stop_or_hurry(self, hurry: &CancellationToken) -> Stats {
        let Self { shared, executions, claimer, tasks, done, delivery_worker } = self;
        if let Some(delivery_worker) = delivery_worker {
            // Do not wait for an unresponsive webhook: another worker delivers the alert.
            delivery_worker.shared.releasing.cancel();
            Box::pin(delivery_worker.stop_or_hurry(hurry)).await;
        }
        // If the caller stops waiting, no task continues to run.
        let mut tasks = Tasks(tasks);
        tasks.0.push(tokio::spawn(forward_hurry(hurry.clone(), Arc::clone(&shared))));
        shared.draining.cancel();
        let _ = claimer.await;
        executions.close();
        let drained = hurry.run_until_cancelled(time::timeout(shared.config.drain_timeout, executions.wait())).await;
        if !matches!(drained, Some(Ok(()))) {
            tracing::warn!(worker = %shared.id, jobs = executions.len(), "releasing jobs that did not finish within the drain timeout");
        }
        shared.releasing.cancel();
        tokio::select! {
            () = shared.all_settled() => {}
            () = shared.grace_over().then(|()| time::sleep(UNRESPONSIVE_SLACK)) => release_unresponsive(&shared).await,
        }
        // The remaining jobs have ended, but the store does not accept their outcomes now. Their work is done, so wait
        // for it.
        let settled = time::timeout(shared.config.drain_timeout, shared.all_settled()).await.is_ok();
        if !settled {
            let jobs = shared.stats().running;
            tracing::error!(worker = %shared.id, jobs, "stopped before all outcomes were stored; these jobs run again");
        }
        done.cancel();
        // Before deregistering, so that no heartbeat follows.
        drop(tasks);
        // Handlers that were stopped have some time to clean up.
        let _ = time::timeout(shared.config.grace, executions.wait()).await;
        shared.registry.stop().await;
        if let Err(error) = shared.store().deregister(shared.id).await {
            tracing::warn!(worker = %shared.id, %error, "cannot deregister");
        }
        tracing::info!(worker = %shared.id, settled, "stopped");
        shared.stats()
    }
}

async fn forward_hurry(hurry: CancellationToken, shared: Arc<Shared>) {
    hurry.cancelled().await;
    shared.hurried.cancel();
}

/// Releases the jobs of handlers that do not notice the request to stop because they block their thread.
async fn release_unresponsive(shared: &Shared) {
    // Jobs that were taken away occupy their slots until their leases expire.
    shared.forget_given_up();
    let unresponsive = shared.unended_attempts();
    if unresponsive.is_empty() {
        return;
    }
    tracing::warn!(worker = %shared.id, jobs = unresponsive.len(), "releasing jobs whose handlers do not react to the request to stop");
    // A job that runs at most once is not released: it is dead when its lease expires.
    let releases = shared.releasable_attempts().into_iter().map(|attempt| Settlement::release(attempt, shared.id));
    let releases = releases.collect();
    if let Err(error) = shared.store().settle(releases).await {
        tracing::error!(worker = %shared.id, %error, "cannot release all jobs; their leases will expire");
    }
    shared.end(unresponsive);
}

/// The tasks of a worker, aborted on drop.
struct Tasks(Vec<JoinHandle<()>>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
