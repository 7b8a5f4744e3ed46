//! What the parts of a worker share.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{self, Duration},
};

use futures_util::FutureExt;
use punctual_client::{NoteSink, Punctual, admin::Retention};
use punctual_core::{AttemptId, ProgressReport, Store, WorkerId};
use serde::{Deserialize, Serialize};
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
    running::{Begun, Execution, Hold, Running},
};

/// How long handlers get to end once this process has little time left.
const HURRIED_GRACE: Duration = Duration::from_millis(500);

/// In which order a worker takes jobs of its queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// As if they were one: higher priority first, then earlier.
    #[default]
    Together,
    /// As they are listed: nothing of the second while there is something of the first.
    Strict,
    /// Each with its share, by these weights, while all have something; what some leave, others take.
    Weighted(Vec<u32>),
}

/// How a worker works.
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
    /// Claims nothing.
    pub(crate) upkeep_only: bool,
    /// Leaves to others what is done for all.
    pub(crate) no_upkeep: bool,
    /// Which suspects it runs.
    pub(crate) isolation: Isolation,
}

/// What the parts of a worker share.
pub(crate) struct Shared {
    pub(crate) id: WorkerId,
    pub(crate) punctual: Punctual,
    pub(crate) registry: Registry,
    pub(crate) config: Config,
    /// What runs beside what.
    pub(crate) isolator: Isolator,
    /// How many wait until there is nothing left to run.
    pub(crate) awaiting_empty: AtomicUsize,
    /// The way to the settler.
    pub(crate) mailbox: Arc<Outbox>,
    /// The way to the confirmer.
    pub(crate) confirmer: Confirmer,
    running: Mutex<Running>,
    /// A job was claimed whose lease may be over before leases are looked at.
    pub(crate) short_lease: Notify,
    /// How busy it is, for those who wait for the end.
    pub(crate) load: watch::Sender<Load>,
    /// Look for work once more: somebody wants to know whether there is none.
    pub(crate) look: Notify,
    /// Claim no more.
    pub(crate) draining: CancellationToken,
    /// Give back what still runs.
    pub(crate) releasing: CancellationToken,
    /// Give it back soon: this process has little time left.
    pub(crate) hurried: CancellationToken,
    pub(crate) counters: Counters,
}

/// How busy a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// Executions that are not settled yet.
    pub(crate) unsettled: usize,
    /// Counts the times that executions were settled. A job may have enqueued others, so only a claim that began
    /// after the last of them proves that there is nothing left.
    settled_times: u64,
    /// Counts the claims that began. Whoever has enqueued something trusts only one that began afterwards.
    claims: u64,
    /// The last claim, if it found nothing.
    starved: Option<Mark>,
}

/// When a claim began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    settled_times: u64,
    claim: u64,
}

impl Load {
    /// How many claims have begun.
    pub(crate) const fn claims(self) -> u64 {
        self.claims
    }

    /// Whether nothing runs, and a claim that began after so many others has found nothing to run.
    pub(crate) fn is_empty_since(self, claims: u64) -> bool {
        let proves = |mark: Mark| mark.settled_times == self.settled_times && mark.claim > claims;
        self.unsettled == 0 && self.starved.is_some_and(proves)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) claimed: AtomicU64,
    pub(crate) succeeded: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) died: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) lost_leases: AtomicU64,
    pub(crate) reaped: AtomicU64,
    pub(crate) occurrences: AtomicU64,
    pub(crate) misfires: AtomicU64,
}

/// What a worker has done since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Jobs it took.
    pub claimed: u64,
    /// Executions that succeeded.
    pub succeeded: u64,
    /// Executions that failed and will be retried.
    pub failed: u64,
    /// Executions that failed for the last time.
    pub died: u64,
    /// Executions that were given back or snoozed.
    pub released: u64,
    /// Settles that came too late to count.
    pub stale: u64,
    /// Leases that were lost, or jobs cancelled, while their handler ran.
    pub lost_leases: u64,
    /// Jobs of vanished workers that it put back.
    pub reaped: u64,
    /// Occurrences of schedules that it enqueued.
    pub occurrences: u64,
    /// Schedules that it found to have misfired.
    pub misfires: u64,
    /// Executions under way.
    pub running: u64,
}

