//! What the parts of a worker share.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use punctual_client::{Punctual, admin::Retention};
use punctual_core::{AttemptId, Store, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::{mailbox::Mailbox, registry::Registry};

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
}

/// What the parts of a worker share.
pub(crate) struct Shared {
    pub(crate) id: WorkerId,
    pub(crate) punctual: Punctual,
    pub(crate) registry: Registry,
    pub(crate) config: Config,
    /// The way to the settler.
    pub(crate) mailbox: Arc<Mailbox>,
    /// Executions that are not settled yet: their leases are kept, and losing one must reach the handler.
    running: Mutex<HashMap<AttemptId, Execution>>,
    /// How busy it is, for those who wait for the end.
    pub(crate) load: watch::Sender<Load>,
    /// Look for work once more: somebody wants to know whether there is none.
    pub(crate) look: Notify,
    /// Claim no more.
    pub(crate) draining: CancellationToken,
    /// Give back what still runs.
    pub(crate) releasing: CancellationToken,
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

/// How the worker reaches one execution.
#[derive(Debug, Clone, Default)]
pub(crate) struct Execution(Arc<Reach>);

#[derive(Debug, Default)]
struct Reach {
    /// Tells the executor that the job is no longer this worker's.
    lost: Notify,
    /// Whether it has come to its end, and only the settler has still to do with it.
    ended: AtomicBool,
}

impl Execution {
    /// Waits until the job is no longer this worker's. Only the executor does, and once.
    pub(crate) async fn lost(&self) {
        self.0.lost.notified().await;
    }

    /// The outcome is known. From here on the store may say at any time that the job is nobody's any more.
    pub(crate) fn has_ended(&self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }

    fn is_ended(&self) -> bool {
        self.0.ended.load(Ordering::Relaxed)
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
        mailbox: Mailbox,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            punctual,
            registry,
            config,
            mailbox: Arc::new(mailbox),
            running: Mutex::default(),
            load: watch::Sender::new(Load::default()),
            look: Notify::new(),
            draining: CancellationToken::new(),
            releasing: CancellationToken::new(),
            counters: Counters::default(),
        })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.punctual.store()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<AttemptId, Execution>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executions begin.
    pub(crate) fn begin(&self, attempts: impl IntoIterator<Item = AttemptId>) -> Vec<Execution> {
        let mut running = self.running();
        let begin = |attempt| {
            let execution = Execution::default();
            running.insert(attempt, execution.clone());
            execution
        };
        let executions = attempts.into_iter().map(begin).collect();
        self.load.send_modify(|load| load.unsettled = running.len());
        executions
    }

    /// Executions have been settled, or are somebody else's now.
    pub(crate) fn end(&self, attempts: impl IntoIterator<Item = AttemptId>) {
        let mut running = self.running();
        for attempt in attempts {
            running.remove(&attempt);
        }
        self.load.send_modify(|load| {
            load.unsettled = running.len();
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

    /// A claim has ended that began at `mark`; it got so many jobs, and a rate may have held back others.
    pub(crate) fn claimed(&self, mark: Mark, jobs: usize, held_back: bool) {
        self.counters.claimed.fetch_add(jobs as u64, Ordering::Relaxed);
        let starved = (jobs == 0 && !held_back).then_some(mark);
        self.load.send_if_modified(|load| std::mem::replace(&mut load.starved, starved) != starved);
    }

    /// The attempts that are not settled yet.
    pub(crate) fn unsettled_attempts(&self) -> Vec<AttemptId> {
        self.running().keys().copied().collect()
    }

    /// Waits until nothing is unsettled.
    pub(crate) async fn all_settled(&self) {
        // The other end is ours, so it cannot be gone.
        let _ = self.load.subscribe().wait_for(|load| load.unsettled == 0).await;
    }

    /// The attempts whose handlers have not come to their end.
    pub(crate) fn unended_attempts(&self) -> Vec<AttemptId> {
        let running = self.running();
        let unended = running.iter().filter(|(_, execution)| !execution.is_ended());
        unended.map(|(attempt, _)| *attempt).collect()
    }

    /// Lets the executor of an attempt know that it is no longer this worker's, unless it was settled meanwhile.
    pub(crate) fn lose(&self, attempt: AttemptId) {
        if let Some(execution) = self.running().get(&attempt)
            && !execution.is_ended()
        {
            execution.0.lost.notify_one();
        }
    }

    /// An execution is given up: its job is somebody else's, or nobody's.
    pub(crate) fn give_up(&self, attempt: AttemptId) {
        tracing::warn!(job = %attempt.job, %attempt, "the job is no longer ours: cancelled, or the lease ran out");
        self.counters.lost_leases.fetch_add(1, Ordering::Relaxed);
        self.end([attempt]);
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
            running: self.running().len() as u64,
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({})", json!(self.id))
    }
}
