//! Claiming jobs for workers, and ending executions.

use std::time::Duration;

use crate::{AttemptId, Claim, Settled, Settlement, Timestamp, WorkerId, store::StoreResult};

port! {
    /// Claiming jobs for workers, and ending executions.
    pub trait ClaimStore {
        /// Promotes due scheduled and retrying jobs to queued, then hands queued jobs, except those of paused queues,
        /// to a worker: higher priority first, then earlier `run_at`, then the order in which they were enqueued (or
        /// the order of their ids, which differs only for jobs that were scheduled for different times and then retried
        /// at the same instant). Opens an attempt for each.
        ///
        /// Jobs of limited queues, and jobs with a concurrency key, wait for their limits;
        /// [`limiter::choose`](crate::limiter::choose) decides which may start. No job is ever started in excess of a
        /// limit, regardless of concurrency; but jobs that a concurrent claim has taken while a limit is set count as
        /// if they were running then.
        ///
        /// A job that is claimed ahead of its time follows those, earliest first, and is recorded as if it had become
        /// queued and had started exactly at its time. Jobs with limits are not claimed ahead.
        ///
        /// If there are no jobs, waits for the time in the request, and returns as soon as there is one. A caller that
        /// stops waiting holds no claims: jobs that it would have received stay queued, or are returned at once.
        async fn claim(&self, request: ClaimRequest) -> StoreResult<Claimed>;

        /// Records, durably, that the handlers of `attempts` are about to start: a job that [runs at most
        /// once](crate::Spec::runs_at_most_once) starts only after that, and is dead if it is lost later. Returns for
        /// each, in order, whether the worker still holds it.
        async fn confirm(&self, worker: WorkerId, attempts: Vec<AttemptId>) -> StoreResult<Vec<bool>>;

        /// Ends executions. Returns one result each, in order; a settlement whose fence does not hold changes nothing.
        /// The consequences for dependent jobs are decided by [`flow::follow`](crate::flow::follow) and applied in the
        /// same transaction, as everywhere else where a job ends.
        ///
        /// The handlers have ended, or are no longer waited for: the slot that a stale execution
        /// [occupies](crate::limiter::OccupiedSlot) is [released](crate::store::LeaseStore::release_slots), unless the
        /// settlement is for an expired lease only.
        async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>>;

        /// Makes claims visible to all other processes of the store, so that the worker may extend and settle them
        /// there. Stores whose claims are always visible need not do anything.
        async fn share_claims(&self, attempts: Vec<AttemptId>) -> StoreResult<()>;

        /// Claims of a worker that is known to be dead, at most `limit`, whether or not their leases have expired. The
        /// caller settles them as lost, with the cause. A claim whose row is corrupt is not included: it is found when
        /// its lease has expired.
        async fn claims_of_dead(&self, worker: WorkerId, limit: usize) -> StoreResult<Vec<Claim>>;
    }
}

/// A worker's request for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The worker.
    pub worker: WorkerId,
    /// Queues to claim from; all when empty.
    pub queues: Vec<String>,
    /// Whether the order of `queues` has precedence over priority: jobs of the second queue are claimed only when there
    /// are none of the first.
    pub in_order: bool,
    /// Names of jobs to claim; all when empty.
    pub names: Vec<String>,
    /// Whether to claim only [suspects](crate::Job::is_suspect). Other claims take none.
    pub suspects: bool,
    /// Maximum number of jobs.
    pub limit: usize,
    /// The duration of the leases.
    pub lease: Duration,
    /// Also claims jobs that become due within this time, if the limit allows. The worker starts them when they are
    /// due.
    pub ahead: Duration,
    /// How long to wait if there are no jobs.
    pub wait: Duration,
}

impl ClaimRequest {
    /// A request for due jobs of all queues and names, except suspects, without waiting.
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

    /// Whether the request includes jobs of this lane.
    pub fn serves(&self, queue: &str, name: &str) -> bool {
        let wants = |served: &[String], name: &str| served.is_empty() || served.iter().any(|served| served == name);
        wants(&self.queues, queue) && wants(&self.names, name)
    }

    /// The order within a claim: the smaller number first. With equal numbers, the earlier job first.
    pub fn rank(&self, queue: &str, priority: u8) -> u32 {
        let position = self.queues.iter().position(|served| served == queue).filter(|_| self.in_order).unwrap_or(0);
        position as u32 * 256 + u32::from(u8::MAX - priority)
    }

    /// When to claim again, after a claim at `now` that found nothing, if the next job is due at `next_run_at`. This is
    /// later than the earliest time at which it could be claimed ahead, so that one claim finds several jobs.
    pub fn claim_again_at(&self, now: Timestamp, next_run_at: Timestamp) -> Timestamp {
        // A job that could have been claimed ahead and was not is left to other workers until it is due.
        if next_run_at <= now.after(self.ahead) { next_run_at } else { next_run_at.before(self.ahead / 2) }
    }
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Claimed {
    /// The claims, first to start first.
    pub claims: Vec<Claim>,
    /// When the next scheduled or retrying job is due, in any queue. If there are claims, an engine may consider only
    /// some queues.
    pub next_run_at: Option<Timestamp>,
    /// When a rate limit next allows jobs that it delays now, if known.
    pub opens_at: Option<Timestamp>,
}
