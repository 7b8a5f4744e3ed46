//! State shared by the parts of a worker.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::{self, Duration},
};

use futures_util::FutureExt;
use punctual_client::{ProgressSink, Punctual, admin::Retention};
use punctual_core::{AttemptId, ProgressReport, Store, WorkerId};
use serde_json::json;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    confirmer::Confirmer,
    isolation::{Isolation, Isolator},
    outbox::Outbox,
    registry::Registry,
    running::{Begun, ClaimTimes, Execution, Running},
    stats::{Counters, Stats},
};

/// Maximum grace period of handlers when the process must end soon.
const HURRIED_GRACE: Duration = Duration::from_millis(500);

/// The order in which a worker claims jobs from its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// All queues together: by priority, then by time.
    #[default]
    Together,
    /// In the order of the list: jobs of a queue are claimed only while the queues before it have none.
    Strict,
    /// In proportion to these weights while all queues have jobs; the share of an empty queue is used by the others.
    Weighted(Vec<u32>),
}

/// The configuration of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) queues: Vec<String>,
    pub(crate) order: QueueOrder,
    pub(crate) concurrency: usize,
    pub(crate) lease: Duration,
    pub(crate) poll_period: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) retention: Option<Retention>,
    /// Claims no jobs.
    pub(crate) upkeep_only: bool,
    /// Does no maintenance for other workers.
    pub(crate) no_upkeep: bool,
    /// Which suspects it runs.
    pub(crate) isolation: Isolation,
}

/// No claim has ended yet.
const UNKNOWN: u8 = 0;
/// The last claim succeeded.
const CLAIMS: u8 = 1;
/// The last claim failed.
const CANNOT_CLAIM: u8 = 2;

/// State shared by the parts of a worker.
pub(crate) struct Shared {
    pub(crate) id: WorkerId,
    pub(crate) punctual: Punctual,
    pub(crate) registry: Registry,
    pub(crate) config: Config,
    /// Decides which jobs may run beside each other.
    pub(crate) isolator: Isolator,
    /// Number of callers that wait until there is nothing left to run.
    pub(crate) awaiting_empty: AtomicUsize,
    /// Sends messages to the settler.
    pub(crate) outbox: Arc<Outbox>,
    /// Sends requests to the confirmer.
    pub(crate) confirmer: Confirmer,
    running: Mutex<Running>,
    /// A job was claimed whose lease may expire before the next check.
    pub(crate) short_lease: Notify,
    /// The load, for tasks that wait for it.
    pub(crate) load: watch::Sender<Load>,
    /// Claim again without waiting for jobs: a caller waits for the worker to become empty.
    pub(crate) claim_now: Notify,
    /// Whether the last claim failed, once there was one: [`UNKNOWN`], [`CLAIMS`] or [`CANNOT_CLAIM`].
    last_claim: AtomicU8,
    /// Claim no more jobs.
    pub(crate) draining: CancellationToken,
    /// Release the jobs that still run.
    pub(crate) releasing: CancellationToken,
    /// Release them soon: the process must end.
    pub(crate) hurried: CancellationToken,
    pub(crate) counters: Counters,
}

/// The load of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// Number of unsettled executions.
    pub(crate) unsettled: usize,
    /// Number of times that executions were settled. A job may have enqueued others, so only a claim that began after
    /// the last settlement proves that nothing is left to run.
    settled_times: u64,
    /// Number of claims that began. A caller that has enqueued jobs trusts only a claim that began afterwards.
    claims: u64,
    /// The last claim, if it returned no job.
    empty_claim: Option<ClaimStart>,
}

/// The time at which a claim began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimStart {
    settled_times: u64,
    claim: u64,
}

impl Load {
    /// Number of claims that have begun.
    pub(crate) const fn claims(self) -> u64 {
        self.claims
    }

    /// Whether nothing runs, and a claim that began after this number of others has returned no job.
    pub(crate) fn is_empty_since(self, claims: u64) -> bool {
        let proves = |start: ClaimStart| start.settled_times == self.settled_times && start.claim > claims;
        self.unsettled == 0 && self.empty_claim.is_some_and(proves)
    }
}

/// The senders of the channels to the tasks of a worker.
pub(crate) struct Senders {
    pub(crate) outbox: Outbox,
    pub(crate) confirmer: Confirmer,
}

