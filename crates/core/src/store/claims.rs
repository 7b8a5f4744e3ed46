//! Jobs are handed out to workers, and their executions end.

use std::time::Duration;

use crate::{AttemptId, Claim, Settled, Settlement, Timestamp, WorkerId, store::StoreResult};

port! {
    /// Jobs are handed out to workers, and their executions end.
    pub trait ClaimStore {
        /// Makes due scheduled and retrying jobs queued, then hands queued ones, but for those of paused queues, to a
        /// worker: higher priority first, then earlier `run_at`, then the order in which they were enqueued (or that of
        /// their ids, which differs only for jobs that were scheduled for different times and then retried at the same
        /// instant). Opens an attempt for each.
        ///
        /// Jobs of limited queues, and those with a concurrency key, wait for their limits;
        /// [`limiter::choose`](crate::limiter::choose) says which may. None of them is ever started in excess of a
        /// limit, whatever happens at once; but what a claim that is under way has taken while a limit is set counts as
        /// running when it was.
        ///
        /// A job that is claimed ahead of its time follows those, earliest first, and is recorded as if it had become
        /// queued and had started exactly at its time. Those that are limited are not claimed so.
        ///
        /// If there is nothing, it waits for as long as the request says, and answers as soon as there is something. A
        /// caller that stops waiting holds nothing: what it would have got stays, or goes back at once.
        async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed>;

        /// Records, durably, that the handlers of `attempts` are about to start: a job that [runs at most
        /// once](crate::Spec::runs_at_most_once) starts only after that, and is dead if it is lost later. Answers for
        /// each, in order, whether the worker still holds it.
        async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

        /// Ends executions. One answer each, in order; one whose fence does not hold changes nothing. What follows for
        /// the jobs that wait for them, [`flow::follow`](crate::flow::follow) says, and it happens in the same
        /// transaction; so it does wherever else a job comes to an end.
        ///
        /// The handlers have ended, or are not waited for any longer: the slot that a stale execution
        /// [occupies](crate::limiter::OccupiedSlot) is [released](crate::store::LeaseStore::release_slots), unless the
        /// settlement is for an expired lease only.
        async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>>;

        /// Makes claims known to every other process of the store, so that their worker may extend and settle them
        /// there. Stores that hold nothing back need not do anything.
        async fn share_claims(&self, attempts: Vec<AttemptId>) -> StoreResult<()>;

        /// Claims of a worker that is known to be dead, at most `limit`, whose leases need not have run out. The caller
        /// settles them as lost, and knows why. One whose row is corrupt is not among them: it is found when its lease
        /// has run out.
        async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>>;
    }
}

/// A worker's wish for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Who asks.
    pub worker: WorkerId,
    /// From these queues; from any when empty.
    pub queues: Vec<String>,
    /// In the order in which they are listed: nothing of the second while there is something of the first, whatever its
    /// priority.
    pub in_order: bool,
    /// With these names; with any when empty.
    pub names: Vec<String>,
    /// Takes [suspects](crate::Job::is_suspect), and nothing else. Other claims take none.
    pub suspects: bool,
    /// At most so many.
    pub limit: usize,
    /// How long they are held.
    pub lease: Duration,
    /// If room is left, those also that are due within so long. The worker starts them when they are due.
    pub ahead: Duration,
    /// How long to wait if there is none.
    pub wait: Duration,
}

impl ClaimRequest {
    /// Asks for jobs of all queues and names, but for suspects, that are due, and does not wait for any.
    pub const fn new(worker: WorkerId, limit: usize, lease: Duration) -> Self {
        Self {
            worker,
            queues: Vec::new(),
            in_order: false,
            names: Vec::new(),
            suspects: false,
            limit,
            lease,
            ahead: Duration::ZERO,
            wait: Duration::ZERO,
        }
    }

    /// Whether the worker wants jobs of this lane.
    pub fn serves(&self, queue: &str, name: &str) -> bool {
        let wants = |wishes: &[String], word: &str| wishes.is_empty() || wishes.iter().any(|wish| wish == word);
        wants(&self.queues, queue) && wants(&self.names, name)
    }

    /// What comes first in a claim: the smaller number. Within it, the earlier job does.
    pub fn rank(&self, queue: &str, priority: u8) -> u32 {
        let place = self.queues.iter().position(|wish| wish == queue).filter(|_| self.in_order).unwrap_or(0);
        place as u32 * 256 + u32::from(u8::MAX - priority)
    }

    /// When to look again, after a look at `now` that found nothing, if the next job is due at `next_run_at`. Not as
    /// soon as it could be claimed ahead, so that one look finds several.
    pub fn look_again_at(&self, now: Timestamp, next_run_at: Timestamp) -> Timestamp {
        // What could have been claimed ahead and was not is for somebody else, until it is due.
        if next_run_at <= now.after(self.ahead) { next_run_at } else { next_run_at.before(self.ahead / 2) }
    }
}

/// What a worker got.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claimed {
    /// The jobs, first to start first.
    pub claims: Vec<Claim>,
    /// When the next scheduled or retrying job is due, in any queue. If there are jobs already, an engine may know only
    /// of some queues.
    pub next_run_at: Option<Timestamp>,
    /// When a rate lets through what it holds back now, as far as known.
    pub opens_at: Option<Timestamp>,
}
