//! A worker that runs jobs when it is told to, on the caller's own task: for tests of jobs.

use std::sync::{Arc, Mutex, PoisonError};

use punctual_client::{Context, NoteSink, Punctual};
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

/// See [`WorkerBuilder::manual`](crate::WorkerBuilder::manual). Together with a
/// [`ManualClock`](punctual_core::ManualClock), a test decides what runs and when.
#[derive(Debug)]
pub struct ManualWorker {
    id: WorkerId,
    punctual: Punctual,
    registry: Registry,
    config: Config,
    desk: Option<Arc<AlertQueue>>,
}

/// A job that was run, and where it came to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The job.
    pub id: JobId,
    /// Its status afterwards.
    pub status: Status,
}

#[derive(Debug, Default)]
struct Notes(Mutex<Vec<ProgressReport>>);

impl NoteSink for Notes {
    fn take(&self, note: ProgressReport) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        true
    }
}

impl ManualWorker {
    pub(crate) fn new(punctual: Punctual, registry: Registry, config: Config, desk: Option<Arc<AlertQueue>>) -> Self {
        let id = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
        Self { id, punctual, registry, config, desk }
    }

    /// Runs the next job that is due, if there is one.
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

    /// Enqueues the occurrences of schedules that are due; says how many.
    pub async fn tick(&self) -> Result<usize, Error> {
        Ok(ticker::tick(&**self.punctual.store(), &self.id.to_string(), self.desk.as_deref()).await?.occurrences)
    }

    /// Looks for what has to be told, if it has [`Alerts`](crate::Alerts), and returns the alerts that it has raised.
    /// Their jobs are run like any others.
    pub async fn look_for_alerts(&self) -> Result<Vec<Alert>, Error> {
        match &self.desk {
            Some(desk) => alerts::look(desk).await,
            None => Ok(Vec::new()),
        }
    }

    /// Brings schedules back that a wrong clock has sent far ahead.
    pub async fn repair_schedules(&self) -> Result<(), Error> {
        Ok(ticker::repair(&**self.punctual.store(), &self.id.to_string()).await?)
    }

    /// Runs jobs until none is due, those included that they enqueue.
    pub async fn run_all(&self) -> Result<Vec<Ran>, Error> {
        let mut all = Vec::new();
        while let Some(ran) = self.run_one().await? {
            all.push(ran);
        }
        Ok(all)
    }

    async fn execute(&self, claim: Claim) -> Result<Ran, Error> {
        let (store, notes) = (self.punctual.store(), Arc::new(Notes::default()));
        if claim.job.needs_confirmation() {
            store.confirm(self.id, vec![claim.attempt_id()]).await?;
        }
        let ctx = Context::new(self.punctual.clone(), claim.clone(), notes.clone());
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
        let notes = std::mem::take(&mut *notes.0.lock().unwrap_or_else(PoisonError::into_inner));
        store.report_progress(notes).await?;
        store.settle(vec![settle(&claim, outcome, 0.5)]).await?;
        let Job { id, status, .. } = self.punctual.job(claim.job.id).await?;
        Ok(Ran { id, status })
    }
}
