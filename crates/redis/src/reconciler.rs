//! Keeps the hints in Redis complete, in addition to the hints that enqueues send. A superfluous hint does no harm:
//! these jobs have no cached documents, so that a claim checks them with the primary store first.

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
    scripts::{CALL_MAX_JOBS, PushReason, Queue},
    server::Server,
};

/// Interval between searches for undispatched jobs, when no wake-up arrives.
const POLL_PERIOD: Duration = Duration::from_millis(250);
/// How long before the end of the horizon its next part is dispatched.
const HORIZON_STEP: Duration = Duration::from_secs(5);
/// Maximum number of queued jobs that one sweep compares.
const SWEEP_MAX_JOBS: usize = 5_000;

/// Sends hints of jobs to Redis.
pub(crate) struct Reconciler {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    /// Notified when there may be undispatched jobs; and the time of the last search.
    work: tokio::sync::Mutex<(Box<dyn Watch>, Option<Instant>)>,
    /// The position of the sweep.
    sweep: Mutex<Sweep>,
    repairs: Repairs,
}

#[derive(Default)]
struct Sweep {
    lanes: Vec<Arc<Lane>>,
    after: Option<(Timestamp, JobId)>,
}

/// Whether Redis received some hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PushResult {
    All,
    /// No: their queue is not open.
    Closed,
    /// No: Redis could not be reached.
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

    /// Dispatches jobs that have not been dispatched yet, and jobs that start soon.
    pub(crate) async fn dispatch_due(&self, dispatch_lease: &DispatchLease, ahead: Duration) -> StoreResult<()> {
        let state = dispatch_lease.state().await?;
        let now = self.primary.now();
        if state.due_until.is_none_or(|until| until < now.after(ahead + HORIZON_STEP)) {
            self.load_due(dispatch_lease, state.due_until, now.after(HORIZON)).await?;
            dispatch_lease.forget();
        }
        let mut work = self.work.lock().await;
        let hinted = work.0.changed().now_or_never().is_some();
        if hinted || work.1.is_none_or(|last| last.elapsed() > POLL_PERIOD) {
            self.load_undispatched(dispatch_lease, now.after(HORIZON)).await?;
            work.1 = Some(Instant::now());
        }
        Ok(())
    }

    async fn load_undispatched(&self, dispatch_lease: &DispatchLease, until: Timestamp) -> StoreResult<()> {
        loop {
            let hints = self.primary.undispatched(until, CALL_MAX_JOBS).await?;
            if hints.is_empty() || !self.put(dispatch_lease, &hints, PushReason::Changed).await? {
                return Ok(());
            }
            let all = hints.len() < CALL_MAX_JOBS;
            // Those of locked jobs are passed again, but not before they can have been unlocked.
            let recorded = self.primary.mark_dispatched(hints).await?;
            if all || recorded == 0 {
                return Ok(());
            }
        }
    }

    async fn load_due(
        &self,
        dispatch_lease: &DispatchLease,
        before: Option<Timestamp>,
        until: Timestamp,
    ) -> StoreResult<()> {
        if self.put_due(dispatch_lease, None, before.unwrap_or(Timestamp::MIN), until).await? {
            self.primary.mark_due_dispatched(before, until).await?;
        }
        Ok(())
    }

    /// Dispatches the scheduled jobs of a queue. The horizon was moved on without them while the queue was closed.
    async fn load_due_of(&self, dispatch_lease: &DispatchLease, name: &str) -> StoreResult<bool> {
        let state = dispatch_lease.state_since(Instant::now()).await?;
        // The process that moved the horizon may have read a slightly later time: clocks differ.
        let horizon = self.primary.now().after(HORIZON + HORIZON_STEP);
        let until = state.due_until.map_or(horizon, |until| until.max(horizon));
        self.put_due(dispatch_lease, Some(name), Timestamp::MIN, until).await
    }

    /// Dispatches jobs scheduled in a time range, of one queue or of all. Returns whether Redis received them.
    async fn put_due(
        &self,
        dispatch_lease: &DispatchLease,
        queue: Option<&str>,
        after: Timestamp,
        until: Timestamp,
    ) -> StoreResult<bool> {
        let mut after = (after, JobId::from_bits(0));
        loop {
            let hints = self.primary.due(queue, after, until, CALL_MAX_JOBS).await?;
            if !hints.is_empty() && !self.put(dispatch_lease, &hints, PushReason::Changed).await? {
                return Ok(false);
            }
            match hints.last().filter(|_| hints.len() == CALL_MAX_JOBS) {
                Some(last) => after = (last.run_at, last.job),
                None => return Ok(true),
            }
        }
    }

    /// Dispatches jobs that another process may have dispatched, except those that are claimed.
    pub(crate) async fn put_again(&self, dispatch_lease: &DispatchLease, hints: &[Hint]) -> StoreResult<()> {
        for part in hints.chunks(CALL_MAX_JOBS) {
            self.put(dispatch_lease, part, PushReason::Again).await?;
        }
        Ok(())
    }

    /// Dispatches jobs of open queues; the other jobs are dispatched when their queue is opened. Returns whether Redis
    /// received them.
    async fn put(&self, dispatch_lease: &DispatchLease, hints: &[Hint], what: PushReason) -> StoreResult<bool> {
        let read_at = Instant::now();
        let mut lanes: BTreeMap<&Arc<Lane>, Vec<Hint>> = BTreeMap::new();
        for hint in hints {
            lanes.entry(&hint.lane).or_default().push(hint.clone());
        }
        let known = dispatch_lease.state().await?;
        for (lane, hints) in lanes {
            let result = match known.epoch(&lane.queue) {
                Some(epoch) => self.put_lane(lane, epoch, &hints, what).await,
                None => PushResult::Closed,
            };
            if result == PushResult::Closed {
                // A queue that was opened before the jobs were read may have been loaded without them.
                let now = dispatch_lease.state_since(read_at).await?;
                if let Some(epoch) = now.epoch(&lane.queue)
                    && self.put_lane(lane, epoch, &hints, what).await == PushResult::Nothing
                {
                    return Ok(false);
                }
            } else if result == PushResult::Nothing {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn put_lane(&self, lane: &Lane, epoch: u64, hints: &[Hint], what: PushReason) -> PushResult {
        match self.queue(&lane.queue, epoch).put(hints, what).await {
            Ok(Some(_)) => PushResult::All,
            Ok(None) => PushResult::Closed,
            Err(error) => {
                tracing::debug!(%error, "cannot pass jobs to Redis");
                PushResult::Nothing
            }
        }
    }

    /// Dispatches the jobs of an open queue: one page of each lane, or all. Returns whether there are more.
    pub(crate) async fn load(
        &self,
        dispatch_lease: &DispatchLease,
        name: &str,
        epoch: u64,
        all: bool,
    ) -> StoreResult<bool> {
        // Scheduled jobs first: a job that becomes due meanwhile is then among the queued jobs.
        if !self.load_due_of(dispatch_lease, name).await? {
            return Ok(true);
        }
        let mut more = false;
        for lane in self.lanes(Some(name)) {
            let mut after = None;
            loop {
                let hints = self.primary.queued(&lane, after, Timestamp::MAX, CALL_MAX_JOBS).await?;
                if self.queue(name, epoch).put(&hints, PushReason::Queued).await.is_err() {
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

    /// Whether Redis hands out jobs of the queue: it has lanes without limits.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        !self.lanes(Some(queue)).is_empty()
    }

    /// The lanes whose jobs have no limits, lowest ranks first.
    fn lanes(&self, queue: Option<&str>) -> Vec<Arc<Lane>> {
        let all = ClaimRequest {
            queues: queue.map(str::to_owned).into_iter().collect(),
            ..ClaimRequest::new(WorkerId::from_bits(0), 0, Duration::ZERO)
        };
        let mut lanes = self.primary.lanes(&all).plain;
        lanes.sort_by_key(|(_, rank)| *rank);
        lanes.into_iter().map(|(lane, _)| lane).collect()
    }

    /// Repairs what a crash has left, a bounded number of jobs per call.
    pub(crate) async fn maintain(&self, dispatch_lease: &DispatchLease) -> StoreResult<()> {
        let state = dispatch_lease.state().await?;
        if !state.is_open() {
            return Ok(());
        }
        for queue in state.queues() {
            match self.queue(&queue.queue, queue.epoch).reap().await {
                Ok(0) => {}
                Ok(jobs) => {
                    tracing::info!(queue = queue.queue, jobs, "put back jobs that were neither recorded nor released");
                    self.repairs.count("jobs put back that were neither recorded nor released", jobs).await;
                }
                Err(error) => tracing::debug!(%error, "cannot put back claimed jobs"),
            }
        }
        let repaired = self.sweep(&state).await?;
        if repaired > 0 {
            tracing::info!(jobs = repaired, "sent jobs to Redis that it had lost");
            self.repairs.count("queued jobs sent again that Redis had lost", repaired).await;
        }
        Ok(())
    }

    /// Compares a page of the queued jobs with those that Redis knows; returns how many Redis did not know.
    async fn sweep(&self, state: &DispatchState) -> StoreResult<usize> {
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
            // Jobs that have just been stored are still being sent by the process that stored them.
            let settled = self.primary.now().before(HORIZON_STEP);
            let hints = self.primary.queued(&lane, after, settled, page).await?;
            if let Some(epoch) = state.epoch(&lane.queue) {
                repaired +=
                    self.queue(&lane.queue, epoch).put(&hints, PushReason::Queued).await.ok().flatten().unwrap_or(0);
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