impl Shared {
    pub(crate) fn new(punctual: Punctual, registry: Registry, config: Config, senders: Senders) -> Arc<Self> {
        let Senders { outbox, confirmer } = senders;
        Arc::new(Self {
            id: WorkerId::from_bits(punctual.ids().next(punctual.store().now())),
            punctual,
            registry,
            isolator: Isolator::new(config.isolation),
            awaiting_empty: AtomicUsize::new(0),
            config,
            outbox: Arc::new(outbox),
            confirmer,
            running: Mutex::default(),
            short_lease: Notify::new(),
            load: watch::Sender::new(Load::default()),
            claim_now: Notify::new(),
            last_claim: AtomicU8::new(UNKNOWN),
            draining: CancellationToken::new(),
            releasing: CancellationToken::new(),
            hurried: CancellationToken::new(),
            counters: Counters::default(),
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.punctual.store()
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins executions, each with the end of its lease by this worker's clock. `None` for those that must not begin.
    pub(crate) fn begin(&self, claims: impl IntoIterator<Item = (AttemptId, Instant)>) -> Vec<Option<Begun>> {
        let mut running = self.running();
        let begin = |(attempt, lease_until)| {
            let times = ClaimTimes { attempt, lease_until, unrecorded_until: self.unrecorded_until(attempt) };
            if running.expires_before_next_check(times) {
                self.short_lease.notify_one();
            }
            running.begin(times)
        };
        let begun: Vec<_> = claims.into_iter().map(begin).collect();
        self.load.send_modify(|load| load.unsettled = running.unsettled_count());
        begun
    }

    /// Removes executions that have been settled.
    pub(crate) fn end(&self, attempts: impl IntoIterator<Item = AttemptId>) {
        self.end_by(|running| attempts.into_iter().for_each(|attempt| running.settled(attempt)));
    }

    fn end_by(&self, end: impl FnOnce(&mut Running)) {
        let mut running = self.running();
        end(&mut running);
        self.load.send_modify(|load| {
            load.unsettled = running.unsettled_count();
            load.settled_times += 1;
        });
    }

    /// Begins a claim, which ends with [`claimed`](Self::claimed).
    pub(crate) fn begin_claim(&self) -> ClaimStart {
        let mut start = None;
        self.load.send_if_modified(|load| {
            load.claims += 1;
            start = Some(ClaimStart { settled_times: load.settled_times, claim: load.claims });
            false
        });
        start.unwrap_or(ClaimStart { settled_times: 0, claim: 0 })
    }

    /// Counts claimed jobs.
    pub(crate) fn count_claimed(&self, jobs: usize) {
        self.counters.claimed.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Whether a caller waits until there is nothing left to run.
    pub(crate) fn is_empty_awaited(&self) -> bool {
        self.awaiting_empty.load(Ordering::Relaxed) > 0
    }

    /// Ends the claim that began at `start`: it returned this number of jobs, and a rate limit may have held back
    /// others.
    pub(crate) fn claimed(&self, start: ClaimStart, jobs: usize, held_back: bool) {
        self.count_claimed(jobs);
        self.last_claim.store(CLAIMS, Ordering::Relaxed);
        let empty_claim = (jobs == 0 && !held_back).then_some(start);
        self.load.send_if_modified(|load| std::mem::replace(&mut load.empty_claim, empty_claim) != empty_claim);
    }

    /// The last claim failed.
    pub(crate) fn cannot_claim(&self) {
        self.last_claim.store(CANNOT_CLAIM, Ordering::Relaxed);
    }

    /// Why the worker does not claim jobs, if it does not.
    pub(crate) fn why_not_claiming(&self) -> Option<&'static str> {
        if self.draining.is_cancelled() {
            return Some("the worker is draining");
        }
        match self.last_claim.load(Ordering::Relaxed) {
            CLAIMS => None,
            // It never claims.
            UNKNOWN if self.config.upkeep_only => None,
            CANNOT_CLAIM => Some("the worker cannot claim jobs; see its log"),
            _ => Some("the worker has not claimed yet"),
        }
    }

    /// The attempts whose leases are renewed.
    pub(crate) fn kept_attempts(&self) -> Vec<AttemptId> {
        self.running().kept()
    }

    /// Waits until all executions are settled.
    pub(crate) async fn all_settled(&self) {
        // The sender is in `self` and cannot be dropped.
        let _ = self.load.subscribe().wait_for(|load| load.unsettled == 0).await;
    }

    /// Waits until the outcomes of all executions that have ended are stored.
    pub(crate) async fn outcomes_stored(&self) {
        let mut load = self.load.subscribe();
        while self.running().is_any_ended() && load.changed().await.is_ok() {}
    }

    /// The attempts whose handlers have not ended and whose jobs may run again elsewhere.
    pub(crate) fn releasable_attempts(&self) -> Vec<AttemptId> {
        self.running().releasable()
    }

    /// The attempts whose handlers have not ended.
    pub(crate) fn unended_attempts(&self) -> Vec<AttemptId> {
        self.running().unended()
    }

    /// Notifies the executor of an attempt that this worker no longer holds the job, unless it was settled meanwhile.
    pub(crate) fn lose(&self, attempt: AttemptId) {
        self.running().lose(attempt);
    }

    /// The store has confirmed the lease of an attempt until then, by this worker's clock.
    pub(crate) fn confirm(&self, attempt: AttemptId, lease_until: Instant) {
        self.running().confirm(attempt, lease_until);
    }

    /// The start of an execution was recorded: its job runs at most once.
    pub(crate) fn confirm_start(&self, execution: &Execution) {
        self.running().confirm_start(execution);
    }

    /// Whether this worker has already confirmed the start of this run.
    pub(crate) fn has_started(&self, run: AttemptId) -> bool {
        self.running().has_started(run)
    }

    /// The store has received a heartbeat of this worker that was sent at this time.
    pub(crate) fn confirm_alive(&self, sent_at: Instant) {
        if let Some(silence) = self.store().worker_silence_max() {
            self.running().confirm_alive(sent_at + silence);
        }
    }

    /// The attempts whose leases expire by `then`, by this worker's own clock, unless they are confirmed for longer.
    pub(crate) fn attempts_expiring_until(&self, then: Instant) -> Vec<AttemptId> {
        self.running().expiring_until(then)
    }

    /// Until when an execution may last that the store has not recorded; `None` once it is recorded.
    fn unrecorded_until(&self, attempt: AttemptId) -> Option<Instant> {
        self.store().unrecorded_until(attempt).map(Instant::from_std)
    }

    /// Notifies the executors whose leases have expired by this worker's clock; returns the time of the next check, at
    /// most `latest`.
    pub(crate) fn expire(&self, now: Instant, latest: Instant) -> Instant {
        self.running().expire(now, latest, |attempt| self.unrecorded_until(attempt))
    }

    /// Whether the lease of an execution, expected to expire at `over_at`, has expired, so that it must not start: the
    /// process may have been suspended since the claim, before any check of its leases.
    pub(crate) fn is_over(&self, execution: &Execution, over_at: Instant) -> bool {
        let now = Instant::now();
        if over_at <= now {
            self.running().expire_one(execution, now, |attempt| self.unrecorded_until(attempt));
        }
        execution.is_lease_over()
    }

    /// Gives an execution up: this worker no longer holds its job. The end of its handler is reported to the store.
    pub(crate) fn give_up(&self, execution: &Execution) {
        let attempt = execution.attempt();
        if execution.is_lease_over() {
            tracing::warn!(job = %attempt.job, %attempt, "gave up an execution: its lease expired and the store could not be reached to extend it");
        } else {
            tracing::warn!(job = %attempt.job, %attempt, "gave up an execution: its job was cancelled or claimed again, or its lease expired");
        }
        self.counters.lost_leases.fetch_add(1, Ordering::Relaxed);
        execution.give_up();
    }

    /// Removes executions that were given up, once the end of their handlers was reported to the store or cannot be
    /// reported.
    pub(crate) fn released(&self, attempts: &[AttemptId]) {
        self.end_by(|running| running.released(attempts));
    }

    /// Removes all executions that were given up.
    pub(crate) fn forget_given_up(&self) {
        self.end_by(Running::forget_given_up);
    }

    /// Waits for the grace period of a handler that was just asked to stop.
    pub(crate) async fn grace_over(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.config.grace) => {}
            () = self.hurried.cancelled().then(|()| tokio::time::sleep(HURRIED_GRACE)) => {}
        }
    }

    /// The handler of an execution is gone. If its job was cancelled, it may have occupied a slot, at most until its
    /// lease expires.
    pub(crate) fn gone(&self, execution: &Execution) {
        let (attempt, given_up) = (execution.attempt(), self.running().gone(execution));
        if given_up && (execution.is_lease_over() || !self.outbox.gone(attempt)) {
            self.released(&[attempt]);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.stats(self.running().unsettled_count() as u64)
    }
}

/// Receives the reports of handlers.
impl ProgressSink for Shared {
    fn take(&self, report: ProgressReport) -> bool {
        self.outbox.take(report)
    }

    fn extended(&self, attempt: AttemptId, lease_until: time::Instant) {
        self.confirm(attempt, lease_until.into());
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({})", json!(self.id))
    }
}

/// A caller waits until there is nothing left to run. Claims that begin meanwhile also look for suspects.
pub(crate) struct Awaiting<'a>(&'a Shared);

impl<'a> Awaiting<'a> {
    pub(crate) fn begin(shared: &'a Shared) -> Self {
        shared.awaiting_empty.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        self.0.awaiting_empty.fetch_sub(1, Ordering::SeqCst);
    }
}
