//! A store that fails on request, to show that no data is lost when a real store fails.

use std::{
    collections::{HashMap, VecDeque},
    future, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use punctual_core::{
    AttemptId, Claim, ClaimRequest, Claimed, Settled, Settlement, StoreError, StoreResult, WorkerId,
    store::{self, Layer, PassOn, ports::*},
};

/// The point at which a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before the operation was executed.
    Before,
    /// After the operation was executed, so that the caller does not know that it was.
    After,
    /// The operation is not executed and never returns, as over a network that drops every packet.
    Never,
}

/// Passes on all calls except those that are to fail.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    next: VecDeque<(&'static str, When)>,
    always: HashMap<&'static str, When>,
    /// The result of the last claim that returned jobs.
    last_claimed: Claimed,
    /// Whether the next claim returns that result again.
    repeats_claim: bool,
    /// The attempts that were handed out again.
    repeated: Vec<AttemptId>,
}

impl FaultyStore {
    /// Passes calls on to `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, faults: Arc::default() }
    }

    /// Makes the next call of the port's `method` fail, after those that are already set to fail.
    pub fn fail_next(&self, method: &'static str, when: When) {
        assert!(store::operations().any(|name| name == method), "unknown operation `{method}`");
        self.faults().next.push_back((method, when));
    }

    /// Makes every call of the port's `method` fail from now on.
    pub fn fail_always(&self, method: &'static str, when: When) {
        assert!(store::operations().any(|name| name == method), "unknown operation `{method}`");
        self.faults().always.insert(method, when);
    }

    /// Makes the next claim return the result of the last one, as a server does that has lost that claim in a crash and
    /// hands out the jobs again. Their starts can then be confirmed, regardless of their status.
    pub fn repeat_claim(&self) {
        self.faults().repeats_claim = true;
    }

    /// The number of pending failures.
    pub fn faults_left(&self) -> usize {
        let faults = self.faults();
        faults.next.len() + usize::from(faults.repeats_claim)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, method: &str) -> Option<When> {
        let mut faults = self.faults();
        match faults.next.iter().position(|(name, _)| *name == method) {
            Some(index) => faults.next.remove(index).map(|(_, when)| when),
            None => faults.always.get(method).copied(),
        }
    }

    /// The claim that is handed out again, if any.
    fn repeated_claim(&self) -> Option<Claimed> {
        let mut faults = self.faults();
        let repeated = mem::take(&mut faults.repeats_claim).then(|| faults.last_claimed.clone())?;
        faults.repeated = repeated.claims.iter().map(Claim::attempt_id).collect();
        Some(repeated)
    }

    async fn claim_once(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        if let Some(repeated) = self.repeated_claim() {
            return Ok(repeated);
        }
        let claimed = self.inner.claim(request).await?;
        if !claimed.claims.is_empty() {
            self.faults().last_claimed = claimed.clone();
        }
        Ok(claimed)
    }

    async fn confirm_once(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        let held = self.inner.confirm(worker, attempts.clone()).await?;
        let repeated = self.faults().repeated.clone();
        Ok(attempts.iter().zip(held).map(|(attempt, held)| held || repeated.contains(attempt)).collect())
    }
}

fn injected(method: &str) -> StoreError {
    StoreError::Other(format!("an injected fault in {method}"))
}

impl Layer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn around<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        match self.fault(operation) {
            Some(When::Before) => Err(injected(operation)),
            Some(When::After) => {
                call.await?;
                Err(injected(operation))
            }
            Some(When::Never) => future::pending().await,
            None => call.await,
        }
    }
}

impl PassOn<dyn JobStore> for FaultyStore {}
impl PassOn<dyn LeaseStore> for FaultyStore {}
impl PassOn<dyn JobReader> for FaultyStore {}
impl PassOn<dyn FlowStore> for FaultyStore {}
impl PassOn<dyn ScheduleStore> for FaultyStore {}
impl PassOn<dyn QueueStore> for FaultyStore {}
impl PassOn<dyn WorkerStore> for FaultyStore {}
impl PassOn<dyn LockStore> for FaultyStore {}
impl PassOn<dyn NotificationStore> for FaultyStore {}
impl PassOn<dyn TokenStore> for FaultyStore {}
impl PassOn<dyn TransferStore> for FaultyStore {}
impl PassOn<dyn RetentionStore> for FaultyStore {}
impl PassOn<dyn EngineStore> for FaultyStore {}

#[async_trait]
impl ClaimStore for FaultyStore {
    async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed> {
        self.around("claim", self.claim_once(request)).await
    }

    async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>> {
        self.around("confirm", self.confirm_once(worker, attempts)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        self.around("settle", self.inner.settle(settlements)).await
    }

    async fn share_claims(&self, attempts: Vec<AttemptId>) -> StoreResult<()> {
        self.around("share_claims", self.inner.share_claims(attempts)).await
    }

    async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>> {
        self.around("claims_of_dead", self.inner.claims_of_dead(worker, limit)).await
    }
}