impl Stats {
    /// What two workers have done together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            claimed: self.claimed + other.claimed,
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            died: self.died + other.died,
            released: self.released + other.released,
            stale: self.stale + other.stale,
            lost_leases: self.lost_leases + other.lost_leases,
            reaped: self.reaped + other.reaped,
            occurrences: self.occurrences + other.occurrences,
            misfires: self.misfires + other.misfires,
            running: self.running + other.running,
        }
    }
}

impl Shared {
    pub(crate) fn new(
        id: WorkerId,
        punctual: Punctual,
        registry: Registry,
        config: Config,
        (mailbox, confirmer): (Outbox, Confirmer),
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            punctual,
            registry,
            isolator: Isolator::new(config.isolation),
            awaiting_empty: AtomicUsize::new(0),
            config,
            mailbox: Arc::new(mailbox),
            confirmer,
            running: Mutex::default(),
            short_lease: Notify::new(),
            load: watch::Sender::new(Load::default()),
            look: Notify::new(),
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

    /// Executions begin, each with the end of its lease by this worker's clock. Nothing for those that are not to
    /// begin.
    pub(crate) fn begin(&self, claims: impl IntoIterator<Item = (AttemptId, Instant)>) -> Vec<Option<Begun>> {
        let mut running = self.running();
        let begin = |(attempt, lease_until)| {
            let hold = Hold { attempt, lease_until, unrecorded_until: self.unrecorded_until(attempt) };
            if running.is_over_before_next_look(hold) {
                self.short_lease.notify_one();
            }
            running.begin(hold)
        };
        let begun: Vec<_> = claims.into_iter().map(begin).collect();
        self.load.send_modify(|load| load.unsettled = running.unsettled_count());
        begun
    }

    /// Executions have been settled.
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

    /// A claim begins; it ends with [`claimed`](Self::claimed).
    pub(crate) fn begin_claim(&self) -> Mark {
        let mut mark = None;
        self.load.send_if_modified(|load| {
            load.claims += 1;
            mark = Some(Mark { settled_times: load.settled_times, claim: load.claims });
            false
        });
        mark.unwrap_or(Mark { settled_times: 0, claim: 0 })
    }

    /// So many jobs were taken.
    pub(crate) fn count_claimed(&self, jobs: usize) {
        self.counters.claimed.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Whether somebody waits until there is nothing left to run.
    pub(crate) fn is_empty_awaited(&self) -> bool {
        self.awaiting_empty.load(Ordering::Relaxed) > 0
    }

    /// A claim has ended that began at `mark`; it got so many jobs, and a rate may have held back others.
    pub(crate) fn claimed(&self, mark: Mark, jobs: usize, held_back: bool) {
        self.count_claimed(jobs);
        let starved = (jobs == 0 && !held_back).then_some(mark);
        self.load.send_if_modified(|load| std::mem::replace(&mut load.starved, starved) != starved);
    }

    /// The attempts whose leases are to be kept.
    pub(crate) fn kept_attempts(&self) -> Vec<AttemptId> {
        self.running().kept()
    }

    /// Waits until nothing is unsettled.
    pub(crate) async fn all_settled(&self) {
        // The other end is ours, so it cannot be gone.
        let _ = self.load.subscribe().wait_for(|load| load.unsettled == 0).await;
    }

    /// Waits until the outcomes of all executions that have ended are stored.
    pub(crate) async fn outcomes_stored(&self) {
        let mut load = self.load.subscribe();
        while self.running().is_any_ended() && load.changed().await.is_ok() {}
    }

    /// The attempts whose handlers have not come to their end and may run once more elsewhere.
    pub(crate) fn releasable_attempts(&self) -> Vec<AttemptId> {
        self.running().releasable()
    }

    /// The attempts whose handlers have not come to their end.
    pub(crate) fn unended_attempts(&self) -> Vec<AttemptId> {
        self.running().unended()
    }

    /// Lets the executor of an attempt know that it is no longer this worker's, unless it was settled meanwhile.
    pub(crate) fn lose(&self, attempt: AttemptId) {
        self.running().lose(attempt);
    }

    /// The store has confirmed the lease of an attempt until then, by this worker's clock.
    pub(crate) fn confirm(&self, attempt: AttemptId, lease_until: Instant) {
        self.running().confirm(attempt, lease_until);
    }

    /// The start of an execution is on record: its job runs at most once.
    pub(crate) fn confirm_start(&self, execution: &Execution) {
        self.running().confirm_start(execution);
    }

    /// Whether this worker has confirmed the start of that run before.
    pub(crate) fn has_started(&self, run: AttemptId) -> bool {
        self.running().has_started(run)
    }

    /// The store has heard a sign of life of this worker, which was given at that time.
    pub(crate) fn confirm_alive(&self, given_at: Instant) {
        if let Some(silence) = self.store().worker_silence_max() {
            self.running().confirm_alive(given_at + silence);
        }
    }

    /// The attempts whose leases are over by then, by this worker's own clock, unless they are confirmed for longer.
    pub(crate) fn attempts_expiring_until(&self, then: Instant) -> Vec<AttemptId> {
        self.running().expiring_until(then)
    }

    /// Until when an execution may last that the store has not recorded; nothing once it has.
    fn unrecorded_until(&self, attempt: AttemptId) -> Option<Instant> {
        self.store().unrecorded_until(attempt).map(Instant::from_std)
    }

    /// Tells the executors whose leases are over by this worker's clock; says when to look again, `latest` at the
    /// latest.
    pub(crate) fn expire(&self, now: Instant, latest: Instant) -> Instant {
        self.running().expire(now, latest, |attempt| self.unrecorded_until(attempt))
    }

    /// Whether an execution whose lease was to be over by `over_at` may not start any more: this process may have stood
    /// still since the claim, and nobody has looked at its leases yet.
    pub(crate) fn is_over(&self, execution: &Execution, over_at: Instant) -> bool {
        let now = Instant::now();
        if over_at <= now {
            self.running().expire_one(execution, now, |attempt| self.unrecorded_until(attempt));
        }
        execution.is_lease_over()
    }

    /// An execution is given up: its job is somebody else's, or nobody's. The store learns when its handler is gone.
    pub(crate) fn give_up(&self, execution: &Execution) {
        let attempt = execution.attempt();
        if execution.is_lease_over() {
            tracing::warn!(job = %attempt.job, %attempt, "the lease is over and the store could not be reached to extend it: the execution is given up");
        } else {
            tracing::warn!(job = %attempt.job, %attempt, "the job is no longer ours: cancelled, claimed again, or the lease ran out");
        }
        self.counters.lost_leases.fetch_add(1, Ordering::Relaxed);
        execution.give_up();
    }

    /// The store has learned that the handlers of executions that were given up are gone, or cannot be told.
    pub(crate) fn released(&self, attempts: &[AttemptId]) {
        self.end_by(|running| running.released(attempts));
    }

    /// Executions that were given up are not waited for any longer.
    pub(crate) fn forget_given_up(&self) {
        self.end_by(Running::forget_given_up);
    }

    /// Waits for as long as a handler that was just told to stop may take.
    pub(crate) async fn grace_over(&self) {
        tokio::select! {
            () = tokio::time::sleep(self.config.grace) => {}
            () = self.hurried.cancelled().then(|()| tokio::time::sleep(HURRIED_GRACE)) => {}
        }
    }

    /// The handler of an execution is gone. If its job was cancelled, it may have occupied a slot, as long as its lease
    /// lasts.
    pub(crate) fn gone(&self, execution: &Execution) {
        let (attempt, given_up) = (execution.attempt(), self.running().gone(execution));
        if given_up && (execution.is_lease_over() || !self.mailbox.gone(attempt)) {
            self.released(&[attempt]);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let Counters { claimed, succeeded, failed, died, released, stale, lost_leases, reaped, occurrences, misfires } =
            &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            claimed: read(claimed),
            succeeded: read(succeeded),
            failed: read(failed),
            died: read(died),
            released: read(released),
            stale: read(stale),
            lost_leases: read(lost_leases),
            reaped: read(reaped),
            occurrences: read(occurrences),
            misfires: read(misfires),
            running: self.running().unsettled_count() as u64,
        }
    }
}

/// What handlers say of themselves.
impl NoteSink for Shared {
    fn take(&self, note: ProgressReport) -> bool {
        self.mailbox.take(note)
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
