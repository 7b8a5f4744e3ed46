//! The client: connect, enqueue, wait.

use std::{sync::Arc, time::Duration};

use punctual_core::{
    Enqueued, Error, Ids, Invalid, Job as JobRecord, JobId, NewJob, Store, StoreError, Timestamp, Trace, WorkerId,
    Workflow, WorkflowId, WorkflowStatus, limits,
};
use tokio::time;

use crate::{
    Admin, Draft, OperationLatency,
    enqueue_layer::EnqueueLayers,
    notifications::Hub,
    observed::ObservedStore,
    queues::{self, QueueDefaults},
    trace,
};

/// A connection to a store. Cheap to clone, safe to share.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let folder = tempfile::tempdir().unwrap();
/// # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
/// use punctual_client::{Draft, Punctual};
/// let punctual = Punctual::connect(&url).await?;
/// let job = punctual.enqueue(Draft::new("greet", &"world")).await?;
/// assert!(!job.existing);
/// # Ok::<(), punctual_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Punctual {
    pub(crate) store: Arc<dyn Store>,
    /// The store as it was opened, without measurement.
    pub(crate) engine: Arc<dyn Store>,
    pub(crate) observed: Arc<ObservedStore>,
    pub(crate) ids: Arc<Ids>,
    /// The time of the first request, if this client is [idempotent](Self::idempotent_request).
    pub(crate) first_at: Option<Timestamp>,
    /// Cached default options of queues.
    pub(crate) queues: Arc<queues::CachedDefaults>,
    /// Delivers notifications to subscribers.
    pub(crate) hub: Arc<Hub>,
    /// The trace for new jobs where no span is current.
    pub(crate) trace: Option<Arc<Trace>>,
    /// What surrounds the enqueue of jobs.
    pub(crate) layers: EnqueueLayers,
}

/// How often `wait` queries a job if no hint arrives.
const WAIT_POLL_PERIOD: Duration = Duration::from_millis(500);
/// How often a read-only server is checked for writability.
const WRITABLE_POLL_PERIOD: Duration = Duration::from_secs(1);

