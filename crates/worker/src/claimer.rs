//! Claims jobs from the store, never more than can start at once.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use punctual_core::{Claim, ClaimRequest, Claimed, StoreError, limits};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{self, Instant},
};
use tokio_util::task::TaskTracker;

use crate::{
    executor::{self, AHEAD},
    shared::{Config, QueueOrder, Shared},
    slot::{ExecutionSlot, SuspectSlot},
};

/// How long a busy worker waits for more free slots, so that it claims several jobs at once instead of one by one.
const BATCH_WAIT: Duration = Duration::from_millis(1);
/// Initial and maximum pause after an error of the store.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Maximum error of this process's estimate of the store's clock.
const CLOCK_ERROR_MAX: Duration = Duration::from_millis(50);

pub(crate) struct Claimer {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    executions: TaskTracker,
    /// Whether the last claim returned as many jobs as requested: there are probably more.
    saturated: bool,
    /// Whether the next claim waits for jobs: the last one showed that none are due.
    waiting: bool,
    /// When the store was last checked for suspects.
    checked_suspects_at: Option<Instant>,
    backoff: Duration,
}

impl Claimer {
    pub(crate) fn new(shared: Arc<Shared>, executions: TaskTracker) -> Self {
        let slots = Arc::new(Semaphore::new(shared.config.concurrency));
        Self {
            shared,
            slots,
            executions,
            saturated: false,
            waiting: false,
            checked_suspects_at: None,
            backoff: BACKOFF.0,
        }
    }

    /// Claims jobs until the worker drains.
    pub(crate) async fn run(mut self) {
        let draining = self.shared.draining.clone();
        while let Some(permits) = draining.run_until_cancelled(self.free_permits()).await.flatten() {
            self.claim_into(permits).await;
        }
    }

    /// Waits for a free slot and takes all free slots.
    async fn free_permits(&self) -> Option<Vec<OwnedSemaphorePermit>> {
        let concurrency = self.shared.config.concurrency;
        let first = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        if self.shared.isolator.is_for_suspects() {
            // Outcomes that are not stored yet would be lost if the next suspect kills the process.
            self.shared.outcomes_stored().await;
        }
        if self.saturated {
            let quarter = (concurrency / 4).clamp(1, limits::CLAIM_MAX_JOBS);
            // The permits acquired here are returned at once; they are acquired below with all others.
            let _ = time::timeout(BATCH_WAIT, self.slots.acquire_many(quarter as u32 - 1)).await;
        }
        // A job that has ended is held until its outcome is stored. There may be as many of them as running ones, not
        // more: after a crash, all of them would run again.
        let held_max = 2 * concurrency;
        let held = self.shared.load.subscribe().wait_for(|load| load.unsettled < held_max).await.ok()?.unsettled;
        // While one half is claimed or settled, the other half runs.
        let most = concurrency.div_ceil(2).min(held_max - held).min(limits::CLAIM_MAX_JOBS);
        let mut permits = vec![first];
        while permits.len() < most
            && let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned()
        {
            permits.push(permit);
        }
        Some(permits)
    }

    /// Fills free slots as soon as jobs are available.
    async fn claim_into(&mut self, mut permits: Vec<OwnedSemaphorePermit>) {
        let start = self.shared.begin_claim();
        if self.are_suspects_due() {
            self.claim_suspect(&mut permits).await;
        }
        let requested = permits.len();
        if requested == 0 {
            return;
        }
        let wait = if self.waiting { self.shared.config.poll_period } else { Duration::ZERO };
        let sent_at = Instant::now();
        let (claimed, woken) = self.claim_unless_woken(requested, wait).await;
        match claimed {
            Ok(claimed) => {
                self.backoff = BACKOFF.0;
                self.saturated = claimed.claims.len() == requested;
                // A claim that was woken early does not show whether jobs became due meanwhile.
                self.waiting = !self.saturated && !woken && !self.shared.isolator.is_for_suspects();
                self.shared.claimed(start, claimed.claims.len(), claimed.opens_at.is_some());
                if claimed.claims.is_empty() && self.shared.isolator.is_for_suspects() {
                    // Suspects are rare and not urgent.
                    let _ = self.shared.draining.run_until_cancelled(time::sleep(self.shared.config.poll_period)).await;
                }
                self.begin(claimed.claims, sent_at, permits, None);
            }
            Err(error) => {
                self.shared.cannot_claim();
                let retry_ms = self.backoff.as_millis() as u64;
                tracing::warn!(worker = %self.shared.id, %error, retry_ms, "cannot claim jobs");
                self.saturated = false;
                let _ = self.shared.draining.run_until_cancelled(time::sleep(self.backoff)).await;
                self.backoff = (2 * self.backoff).min(BACKOFF.1);
            }
        }
    }

    /// Whether to look for suspects: once per poll period, and whenever a caller waits for the worker to become empty.
    fn are_suspects_due(&self) -> bool {
        let due = |at: Instant| at.elapsed() >= self.shared.config.poll_period;
        self.checked_suspects_at.is_none_or(due) || self.shared.is_empty_awaited()
    }

