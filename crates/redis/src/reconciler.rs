//! What Redis is told of jobs, other than by whoever has just stored them. A hint too many does no harm: nothing is
//! cached of these, so that whoever gets one asks the primary store first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use punctual_core::{
    ClaimRequest, JobId, StoreResult, Timestamp, Watch, WorkerId,
    dispatch::{HORIZON, Hint, Lane, PrimaryStore},
};
use tokio::time::Instant;

use crate::{
    dispatch_lease::{DispatchLease, DispatchState},
    keys::Namespace,
    repairs::Repairs,
    scripts::{CALL_MAX_JOBS, Queue, Told},
    server::Server,
};

/// How often to look for jobs that nobody has told of, when no hint comes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long ahead of the horizon's end the next part of it is told.
const HORIZON_STEP: Duration = Duration::from_secs(5);
/// Queued jobs that a sweep looks at in one go.
const SWEEP_MAX_JOBS: usize = 5_000;

/// Tells Redis of jobs.
pub(crate) struct Reconciler {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    /// Hears when there may be something to tell.
    work: tokio::sync::Mutex<(Box<dyn Watch>, Option<Instant>)>,
    /// Where the sweep has come to.
    sweep: Mutex<Sweep>,
    repairs: Repairs,
}

#[derive(Default)]
struct Sweep {
    lanes: Vec<Arc<Lane>>,
    after: Option<(Timestamp, JobId)>,
}

/// What Redis has heard of some jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    All,
    /// Their queue is not open.
    Closed,
    /// It could not be reached.
    Nothing,
}

impl Reconciler {
    pub(crate) fn new(primary: Arc<dyn PrimaryStore>, server: Server, namespace: Namespace) -> Self {
        let work = tokio::sync::Mutex::new((primary.watch_work(), None));
        let repairs = Repairs::new(server.clone(), namespace.clone());
        Self { primary, server, namespace, work, sweep: Mutex::default(), repairs }
    }

    fn queue<'a>(&'a self, name: &'a str, epoch: u64) -> Queue<'a> {
        Queue { server: &self.server, namespace: &self.namespace, name, epoch }
    }

    /// Tells of jobs of which nobody has told, and of those whose time comes near.
    pub(crate) async fn look(&self, keeper: &DispatchLease, ahead: Duration) -> StoreResult<()> {
        let standing = keeper.standing().await?;
        let now = self.primary.now();
        if standing.due_until.is_none_or(|until| until < now.after(ahead + HORIZON_STEP)) {
            self.load_due(keeper, standing.due_until, now.after(HORIZON)).await?;
            keeper.forget();
        }
        let mut work = self.work.lock().await;
        let hinted = work.0.changed().now_or_never().is_some();
        if hinted || work.1.is_none_or(|last| last.elapsed() > LOOK_EVERY) {
            self.load_undispatched(keeper, now.after(HORIZON)).await?;
            work.1 = Some(Instant::now());
        }
        Ok(())
    }

    async fn load_undispatched(&self, keeper: &DispatchLease, until: Timestamp) -> StoreResult<()> {
        loop {
            let hints = self.primary.undispatched(until, CALL_MAX_JOBS).await?;
            if hints.is_empty() || !self.put(keeper, &hints, Told::Changed).await? {
                return Ok(());
            }
            let all = hints.len() < CALL_MAX_JOBS;
            self.primary.mark_dispatched(hints).await?;
            if all {
                return Ok(());
            }
        }
    }

    async fn load_due(&self, keeper: &DispatchLease, before: Option<Timestamp>, until: Timestamp) -> StoreResult<()> {
        if self.put_due(keeper, None, before.unwrap_or(Timestamp::MIN), until).await? {
            self.primary.mark_due_dispatched(before, until).await?;
        }
        Ok(())
    }

    /// Tells of the jobs of a queue that wait for their time. While it was closed, its part of the horizon was passed
    /// over.
    async fn load_due_of(&self, keeper: &DispatchLease, name: &str) -> StoreResult<bool> {
        let standing = keeper.standing_since(Instant::now()).await?;
        // Somebody who has just passed it over may have looked a little further: clocks differ.
        let horizon = self.primary.now().after(HORIZON + HORIZON_STEP);
        let until = standing.due_until.map_or(horizon, |until| until.max(horizon));
        self.put_due(keeper, Some(name), Timestamp::MIN, until).await
    }

    /// Tells of jobs that wait for a time between two, of one queue or of all. Says whether Redis has heard.
    async fn put_due(
        &self,
        keeper: &DispatchLease,
        queue: Option<&str>,
        after: Timestamp,
        until: Timestamp,
    ) -> StoreResult<bool> {
        let mut after = (after, JobId::from_bits(0));
        loop {
            let hints = self.primary.due(queue, after, until, CALL_MAX_JOBS).await?;
            if !hints.is_empty() && !self.put(keeper, &hints, Told::Changed).await? {
                return Ok(false);
            }
            match hints.last().filter(|_| hints.len() == CALL_MAX_JOBS) {
                Some(last) => after = (last.run_at, last.job),
                None => return Ok(true),
            }
        }
    }

    /// Tells of jobs of which somebody else may have told, but for those that are in somebody's hands.
    pub(crate) async fn tell_again(&self, keeper: &DispatchLease, hints: &[Hint]) -> StoreResult<()> {
        for part in hints.chunks(CALL_MAX_JOBS) {
            self.put(keeper, part, Told::Again).await?;
        }
        Ok(())
    }

