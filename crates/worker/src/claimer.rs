//! Takes jobs from the store, never more than can start at once.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use punctual_core::{Claim, ClaimRequest, Claimed, StoreError, limits};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
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

pub(crate) struct Claimer {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    executions: TaskTracker,
    /// Whether the last claim got all it asked for: there is probably more.
    saturated: bool,
    /// Whether to wait for work: the last claim showed that there is none at the moment.
    waiting: bool,
    backoff: Duration,
}

impl Claimer {
    pub(crate) fn new(shared: Arc<Shared>, executions: TaskTracker) -> Self {
        let slots = Arc::new(Semaphore::new(shared.config.concurrency));
        Self { shared, slots, executions, saturated: false, waiting: false, backoff: BACKOFF.0 }
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
    async fn claim_into(&mut self, room: Vec<OwnedSemaphorePermit>) {
        let (asked, mark) = (room.len(), self.shared.begin_claim());
        let wait = if self.waiting { self.shared.config.poll_period } else { Duration::ZERO };
        let (claimed, hurried) = self.claim_unless_hurried(asked, wait).await;
        match claimed {
            Ok(claimed) => {
                self.backoff = BACKOFF.0;
                self.saturated = claimed.claims.len() == asked;
                // One that was hurried does not say what came after it had begun.
                self.waiting = !self.saturated && !hurried;
                self.shared.claimed(mark, claimed.claims.len(), claimed.opens_at.is_some());
                let executions = self.shared.begin(claimed.claims.iter().map(Claim::attempt_id));
                for ((claim, execution), slot) in claimed.claims.into_iter().zip(executions).zip(room) {
                    self.executions.spawn(executor::execute(Arc::clone(&self.shared), claim, execution, slot));
                }
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

    /// Claims; waits no longer once somebody wants to know whether there is nothing, or the worker drains. Also answers whether it was hurried so.
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
        self.shared.store().hurry();
        tokio::select! {
            claimed = &mut claim => (claimed, true),
            // A store that does not answer keeps nobody from stopping. A claim that is dropped holds nothing.
            () = draining.cancelled().then(|()| time::sleep(config.grace)) => (Err(StoreError::Closed), true),
        }
    }

    /// How far ahead to claim. A worker that is half busy waits until jobs are due: those that come meanwhile need its slots.
    fn ahead(&self, room: usize) -> Duration {
        let free = self.slots.available_permits() + room;
        if free > self.shared.config.concurrency.div_ceil(2) { AHEAD } else { Duration::ZERO }
    }

    /// The queues to claim from, and whether in this order. With weights, the order is drawn anew for each claim, so that each queue is first
    /// as often as its weight says.
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
        let (queues, in_order) = self.queues();
        let request = ClaimRequest {
            worker: self.shared.id,
            queues,
            in_order,
            names: self.shared.registry.names(),
            limit,
            lease: self.shared.config.lease,
            ahead: self.ahead(limit),
            wait,
        };
        self.shared.store().claim(request).await
    }
}
