//! The settings of a worker, and its start.

use std::{future::Future, sync::Arc, time::Duration};

use punctual_client::{Context, Punctual, Recurring, admin::Retention};
use punctual_core::{Error, Invalid, check, limits};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Alerts, Handler, HandlerResult, JobHandler, ManualWorker, Next, RunningWorker,
    alerts::{self, AlertQueue},
    claimer::Claimer,
    confirmer::{self, Confirmer},
    isolation::Isolation,
    lease,
    maintenance::{self, Restart},
    outbox::Outbox,
    registrations::Registrations,
    settler,
    shared::{Config, QueueOrder, Senders, Shared},
    ticker,
};

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
        WorkerBuilder { punctual, registrations: Registrations::default(), config, schedules: None, alerts: None }
    }
}

/// Settings of a worker.
#[derive(Debug)]
#[must_use]
pub struct WorkerBuilder {
    punctual: Punctual,
    registrations: Registrations,
    config: Config,
    schedules: Option<(String, Vec<Recurring>)>,
    alerts: Option<Alerts>,
}

impl WorkerBuilder {
    /// Runs the jobs of a type with a function that takes the job, its context and, if it needs one, a
    /// [state](Self::state). Each job name has one handler.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// use punctual_client::{Context, Failure, Job, Punctual};
    /// use punctual_worker::Worker;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Divide(u32, u32);
    ///
    /// // `#[derive(Job)]` of the crate `punctual` writes this.
    /// impl Job for Divide {
    ///     const NAME: &'static str = "divide";
    /// }
    ///
    /// async fn divide(job: Divide, ctx: Context) -> Result<u32, Failure> {
    ///     ctx.info(format!("attempt {}", ctx.attempt()));
    ///     job.0.checked_div(job.1).ok_or_else(|| Failure::permanent("division by zero"))
    /// }
    ///
    /// let punctual = Punctual::connect(&url).await?;
    /// let worker = Worker::builder(punctual.clone()).register(divide).manual()?;
    /// let job = punctual.enqueue(Divide(6, 2)).await?;
    /// worker.run_all().await?;
    /// assert_eq!(punctual.job(job.id).await?.result.unwrap().as_str(), "3");
    ///
    /// let twice = Worker::builder(punctual).register(divide).register(divide).check().unwrap_err();
    /// assert_eq!(twice.to_string(), "handlers: `divide` is registered twice; expected one handler per job name");
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn register<H: JobHandler<Args>, Args: 'static>(mut self, handler: H) -> Self {
        self.registrations.add_job(handler);
        self
    }

    /// Runs jobs of this name with `handler`, whatever their payload. Each job name has one handler.
    pub fn handler(mut self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.registrations.add(name, Arc::new(handler));
        self
    }

    /// Gives handlers the state that they take as their third argument, such as a connection pool: each execution
    /// receives a clone. Handlers find their state by its type; the start fails if a handler takes one that is missing.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    /// # use punctual_client::{Context, Failure, Job, Punctual};
    /// # use punctual_worker::Worker;
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Greet(String);
    /// # impl Job for Greet {
    /// #     const NAME: &'static str = "greet";
    /// # }
    /// # let punctual = Punctual::connect(&url).await?;
    /// #[derive(Clone)]
    /// struct App {
    ///     greeting: &'static str,
    /// }
    ///
    /// async fn greet(job: Greet, _: Context, app: App) -> Result<String, Failure> {
    ///     Ok(format!("{}, {}", app.greeting, job.0))
    /// }
    ///
    /// let worker = Worker::builder(punctual.clone()).state(App { greeting: "hello" }).register(greet).manual()?;
    /// let job = punctual.enqueue(Greet("Ada".into())).await?;
    /// worker.run_all().await?;
    /// assert_eq!(punctual.job(job.id).await?.result.unwrap().as_str(), r#""hello, Ada""#);
    ///
    /// assert!(Worker::builder(punctual).register(greet).manual().is_err(), "the state is missing");
    /// # Ok::<(), punctual_core::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn state<S: Clone + Send + Sync + 'static>(mut self, state: S) -> Self {
        self.registrations.states.add(state);
        self
    }

    /// Surrounds every handler, programs included, with a function that calls the rest by [`Next::run`]. The first
    /// layer is the outermost. A layer runs within the job's span and its timeout; a panic in it is a failure of the
    /// job.
    ///
    /// A span of your own, within the job's:
    ///
    /// ```
    /// # use punctual_worker::WorkerBuilder;
    /// # fn example(worker: WorkerBuilder) -> WorkerBuilder {
    /// use tracing::Instrument;
    /// worker.layer(|ctx, next| {
    ///     let span = tracing::info_span!("shop", attempt = ctx.attempt());
    ///     next.run(ctx).instrument(span)
    /// })
    /// # }
    /// ```
    ///
    /// Metrics:
    ///
    /// ```
    /// # use punctual_worker::WorkerBuilder;
    /// # fn example(worker: WorkerBuilder) -> WorkerBuilder {
    /// # use std::time::Instant;
    /// worker.layer(|ctx, next| async move {
    ///     let (name, start) = (ctx.claim().job.spec.name.clone(), Instant::now());
    ///     let result = next.run(ctx).await;
    ///     println!("{name}: {:?}, {}", start.elapsed(), if result.is_ok() { "succeeded" } else { "failed" });
    ///     result
    /// })
    /// # }
    /// ```
    ///
    /// The context of a tenant, which [`Punctual::layer`] of the enqueuing program has stored with the job:
    ///
    /// ```
    /// # use punctual_client::Context;
    /// # use punctual_worker::{HandlerResult, Next, WorkerBuilder};
    /// tokio::task_local! { static TENANT: Option<String>; }
    ///
    /// async fn of_tenant(ctx: Context, next: Next) -> HandlerResult {
    ///     let tenant = ctx.claim().job.spec.user_id.clone();
    ///     TENANT.scope(tenant, next.run(ctx)).await
    /// }
    /// # fn example(worker: WorkerBuilder) -> WorkerBuilder {
    /// worker.layer(of_tenant)
    /// # }
    /// ```
    pub fn layer<F, R>(mut self, layer: F) -> Self
    where
        F: Fn(Context, Next) -> R + Send + Sync + 'static,
        R: Future<Output = HandlerResult> + Send + 'static,
    {
        self.registrations.layers.add(layer);
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

    /// Checks the settings and the handlers, as the start does.
    pub fn check(&self) -> Result<(), Invalid> {
        let Config { queues, concurrency, lease, poll_period, .. } = &self.config;
        if self.registrations.registry()?.is_empty() && !self.config.upkeep_only {
            return Err(Invalid::new("handlers", "must not be empty; register at least one job"));
        }
        if let Some(alerts) = &self.alerts {
            alerts.check()?;
        }
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
        let registry = self.registrations.registry()?;
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
        let shared = Shared::new(self.punctual, registry, self.config, Senders { outbox, confirmer });
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
        let mut registry = self.registrations.registry()?;
        if let Some(delivery_worker) = alert_queue.as_ref().map(delivery_worker).transpose()?.flatten() {
            registry.add_all(delivery_worker.registrations.registry()?)?;
        }
        Ok(ManualWorker::new(self.punctual, registry, self.config, alert_queue))
    }
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