    /// Tells of jobs, those of open queues; of the others it is told when their queue is opened. Says whether Redis has
    /// heard.
    async fn put(&self, keeper: &DispatchLease, hints: &[Hint], what: Told) -> StoreResult<bool> {
        let read_at = Instant::now();
        let mut lanes: BTreeMap<&Arc<Lane>, Vec<Hint>> = BTreeMap::new();
        for hint in hints {
            lanes.entry(&hint.lane).or_default().push(hint.clone());
        }
        let known = keeper.standing().await?;
        for (lane, hints) in lanes {
            let heard = match known.epoch(&lane.queue) {
                Some(epoch) => self.put_lane(lane, epoch, &hints, what).await,
                None => Heard::Closed,
            };
            if heard == Heard::Closed {
                // One that was opened before they were read has not been told of them, perhaps.
                let now = keeper.standing_since(read_at).await?;
                if let Some(epoch) = now.epoch(&lane.queue)
                    && self.put_lane(lane, epoch, &hints, what).await == Heard::Nothing
                {
                    return Ok(false);
                }
            } else if heard == Heard::Nothing {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn put_lane(&self, lane: &Lane, epoch: u64, hints: &[Hint], what: Told) -> Heard {
        match self.queue(&lane.queue, epoch).put(hints, what).await {
            Ok(Some(_)) => Heard::All,
            Ok(None) => Heard::Closed,
            Err(error) => {
                tracing::debug!(%error, "cannot tell Redis of jobs");
                Heard::Nothing
            }
        }
    }

    /// Tells of the jobs of a queue that is open now: of a page of each lane, or of all. Says whether there are more.
    pub(crate) async fn load(&self, keeper: &DispatchLease, name: &str, epoch: u64, all: bool) -> StoreResult<bool> {
        // Those that wait for their time come first: one whose time comes meanwhile is among the others then.
        if !self.load_due_of(keeper, name).await? {
            return Ok(true);
        }
        let mut more = false;
        for lane in self.lanes(Some(name)) {
            let mut after = None;
            loop {
                let hints = self.primary.queued(&lane, after, Timestamp::MAX, CALL_MAX_JOBS).await?;
                if self.queue(name, epoch).put(&hints, Told::Queued).await.is_err() {
                    return Ok(true);
                }
                match hints.last().filter(|_| hints.len() == CALL_MAX_JOBS) {
                    Some(last) if all => after = Some((last.run_at, last.job)),
                    last => {
                        more |= last.is_some();
                        break;
                    }
                }
            }
        }
        if !more {
            self.primary.opened(name.to_owned(), epoch).await?;
        }
        Ok(more)
    }

    /// Whether a queue has jobs without limits.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        !self.lanes(Some(queue)).is_empty()
    }

    /// The lanes whose jobs have no limits, highest priorities first.
    fn lanes(&self, queue: Option<&str>) -> Vec<Arc<Lane>> {
        let all = ClaimRequest {
            queues: queue.map(str::to_owned).into_iter().collect(),
            ..ClaimRequest::new(WorkerId::from_bits(0), 0, Duration::ZERO)
        };
        let mut lanes = self.primary.lanes(&all).plain;
        lanes.sort_by_key(|(_, rank)| *rank);
        lanes.into_iter().map(|(lane, _)| lane).collect()
    }

    /// Puts right whatever a crash has left, a bounded part of it at a time.
    pub(crate) async fn maintain(&self, keeper: &DispatchLease) -> StoreResult<()> {
        let standing = keeper.standing().await?;
        if !standing.is_open() {
            return Ok(());
        }
        for queue in standing.queues() {
            match self.queue(&queue.queue, queue.epoch).reap().await {
                Ok(0) => {}
                Ok(jobs) => {
                    tracing::info!(queue = queue.queue, jobs, "put jobs back that their claimers have said nothing of");
                    self.repairs.count("jobs put back that nobody said anything of", jobs).await;
                }
                Err(error) => tracing::debug!(%error, "cannot look for jobs in hands"),
            }
        }
        let repaired = self.sweep(&standing).await?;
        if repaired > 0 {
            tracing::info!(jobs = repaired, "told Redis of jobs that it should have known");
            self.repairs.count("queued jobs told that Redis did not know", repaired).await;
        }
        Ok(())
    }

    /// Compares a part of what is queued with what Redis knows; says how much it did not know.
    async fn sweep(&self, standing: &DispatchState) -> StoreResult<usize> {
        let mut left = SWEEP_MAX_JOBS;
        let mut repaired = 0;
        while left > 0 {
            let (lane, after) = {
                let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
                if sweep.lanes.is_empty() {
                    sweep.lanes = self.lanes(None);
                    sweep.lanes.reverse();
                    left = left.min(CALL_MAX_JOBS);
                }
                let Some(lane) = sweep.lanes.last().cloned() else { return Ok(repaired) };
                (lane, sweep.after)
            };
            let page = left.min(CALL_MAX_JOBS);
            // What has just been stored is being told by whoever did.
            let settled = self.primary.now().before(HORIZON_STEP);
            let hints = self.primary.queued(&lane, after, settled, page).await?;
            if let Some(epoch) = standing.epoch(&lane.queue) {
                repaired += self.queue(&lane.queue, epoch).put(&hints, Told::Queued).await.ok().flatten().unwrap_or(0);
            }
            let mut sweep = self.sweep.lock().unwrap_or_else(PoisonError::into_inner);
            sweep.after = hints.last().filter(|_| hints.len() == page).map(|last| (last.run_at, last.job));
            if sweep.after.is_none() {
                sweep.lanes.pop();
            }
            left = left.saturating_sub(hints.len().max(1));
            if sweep.lanes.is_empty() {
                break;
            }
        }
        Ok(repaired)
    }
}