impl Punctual {
    /// Creates a client on a store that is already open.
    pub fn new(engine: Arc<dyn Store>) -> Self {
        let observed = Arc::new(ObservedStore::new(Arc::clone(&engine)));
        let store: Arc<dyn Store> = Arc::<ObservedStore>::clone(&observed);
        let hub = Arc::new(Hub::new(Arc::clone(&store)));
        Self {
            store,
            engine,
            observed,
            ids: Arc::new(Ids::seeded(fastrand::Rng::new().u64(..))),
            first_at: None,
            queues: Arc::default(),
            hub,
            trace: None,
            layers: EnqueueLayers::default(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The store as it was opened: the engine's own type, without latency measurement.
    pub fn engine(&self) -> &dyn Store {
        &*self.engine
    }

    /// Latencies of the store operations that were called in this process, by name.
    pub fn operation_latencies(&self) -> Vec<OperationLatency> {
        self.observed.latencies()
    }

    /// The id generator.
    pub fn ids(&self) -> &Arc<Ids> {
        &self.ids
    }

    /// The current time, or that of the first request if this client is idempotent.
    pub(crate) fn now(&self) -> Timestamp {
        self.first_at.unwrap_or_else(|| self.store.now())
    }

    /// A client on the same connection whose jobs continue `trace` where no span is current.
    #[must_use]
    pub fn continuing(self, trace: Option<Trace>) -> Self {
        match trace {
            Some(trace) => Self { trace: Some(Arc::new(trace)), ..self },
            None => self,
        }
    }

    /// The trace that a new job continues: that of the current span, or else the one of this client.
    pub(crate) fn trace_now(&self) -> Option<Trace> {
        trace::current().or_else(|| self.trace.as_deref().cloned())
    }

    /// The operations for operators; `actor` is recorded as the author of changes.
    pub fn admin(&self, actor: impl Into<String>) -> Admin {
        Admin::new(self.clone(), actor.into())
    }

    /// Waits while the store's server is read-only, as a standby is until it is promoted, and logs that once. Other
    /// errors are left to the next call.
    pub async fn until_writable(&self) {
        // A write without effect: no worker has this id.
        let unknown = WorkerId::from_bits(self.ids.next(self.store.now()));
        let mut is_logged = false;
        while let Err(error) = self.store.deregister(unknown).await {
            // Open connections may be cut during a promotion.
            let is_waiting = matches!(error, StoreError::ReadOnlyServer { .. }) || is_logged && error.is_transient();
            if !is_waiting {
                return;
            }
            if !is_logged {
                tracing::error!(%error, "waiting until the store can be written");
                is_logged = true;
            }
            time::sleep(WRITABLE_POLL_PERIOD).await;
        }
    }

    /// Enqueues a job. When this returns, the job is durable.
    pub async fn enqueue(&self, job: impl Into<Draft>) -> Result<Enqueued, Error> {
        single(self.enqueue_all([job]).await?)
    }

    /// Enqueues up to [`BATCH_MAX_JOBS`](limits::BATCH_MAX_JOBS) jobs in one transaction: all of them or, if one is
    /// refused, none.
    pub async fn enqueue_all<D: Into<Draft>>(&self, jobs: impl IntoIterator<Item = D>) -> Result<Vec<Enqueued>, Error> {
        let jobs = self.check_fresh(jobs).await?;
        let own: Vec<JobId> = jobs.iter().filter(|_| self.first_at.is_some()).map(|job| job.id).collect();
        let mut enqueued = self.store.enqueue(jobs).await?;
        for (one, own) in enqueued.iter_mut().zip(own) {
            // The job was created by an earlier call of the same request.
            one.existing &= one.id != own;
        }
        for Enqueued { id, existing, .. } in &enqueued {
            tracing::debug!(job = %id, existing, "enqueued");
        }
        Ok(enqueued)
    }

    /// Checks jobs with the current defaults of their queues and assigns ids, without storing them.
    pub async fn check_fresh<D: Into<Draft>>(&self, jobs: impl IntoIterator<Item = D>) -> Result<Vec<NewJob>, Error> {
        let defaults = self.queues.fresh(&*self.store).await?;
        Ok(self.check_by(&defaults, jobs)?)
    }

    /// Checks jobs and assigns ids, without storing them. Uses the queue defaults as they were last read.
    pub fn check<D: Into<Draft>>(&self, jobs: impl IntoIterator<Item = D>) -> Result<Vec<NewJob>, Invalid> {
        self.check_by(&self.queues.now(), jobs)
    }

    pub(crate) fn check_by<D: Into<Draft>>(
        &self,
        defaults: &QueueDefaults,
        jobs: impl IntoIterator<Item = D>,
    ) -> Result<Vec<NewJob>, Invalid> {
        let (now, trace) = (self.now(), self.trace_now());
        let mut checked = Vec::new();
        for job in jobs {
            if checked.len() == limits::BATCH_MAX_JOBS {
                let problem = format!("more than {} in one call; send several batches", limits::BATCH_MAX_JOBS);
                return Err(Invalid::new("jobs", problem));
            }
            let index = checked.len();
            let mut draft = job.into();
            draft.continue_trace(trace.as_ref());
            let new = self.accept(draft, now, defaults);
            checked.push(new.map_err(|invalid| with_index(invalid, index))?);
        }
        Ok(checked)
    }

    /// Passes a job through the layers, checks it and assigns its id.
    pub(crate) fn accept(&self, draft: Draft, now: Timestamp, defaults: &QueueDefaults) -> Result<NewJob, Invalid> {
        self.layers.around(draft, &|draft: Draft| draft.into_new_job(&self.ids, now, defaults))
    }

    /// Returns the job.
    pub async fn job(&self, id: JobId) -> Result<JobRecord, Error> {
        self.store.get(id).await?.ok_or(Error::NotFound(id))
    }

    /// Waits until the job has finished and returns it. Fails with `Error::TimedOut` after `timeout`.
    pub async fn wait(&self, id: JobId, timeout: Duration) -> Result<JobRecord, Error> {
        // An instant beyond the clock's range would panic.
        let deadline = time::Instant::now() + timeout.min(limits::WAIT_MAX);
        // Subscribe before the query, so that no change in between is missed.
        let mut hints = self.store.watch();
        loop {
            let job = self.job(id).await?;
            if job.status.is_finished() {
                return Ok(job);
            }
            let now = time::Instant::now();
            if now >= deadline {
                return Err(Error::TimedOut { job: id, status: job.status, waited_ms: timeout.as_millis() as u64 });
            }
            let nap = WAIT_POLL_PERIOD.min(deadline - now);
            let _ = time::timeout(nap, hints.changed()).await;
        }
    }
}

impl Punctual {
    /// Waits until all jobs of a workflow have finished, at most for `timeout`, and returns the workflow as it is then.
    pub async fn wait_workflow(&self, id: WorkflowId, timeout: Duration) -> Result<Workflow, Error> {
        let deadline = time::Instant::now() + timeout.min(limits::WAIT_MAX);
        let mut hints = self.store.watch();
        loop {
            let workflow = self.store.workflow(id).await?.ok_or(Error::NoWorkflow(id))?;
            let now = time::Instant::now();
            if workflow.status() != WorkflowStatus::Running || now >= deadline {
                return Ok(workflow);
            }
            let _ = time::timeout(WAIT_POLL_PERIOD.min(deadline - now), hints.changed()).await;
        }
    }
}

/// The answer for a batch of one job.
pub(crate) fn single(enqueued: Vec<Enqueued>) -> Result<Enqueued, Error> {
    // The store returns one answer per job.
    enqueued.into_iter().next().ok_or_else(|| Invalid::new("jobs", "the store returned no answer").into())
}

/// Adds to an error which job of the batch is invalid.
fn with_index(invalid: Invalid, index: usize) -> Invalid {
    if index == 0 {
        return invalid;
    }
    Invalid { problem: format!("{} (job {} of the batch)", invalid.problem, index + 1), ..invalid }
}