    /// Claims a suspect, if this worker may run one now and there is one.
    async fn claim_suspect(&mut self, permits: &mut Vec<OwnedSemaphorePermit>) {
        let Some(suspect) = self.shared.isolator.may_claim_suspect() else { return };
        let sent_at = Instant::now();
        self.checked_suspects_at = Some(sent_at);
        let request = ClaimRequest { suspects: true, ahead: Duration::ZERO, ..self.request(1, Duration::ZERO) };
        let claim = self.shared.store().claim(request);
        match self.shared.draining.run_until_cancelled(claim).await {
            Some(Ok(claimed)) if !claimed.claims.is_empty() => {
                self.shared.count_claimed(claimed.claims.len());
                // There may be more suspects, which can run when this one has ended.
                self.checked_suspects_at = None;
                let permits = permits.split_off(permits.len() - 1);
                self.begin(claimed.claims, sent_at, permits, Some(suspect));
            }
            Some(Err(error)) => tracing::warn!(worker = %self.shared.id, %error, "cannot claim suspects"),
            _ => {}
        }
    }

    /// Starts the claimed jobs.
    fn begin(
        &self,
        claims: Vec<Claim>,
        sent_at: Instant,
        permits: Vec<OwnedSemaphorePermit>,
        suspect: Option<OwnedSemaphorePermit>,
    ) {
        let held_until = self.held_until(sent_at);
        let begun = self.shared.begin(claims.iter().map(|claim| (claim.attempt_id(), held_until(claim))));
        let mut suspect = suspect.map(|permit| SuspectSlot::new(permit, Arc::clone(&self.shared)));
        for ((claim, begun), permit) in claims.into_iter().zip(begun).zip(permits) {
            if let Some(begun) = begun {
                let slot = ExecutionSlot::new(permit, suspect.take());
                self.executions.spawn(executor::execute(Arc::clone(&self.shared), claim, begun, slot));
            }
        }
    }

    /// When the leases of new claims expire, by this worker's own clock; never later than by the store's. A claim was
    /// made at some time after the request was sent. One that waited may have been made long after, which shows in the
    /// rest of its lease by the store's clock.
    fn held_until(&self, sent_at: Instant) -> impl Fn(&Claim) -> Instant + use<> {
        let lease = self.shared.config.lease;
        let (answered_at, now) = (Instant::now(), self.shared.store().now());
        move |claim| {
            let left = claim.job.lease_until.map_or(Duration::ZERO, |until| until.since(now).min(lease));
            (sent_at + lease).max(answered_at + left.saturating_sub(CLOCK_ERROR_MAX))
        }
    }

    /// Claims jobs; stops waiting when a caller wants to know whether the worker is empty, or when the worker drains.
    /// Also returns whether the wait was stopped.
    async fn claim_unless_woken(&self, requested: usize, wait: Duration) -> (Result<Claimed, StoreError>, bool) {
        let Shared { claim_now, draining, config, .. } = &*self.shared;
        let mut claim = pin!(self.claim(requested, wait));
        tokio::select! {
            // The claim is polled first: it must have begun to wait before it can be woken.
            biased;
            claimed = &mut claim => return (claimed, false),
            () = claim_now.notified(), if self.waiting => {}
            () = draining.cancelled() => {}
        }
        self.shared.store().wake_claims();
        tokio::select! {
            claimed = &mut claim => (claimed, true),
            // An unresponsive store must not prevent the stop. A dropped claim holds nothing.
            () = draining.cancelled().then(|()| time::sleep(config.grace)) => (Err(StoreError::Closed), true),
        }
    }

    /// How far ahead of their time jobs are claimed. A worker that is at least half busy waits until jobs are due,
    /// since other jobs that become due before need its slots.
    fn ahead(&self, permits: usize) -> Duration {
        let free = self.slots.available_permits() + permits;
        if free > self.shared.config.concurrency.div_ceil(2) { AHEAD } else { Duration::ZERO }
    }

    /// The queues to claim from, and whether their order matters. With weights, the order is drawn again for each
    /// claim, so that each queue is first with a probability in proportion to its weight.
    fn queues(&self) -> (Vec<String>, bool) {
        let Config { queues, order, .. } = &self.shared.config;
        match order {
            QueueOrder::Together => (queues.clone(), false),
            QueueOrder::Strict => (queues.clone(), true),
            QueueOrder::Weighted(weights) => {
                let draw = |weight: &u32| -fastrand::f64().max(f64::MIN_POSITIVE).ln() / f64::from((*weight).max(1));
                let mut drawn: Vec<(f64, &String)> = weights.iter().map(draw).zip(queues).collect();
                drawn.sort_by(|(one, _), (other, _)| one.total_cmp(other));
                (drawn.into_iter().map(|(_, queue)| queue.clone()).collect(), true)
            }
        }
    }

    async fn claim(&self, limit: usize, wait: Duration) -> Result<Claimed, StoreError> {
        self.shared.store().claim(self.request(limit, wait)).await
    }

    fn request(&self, limit: usize, wait: Duration) -> ClaimRequest {
        let (queues, in_order) = self.queues();
        ClaimRequest {
            queues,
            in_order,
            names: self.shared.registry.names(),
            suspects: self.shared.isolator.is_for_suspects(),
            ahead: self.ahead(limit),
            wait,
            ..ClaimRequest::new(self.shared.id, limit, self.shared.config.lease)
        }
    }
}
