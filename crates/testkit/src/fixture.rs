//! A store under test, with its clock.

use std::{sync::Arc, time::Duration};

use punctual_core::{
    Claim, ClaimRequest, Clock, Ids, Job, JobError, JobId, Json, ManualClock, NewJob, Outcome, Retry, Settled,
    Settlement, Spec, Status, Store, Timestamp, WorkerId, settle,
};

use crate::Ties;

/// An empty store, its clock, and a source of ids.
#[derive(Debug)]
pub struct Fixture {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Its clock.
    pub clock: ManualClock,
    /// How the store orders jobs of the same priority and time.
    pub ties: Ties,
    ids: Ids,
    /// Resources that must live as long as the store: a directory, a server.
    _keep: Option<Box<dyn std::any::Any + Send + Sync>>,
}

/// The lease of every claim in the suite.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

impl Fixture {
    /// The start time of a fixture's clock.
    pub fn start() -> ManualClock {
        ManualClock::at("2026-03-01T12:00:00Z".parse().unwrap())
    }

    /// A fixture of `store`, which uses `clock`.
    pub fn new(store: impl Store, clock: ManualClock) -> Self {
        Self::of(Arc::new(store), clock)
    }

    /// The same for a shared store.
    pub fn of(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        Self { store, clock, ties: Ties::default(), ids: Ids::seeded(7), _keep: None }
    }

    /// Sets how the store orders jobs of the same priority and time, if not by arrival.
    #[must_use]
    pub fn ties(mut self, ties: Ties) -> Self {
        self.ties = ties;
        self
    }

    /// Generates different ids than other fixtures.
    #[must_use]
    pub(crate) fn with_other_ids(self) -> Self {
        Self { ids: Ids::seeded(8), ..self }
    }

    /// Keeps `thing` alive as long as the fixture.
    #[must_use]
    pub fn keep(mut self, thing: impl std::any::Any + Send + Sync) -> Self {
        self._keep = Some(Box::new(thing));
        self
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock.
    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// A new worker id.
    pub fn worker(&self) -> WorkerId {
        WorkerId::from_bits(self.ids.next(self.now()))
    }

    /// A job without delay.
    pub fn new_job(&self, adjust: impl FnOnce(&mut Spec)) -> NewJob {
        let mut spec = Spec::new("test", Json::trusted(r#"{"n":1}"#));
        adjust(&mut spec);
        NewJob::new(JobId::from_bits(self.ids.next(self.now())), spec)
    }

    /// A job that is scheduled this many seconds from now.
    pub fn new_job_in(&self, seconds: u64, adjust: impl FnOnce(&mut Spec)) -> NewJob {
        let at = self.now().after(Duration::from_secs(seconds));
        NewJob { id: JobId::from_bits(self.ids.next(at)), delay: Some(Duration::ZERO), ..self.new_job(adjust) }
    }

    /// Enqueues a job and returns its id.
    pub async fn enqueue(&self, adjust: impl FnOnce(&mut Spec)) -> JobId {
        self.enqueue_all(vec![self.new_job(adjust)]).await[0]
    }

    /// Enqueues a job for later and returns its id.
    pub async fn enqueue_in(&self, seconds: u64, adjust: impl FnOnce(&mut Spec)) -> JobId {
        self.enqueue_all(vec![self.new_job_in(seconds, adjust)]).await[0]
    }

    /// Enqueues jobs and returns their ids.
    pub async fn enqueue_all(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        self.store.enqueue(jobs).await.unwrap().into_iter().map(|enqueued| enqueued.id).collect()
    }

    /// A worker's request for at most `limit` jobs of any queue and name.
    pub fn request(&self, worker: WorkerId, limit: usize) -> ClaimRequest {
        ClaimRequest::new(worker, limit, LEASE)
    }

    /// Claims at most `limit` jobs of any queue and name, suspects first.
    pub async fn claim(&self, worker: WorkerId, limit: usize) -> Vec<Claim> {
        let suspects = ClaimRequest { suspects: true, ..self.request(worker, limit) };
        let mut claims = self.store.claim(suspects).await.unwrap().claims;
        let others = self.request(worker, limit - claims.len());
        if others.limit > 0 {
            claims.extend(self.store.claim(others).await.unwrap().claims);
        }
        claims
    }

    /// Claims the only claimable job.
    pub async fn claim_one(&self, worker: WorkerId) -> Claim {
        let mut claims = self.claim(worker, 2).await;
        assert_eq!(claims.len(), 1, "exactly one job should be claimable");
        claims.remove(0)
    }

    /// Settles one claim.
    pub async fn settle(&self, claim: &Claim, outcome: Outcome) -> Settled {
        self.apply(settle(claim, outcome, 0.5)).await
    }

    /// Applies one settlement.
    pub async fn apply(&self, settlement: Settlement) -> Settled {
        self.store.settle(vec![settlement]).await.unwrap()[0]
    }

    /// Settles all claims with expired leases as lost, as the maintenance of a worker does.
    pub async fn reap(&self) -> usize {
        let expired = self.store.expired(100).await.unwrap();
        let lost = expired.iter().map(|claim| settle(claim, lost(), 0.5)).collect();
        let settled = self.store.settle(lost).await.unwrap();
        settled.into_iter().filter(|settled| *settled == Settled::Done).count()
    }

    /// The job, which must exist.
    pub async fn job(&self, id: JobId) -> Job {
        self.store.get(id).await.unwrap().expect("the job should exist")
    }

    /// The statuses of the job's events.
    pub async fn history(&self, id: JobId) -> Vec<Status> {
        self.store.history(id).await.unwrap().events.into_iter().map(|event| event.status).collect()
    }
}

/// The outcome of a lost worker, without evidence.
pub(crate) const fn lost() -> Outcome {
    Outcome::Lost { evidence: None }
}

/// A success without a result.
pub(crate) fn success() -> Outcome {
    Outcome::Succeeded { result: None }
}

/// A failure with this message.
pub(crate) fn failure(message: &str) -> Outcome {
    Outcome::Failed { fault: JobError::new(message), retry: Retry::ByPolicy }
}
