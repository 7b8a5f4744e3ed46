//! Takes jobs from the store, never more than can start at once.

use std::{sync::Arc, time::Duration};

use punctual_core::{ClaimRequest, Claimed, StoreError, Timestamp, Topic, limits};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_util::task::TaskTracker;

use crate::{executor, shared::Shared};

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
    backoff: Duration,
}

impl Claimer {
    pub(crate) fn new(shared: Arc<Shared>, executions: TaskTracker) -> Self {
        let slots = Arc::new(Semaphore::new(shared.config.concurrency));
        Self { shared, slots, executions, saturated: false, backoff: BACKOFF.0 }
    }

    /// Claims until the worker drains.
    pub(crate) async fn run(mut self) {
        let draining = self.shared.draining.clone();
        // Listens before it looks: what is enqueued in between is not missed.
        let mut hints = self.shared.store().watch(Topic::Work);
        while let Some(room) = draining.run_until_cancelled(self.room()).await.flatten() {
            let nap = self.claim_into(room).await;
            tokio::select! {
                () = draining.cancelled() => break,
                () = hints.changed(), if !nap.is_zero() => {}
                () = self.shared.look.notified(), if !nap.is_zero() => {}
                () = time::sleep(nap), if !nap.is_zero() => {}
                () = std::future::ready(()), if nap.is_zero() => {}
            }
        }
    }

    /// Waits for free slots and takes those there are.
    async fn room(&self) -> Option<Vec<OwnedSemaphorePermit>> {
        let first = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        if self.saturated {
            let quarter = (self.shared.config.concurrency / 4).clamp(1, limits::CLAIM_MAX_JOBS);
            // The permits that it waits for are given back at once; they are taken below with all others.
            let _ = time::timeout(GATHER_TIME, self.slots.acquire_many(quarter as u32 - 1)).await;
        }
        let mut room = vec![first];
        while room.len() < limits::CLAIM_MAX_JOBS
            && let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned()
        {
            room.push(permit);
        }
        Some(room)
    }

    /// Fills free slots; says how long to wait for more work.
    async fn claim_into(&mut self, mut room: Vec<OwnedSemaphorePermit>) -> Duration {
        let (asked, mark) = (room.len(), self.shared.load.borrow().mark());
        match self.claim(asked).await {
            Ok(claimed) => {
                self.backoff = BACKOFF.0;
                self.saturated = claimed.claims.len() == asked;
                self.shared.claimed(mark, claimed.claims.len());
                for claim in claimed.claims {
                    let Some(slot) = room.pop() else { break };
                    let execution = self.shared.begin(claim.attempt_id());
                    self.executions.spawn(executor::execute(Arc::clone(&self.shared), claim, execution, slot));
                }
                if self.saturated { Duration::ZERO } else { self.nap(claimed.next_run_at) }
            }
            Err(error) => {
                tracing::warn!(worker = %self.shared.id, %error, retry_ms = self.backoff.as_millis() as u64, "cannot claim");
                self.saturated = false;
                let pause = self.backoff;
                self.backoff = (2 * self.backoff).min(BACKOFF.1);
                pause
            }
        }
    }

    async fn claim(&self, limit: usize) -> Result<Claimed, StoreError> {
        let request = ClaimRequest {
            worker: self.shared.id,
            queues: self.shared.config.queues.clone(),
            names: self.shared.registry.names(),
            limit,
            lease: self.shared.config.lease,
        };
        self.shared.store().claim(request).await
    }

    /// Until the next job is due, or until it is time to look in any case.
    fn nap(&self, next_run_at: Option<Timestamp>) -> Duration {
        let poll = self.shared.config.poll_period;
        let until_next = next_run_at.map_or(poll, |at| at.since(self.shared.store().now()));
        // Never zero: a job that is due but serves other workers must not make this one spin.
        until_next.clamp(Duration::from_micros(100), poll)
    }
}
