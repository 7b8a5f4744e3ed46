//! Takes jobs from the store, never more than can start at once.

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
};

/// How long a busy worker waits for more room, so that it claims many jobs at once instead of one by one.
const GATHER_TIME: Duration = Duration::from_millis(1);
/// The first and the longest pause after an error of the store.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// How far the store's clock may be from where this process takes it to be.
const CLOCK_DOUBT: Duration = Duration::from_millis(50);

pub(crate) struct Claimer {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    executions: TaskTracker,
    /// Whether the last claim got all it asked for: there is probably more.
    saturated: bool,
    /// Whether to wait for work: the last claim showed that there is none at the moment.
    waiting: bool,
    /// When suspects were looked for.
    looked_for_suspects_at: Option<Instant>,
    backoff: Duration,
}

/// What an execution holds of its worker.
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    _suspect: Option<SuspectSlot>,
}

/// What the execution of a suspect holds besides. Its end lets the next suspect be claimed at once.
struct SuspectSlot {
    permit: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

impl Drop for SuspectSlot {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.shared.look.notify_one();
    }
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
            looked_for_suspects_at: None,
            backoff: BACKOFF.0,
        }
    }

    /// Claims until the worker drains.
    pub(crate) async fn run(mut self) {
        let draining = self.shared.draining.clone();
        while let Some(room) = draining.run_until_cancelled(self.room()).await.flatten() {
            self.claim_into(room).await;
        }
    }

    /// Waits for free slots and takes those there are.
    async fn room(&self) -> Option<Vec<OwnedSemaphorePermit>> {
        let concurrency = self.shared.config.concurrency;
        let first = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        if self.shared.isolator.is_for_suspects() {
            // What has ended but is not stored yet would be lost with a process that the next one kills.
            self.shared.outcomes_stored().await;
        }
        if self.saturated {
            let quarter = (concurrency / 4).clamp(1, limits::CLAIM_MAX_JOBS);
            // The permits that it waits for are given back at once; they are taken below with all others.
            let _ = time::timeout(GATHER_TIME, self.slots.acquire_many(quarter as u32 - 1)).await;
        }
        // A job that has ended is held until that is stored. There may be as many of them as run, not more: a crash
        // would have them all run again.
        let held_max = 2 * concurrency;
        let held = self.shared.load.subscribe().wait_for(|load| load.unsettled < held_max).await.ok()?.unsettled;
        // While one half is claimed or settled, the other half runs.
        let most = concurrency.div_ceil(2).min(held_max - held).min(limits::CLAIM_MAX_JOBS);
        let mut room = vec![first];
        while room.len() < most
            && let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned()
        {
            room.push(permit);
        }
        Some(room)
    }

    /// Fills free slots, as soon as there is something to fill them with.
    async fn claim_into(&mut self, mut room: Vec<OwnedSemaphorePermit>) {
        let mark = self.shared.begin_claim();
        if self.are_suspects_due() {
            self.claim_suspect(&mut room).await;
        }
        let asked = room.len();
        if asked == 0 {
            return;
        }
        let wait = if self.waiting { self.shared.config.poll_period } else { Duration::ZERO };
        let sent_at = Instant::now();
        let (claimed, hurried) = self.claim_unless_hurried(asked, wait).await;
        match claimed {
            Ok(claimed) => {
                self.backoff = BACKOFF.0;
                self.saturated = claimed.claims.len() == asked;
                // One that was hurried does not say what came after it had begun.
                self.waiting = !self.saturated && !hurried && !self.shared.isolator.is_for_suspects();
                self.shared.claimed(mark, claimed.claims.len(), claimed.opens_at.is_some());
                if claimed.claims.is_empty() && self.shared.isolator.is_for_suspects() {
                    // There are few, and nobody is in a hurry with them.
                    let _ = self.shared.draining.run_until_cancelled(time::sleep(self.shared.config.poll_period)).await;
                }
                self.begin(claimed.claims, sent_at, room, None);
            }
            Err(error) => {
                let retry_ms = self.backoff.as_millis() as u64;
                tracing::warn!(worker = %self.shared.id, %error, retry_ms, "cannot claim");
                self.saturated = false;
                let _ = self.shared.draining.run_until_cancelled(time::sleep(self.backoff)).await;
                self.backoff = (2 * self.backoff).min(BACKOFF.1);
            }
        }
    }

    /// Whether suspects are to be looked for: every now and then, and whenever it counts whether there is nothing left
    /// at all.
    fn are_suspects_due(&self) -> bool {
        let due = |at: Instant| at.elapsed() >= self.shared.config.poll_period;
        self.looked_for_suspects_at.is_none_or(due) || self.shared.is_empty_awaited()
    }

    /// Takes a suspect, if this worker may run one and there is one.
    async fn claim_suspect(&mut self, room: &mut Vec<OwnedSemaphorePermit>) {
        let Some(suspect) = self.shared.isolator.may_claim_suspect() else { return };
        let sent_at = Instant::now();
        self.looked_for_suspects_at = Some(sent_at);
        let request = ClaimRequest { suspects: true, ahead: Duration::ZERO, ..self.request(1, Duration::ZERO) };
        let claim = self.shared.store().claim(request);
        match self.shared.draining.run_until_cancelled(claim).await {
            Some(Ok(claimed)) if !claimed.claims.is_empty() => {
                self.shared.count_claimed(claimed.claims.len());
                // There may be more, which the end of this one lets run.
                self.looked_for_suspects_at = None;
                let room = room.split_off(room.len() - 1);
                self.begin(claimed.claims, sent_at, room, Some(suspect));
            }
            Some(Err(error)) => tracing::warn!(worker = %self.shared.id, %error, "cannot claim suspects"),
            _ => {}
        }
    }

    /// Starts what was claimed.
    fn begin(
        &self,
        claims: Vec<Claim>,
        sent_at: Instant,
        room: Vec<OwnedSemaphorePermit>,
        suspect: Option<OwnedSemaphorePermit>,
    ) {
        let held_until = self.held_until(sent_at);
        let begun = self.shared.begin(claims.iter().map(|claim| (claim.attempt_id(), held_until(claim))));
        let mut suspect = suspect.map(|permit| SuspectSlot { permit: Some(permit), shared: Arc::clone(&self.shared) });
        for ((claim, begun), permit) in claims.into_iter().zip(begun).zip(room) {
            if let Some(begun) = begun {
                let slot = Slot { _permit: permit, _suspect: suspect.take() };
                self.executions.spawn(executor::execute(Arc::clone(&self.shared), claim, begun, slot));
            }
        }
    }

    /// Until when claims that were just answered are held, by this worker's own clock; never later than by the store's.
    /// They were taken at some time after the request was sent. One that has waited may have been taken long after, and
    /// what is left of its lease by the store's clock says so.
    fn held_until(&self, sent_at: Instant) -> impl Fn(&Claim) -> Instant + use<> {
        let lease = self.shared.config.lease;
        let (answered_at, now) = (Instant::now(), self.shared.store().now());
        move |claim| {
            let left = claim.job.lease_until.map_or(Duration::ZERO, |until| until.since(now).min(lease));
            (sent_at + lease).max(answered_at + left.saturating_sub(CLOCK_DOUBT))
        }
    }

    /// Claims; waits no longer once somebody wants to know whether there is nothing, or the worker drains. Also answers
    /// whether it was hurried so.
    async fn claim_unless_hurried(&self, asked: usize, wait: Duration) -> (Result<Claimed, StoreError>, bool) {
        let Shared { look, draining, config, .. } = &*self.shared;
        let mut claim = pin!(self.claim(asked, wait));
        tokio::select! {
            // First: what cannot wait yet cannot be hurried either.
            biased;
            claimed = &mut claim => return (claimed, false),
            () = look.notified(), if self.waiting => {}
            () = draining.cancelled() => {}
        }
        self.shared.store().wake_claims();
        tokio::select! {
            claimed = &mut claim => (claimed, true),
            // A store that does not answer keeps nobody from stopping. A claim that is dropped holds nothing.
            () = draining.cancelled().then(|()| time::sleep(config.grace)) => (Err(StoreError::Closed), true),
        }
    }

    /// How far ahead to claim. A worker that is half busy waits until jobs are due: those that come meanwhile need its
    /// slots.
    fn ahead(&self, room: usize) -> Duration {
        let free = self.slots.available_permits() + room;
        if free > self.shared.config.concurrency.div_ceil(2) { AHEAD } else { Duration::ZERO }
    }

    /// The queues to claim from, and whether in this order. With weights, the order is drawn anew for each claim, so
    /// that each queue is first as often as its weight says.
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
