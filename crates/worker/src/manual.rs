//! A worker for tests of jobs: it runs jobs only when called, on the caller's task.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_client::{Context, ProgressSink, Punctual};
use punctual_core::{Claim, ClaimRequest, Error, Job, JobId, Outcome, ProgressReport, Status, WorkerId, settle};
use tokio::time;

use crate::{
    Alert,
    alerts::{self, AlertQueue},
    executor::{outcome_of, run},
    maintenance,
    registry::Registry,
    shared::{Config, QueueOrder},
    span, ticker,
};

/// A worker for tests: see [`WorkerBuilder::manual`](crate::WorkerBuilder::manual). Together with a
/// [`ManualClock`](punctual_core::ManualClock), a test controls what runs and when.
#[derive(Debug)]
pub struct ManualWorker {
    id: WorkerId,
    punctual: Punctual,
    registry: Registry,
    config: Config,
    alert_queue: Option<Arc<AlertQueue>>,
}

/// A job that was run, with its new status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The job.
    pub id: JobId,
    /// Its status afterwards.
    pub status: Status,
}

#[derive(Debug, Default)]
struct RecordedProgress(Mutex<Vec<ProgressReport>>);

impl ProgressSink for RecordedProgress {
    fn take(&self, report: ProgressReport) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        true
    }
}

impl ManualWorker {
    pub(crate) fn new(
        punctual: Punctual,
        registry: Registry,
        config: Config,
        alert_queue: Option<Arc<AlertQueue>>,
    ) -> Self {
        let id = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
        Self { id, punctual, registry, config, alert_queue }
    }

    /// Runs the next due job, if there is one.
    pub async fn run_one(&self) -> Result<Option<Ran>, Error> {
        maintenance::reap(&**self.punctual.store()).await?;
        for suspects in [false, true] {
            let request = ClaimRequest {
                queues: self.config.queues.clone(),
                in_order: self.config.order == QueueOrder::Strict,
                names: self.registry.names(),
                suspects,
                ..ClaimRequest::new(self.id, 1, self.config.lease)
            };
            if let Some(claim) = self.punctual.store().claim(request).await?.claims.pop() {
                return self.execute(claim).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Enqueues the due occurrences of schedules; returns their number.
    pub async fn tick(&self) -> Result<usize, Error> {
        Ok(ticker::tick(&**self.punctual.store(), &self.id.to_string(), self.alert_queue.as_deref()).await?.occurrences)
    }

    /// Checks for alert conditions, if [`Alerts`](crate::Alerts) are set, and returns the alerts that were raised.
    /// Their delivery jobs run like any other job.
    pub async fn check_alerts(&self) -> Result<Vec<Alert>, Error> {
        match &self.alert_queue {
            Some(alert_queue) => alerts::check_once(alert_queue).await,
            None => Ok(Vec::new()),
        }
    }

    /// Repairs schedules whose next occurrence a wrong clock has moved far ahead.
    pub async fn repair_schedules(&self) -> Result<(), Error> {
        Ok(ticker::repair(&**self.punctual.store(), &self.id.to_string()).await?)
    }

    /// Runs jobs until none is due, including those that they enqueue.
    pub async fn run_all(&self) -> Result<Vec<Ran>, Error> {
        let mut all = Vec::new();
        while let Some(ran) = self.run_one().await? {
            all.push(ran);
        }
        Ok(all)
    }

    async fn execute(&self, claim: Claim) -> Result<Ran, Error> {
        let (store, reports) = (self.punctual.store(), Arc::new(RecordedProgress::default()));
        if claim.job.needs_confirmation() {
            store.confirm(self.id, vec![claim.attempt_id()]).await?;
        }
        let ctx = Context::new(self.punctual.clone(), claim.clone(), reports.clone());
        let span = span::open(&claim);
        let outcome = match self.registry.find(&claim.job.spec.name) {
            Some(handler) => match time::timeout(claim.job.spec.timeout, run(handler, ctx.clone(), span.clone())).await
            {
                Ok(result) => outcome_of(result),
                Err(_) => Outcome::TimedOut,
            },
            None => Outcome::Released,
        };
        span::close(&span, Some(&outcome));
        ctx.stop();
        ctx.end_notes();
        let reports = std::mem::take(&mut *reports.0.lock().unwrap_or_else(PoisonError::into_inner));
        store.report_progress(reports).await?;
        store.settle(vec![settle(&claim, outcome, 0.5)]).await?;
        let Job { id, status, .. } = self.punctual.job(claim.job.id).await?;
        Ok(Ran { id, status })
    }
}
