//! The executions that a worker holds: until when their leases are confirmed, and how to notify each one.

use std::{
    collections::{VecDeque, hash_map::Entry},
    iter,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use foldhash::{HashMap, HashSet};
use punctual_core::{AttemptId, JobId};
use tokio::{sync::Notify, time::Instant};

/// A handle to one execution.
#[derive(Debug, Clone)]
pub(crate) struct Execution(Arc<ExecutionState>);

#[derive(Debug)]
struct ExecutionState {
    attempt: AttemptId,
    /// The earlier execution of the same job that this one replaces.
    older: Option<Execution>,
    /// Notifies the executor that this worker no longer holds the job.
    lost: Notify,
    /// [`RUNNING`], [`ENDED`], [`REPLACED`] or [`GIVEN_UP`].
    state: AtomicU8,
    /// Whether the lease has expired by this worker's own clock.
    lease_over: AtomicBool,
    /// Whether its start was recorded in the store, as for jobs that run at most once.
    confirmed: AtomicBool,
    /// Whether the handler is gone, and the tasks that wait for that.
    gone: AtomicBool,
    going: Notify,
}

/// Number of runs with a confirmed start that a worker remembers.
const CONFIRMED_MAX_COUNT: usize = 10_000;

const RUNNING: u8 = 0;
/// The outcome is known and still has to be settled.
const ENDED: u8 = 1;
/// The same job was claimed again: the outcome of this execution is ignored.
const REPLACED: u8 = 2;
/// This worker no longer holds the job. The handler is asked to stop, and its end is reported to the store.
const GIVEN_UP: u8 = 3;

impl Execution {
    fn new(attempt: AttemptId, older: Option<Self>) -> Self {
        Self(Arc::new(ExecutionState {
            attempt,
            older,
            lost: Notify::new(),
            state: AtomicU8::new(RUNNING),
            lease_over: AtomicBool::new(false),
            confirmed: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            going: Notify::new(),
        }))
    }

    pub(crate) fn attempt(&self) -> AttemptId {
        self.0.attempt
    }

    /// An execution of the same job that was asked to stop. This one begins when the handler of the other one is gone.
    pub(crate) fn older(&self) -> Option<&Self> {
        self.0.older.as_ref()
    }

    /// This execution, and the earlier ones of the same job that may still exist.
    fn and_older(&self) -> impl Iterator<Item = &Self> {
        iter::successors(Some(self), |execution| execution.older())
    }

    /// Waits until this worker no longer holds the job. Only for the executor: the notification wakes one waiter.
    pub(crate) async fn lost(&self) {
        self.0.lost.notified().await;
    }

    /// Whether the lease has expired by this worker's own clock: another worker may have the job.
    pub(crate) fn is_lease_over(&self) -> bool {
        self.0.lease_over.load(Ordering::SeqCst)
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.0.confirmed.load(Ordering::SeqCst)
    }

    /// Whether the start of this execution, or of an earlier one, was recorded.
    pub(crate) fn is_any_confirmed(&self) -> bool {
        self.and_older().any(Self::is_confirmed)
    }

    /// Marks the outcome as known; returns whether it counts. From here on the store may report that the job is no
    /// longer held.
    pub(crate) fn end(&self) -> bool {
        self.leave_running_for(ENDED)
    }

    fn is_ended(&self) -> bool {
        self.0.state.load(Ordering::SeqCst) == ENDED
    }

    /// Marks that this worker no longer holds the job.
    pub(crate) fn give_up(&self) {
        self.leave_running_for(GIVEN_UP);
    }

    fn is_given_up(&self) -> bool {
        self.0.state.load(Ordering::SeqCst) == GIVEN_UP
    }

    fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::SeqCst)
    }

    /// Replaces this execution by another one of the same job; returns whether it was still running.
    fn replace(&self) -> bool {
        let replaced = self.leave_running_for(REPLACED);
        if replaced {
            self.0.lost.notify_one();
        }
        replaced
    }

    fn leave_running_for(&self, state: u8) -> bool {
        self.0.state.compare_exchange(RUNNING, state, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Waits until its handler and those of the earlier executions are gone: an execution may end while it waits for
    /// earlier ones.
    pub(crate) async fn all_gone(&self) {
        for execution in self.and_older() {
            execution.gone().await;
        }
    }

    async fn gone(&self) {
        let mut going = pin!(self.0.going.notified());
        // Subscribe before the check, so that no notification is missed.
        going.as_mut().enable();
        if !self.is_gone() {
            going.await;
        }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// An execution that may begin.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) execution: Execution,
    /// When its lease expires unless it has been confirmed for longer meanwhile.
    pub(crate) over_at: Instant,
}

/// An execution that is not settled yet.
#[derive(Debug)]
struct Held {
    execution: Execution,
    /// Until when the store has confirmed the lease, by this worker's own clock.
    lease_until: Instant,
    /// Until when the execution may last if the store does not record it by then; `None` once it is recorded.
    unrecorded_until: Option<Instant>,
}

impl Held {
    /// Whether its handler has not ended and was not given up.
    fn runs(&self) -> bool {
        !self.execution.is_ended() && !self.execution.is_given_up()
    }

    /// When the execution's lease expires unless it is confirmed for longer. `None` for an execution that has ended,
    /// since its outcome may still be accepted, and for one that was already notified. One that was given up has a
    /// time, since it may occupy a slot until then.
    fn given_up_at(&self, alive_until: Option<Instant>) -> Option<Instant> {
        let runs = !self.execution.is_ended() && !self.execution.is_lease_over();
        runs.then(|| [alive_until, self.unrecorded_until].into_iter().flatten().fold(self.lease_until, Instant::min))
    }

    /// Notifies the executor if the lease has expired by this worker's clock, or the store has not recorded the
    /// execution in time; otherwise returns when that may be.
    fn expire(
        &mut self,
        now: Instant,
        alive_until: Option<Instant>,
        unrecorded_until: impl Fn(AttemptId) -> Option<Instant>,
    ) -> Option<Instant> {
        if self.unrecorded_until.is_some_and(|until| until <= now) {
            self.unrecorded_until = unrecorded_until(self.execution.attempt());
        }
        let over_at = self.given_up_at(alive_until)?;
        if over_at > now {
            return Some(over_at);
        }
        self.execution.0.lease_over.store(true, Ordering::SeqCst);
        self.execution.0.lost.notify_one();
        None
    }
}

/// The runs with a confirmed start, up to the number that is remembered.
#[derive(Debug, Default)]
struct Confirmed {
    runs: HashSet<AttemptId>,
    oldest_first: VecDeque<AttemptId>,
}

impl Confirmed {
    fn add(&mut self, run: AttemptId) {
        if !self.runs.insert(run) {
            return;
        }
        self.oldest_first.push_back(run);
        if self.oldest_first.len() > CONFIRMED_MAX_COUNT
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.runs.remove(&oldest);
        }
    }
}

/// The executions that a worker holds.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// Executions that are not settled yet: their leases are renewed, and a lost one must be notified. Includes those
    /// that were given up, until the end of their handlers is reported to the store.
    unsettled: HashMap<AttemptId, Held>,
    /// Executions whose handlers are not gone, settled or not.
    present: HashMap<JobId, Execution>,
    /// Until when the store considers this worker alive, if the store ends the leases of dead workers.
    alive_until: Option<Instant>,
    /// Runs of jobs that run at most once. A store that loses writes may dispatch such a run again, even after its
    /// execution has ended.
    confirmed: Confirmed,
    /// The next time at which leases are checked, whatever is confirmed meanwhile.
    next_check: Option<Instant>,
}

/// The known times of a claim when its execution begins, by this worker's own clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimTimes {
    pub(crate) attempt: AttemptId,
    pub(crate) lease_until: Instant,
    /// Until when the execution may last if the store does not record it by then.
    pub(crate) unrecorded_until: Option<Instant>,
}

impl ClaimTimes {
    /// When the execution must end if neither its lease nor its record is confirmed.
    fn over_at(self) -> Instant {
        self.unrecorded_until.map_or(self.lease_until, |until| until.min(self.lease_until))
    }
}

impl Running {
    /// Begins an execution. `None` if this attempt has already ended and its outcome is being stored.
    pub(crate) fn begin(&mut self, times: ClaimTimes) -> Option<Begun> {
        let ClaimTimes { attempt, lease_until, unrecorded_until } = times;
        let entry = match self.unsettled.entry(attempt) {
            Entry::Occupied(held) if held.get().execution.is_ended() => return None,
            entry => entry,
        };
        let execution = match self.present.entry(attempt.job) {
            Entry::Vacant(entry) => entry.insert(Execution::new(attempt, None)).clone(),
            Entry::Occupied(mut entry) => {
                let execution = Execution::new(attempt, Some(entry.get().clone()));
                entry.insert(execution.clone());
                execution
            }
        };
        entry.insert_entry(Held { execution: execution.clone(), lease_until, unrecorded_until });
        if let Some(older) = execution.older().filter(|older| older.replace()) {
            tracing::warn!(job = %attempt.job, %attempt, older = %older.attempt(), "claimed a job that still runs here: its older execution is stopped");
            self.remove(older);
        }
        Some(Begun { execution, over_at: times.over_at() })
    }

    /// An attempt has been settled.
    pub(crate) fn settled(&mut self, attempt: AttemptId) {
        self.unsettled.remove(&attempt);
    }

    /// Removes an execution that this worker will not settle.
    fn remove(&mut self, execution: &Execution) {
        if self.unsettled.get(&execution.attempt()).is_some_and(|held| held.execution.is(execution)) {
            self.unsettled.remove(&execution.attempt());
        }
    }

    /// Removes executions that were given up, once the end of their handlers was reported to the store or cannot be
    /// reported.
    pub(crate) fn released(&mut self, attempts: &[AttemptId]) {
        self.unsettled.retain(|attempt, held| {
            !(held.execution.is_given_up() && held.execution.is_gone() && attempts.contains(attempt))
        });
    }

    /// Removes all executions that were given up.
    pub(crate) fn forget_given_up(&mut self) {
        self.unsettled.retain(|_, held| !held.execution.is_given_up());
    }

    /// Marks the handler of an execution as gone; returns whether the execution was given up.
    pub(crate) fn gone(&mut self, execution: &Execution) -> bool {
        if let Entry::Occupied(mut entry) = self.present.entry(execution.attempt().job)
            && entry.get().is(execution)
        {
            // It may have ended while it waited for an earlier execution.
            match execution.and_older().skip(1).find(|older| !older.is_gone()) {
                Some(older) => entry.insert(older.clone()),
                None => entry.remove(),
            };
        }
        execution.0.gone.store(true, Ordering::SeqCst);
        execution.0.going.notify_waiters();
        execution.is_given_up()
            && self.unsettled.get(&execution.attempt()).is_some_and(|held| held.execution.is(execution))
    }

    /// The store has confirmed the lease of an attempt.
    pub(crate) fn confirm(&mut self, attempt: AttemptId, lease_until: Instant) {
        if let Some(held) = self.unsettled.get_mut(&attempt) {
            held.lease_until = held.lease_until.max(lease_until);
            held.unrecorded_until = None;
        }
    }

    /// The start of an execution was recorded: its job runs at most once.
    pub(crate) fn confirm_start(&mut self, execution: &Execution) {
        execution.0.confirmed.store(true, Ordering::SeqCst);
        self.confirmed.add(execution.attempt());
    }

    /// Whether this worker has already confirmed the start of this run.
    pub(crate) fn has_started(&self, run: AttemptId) -> bool {
        self.confirmed.runs.contains(&run)
    }

    /// The store considers this worker alive until then.
    pub(crate) fn confirm_alive(&mut self, alive_until: Instant) {
        self.alive_until = self.alive_until.max(Some(alive_until));
    }

    /// Notifies the executor that this worker no longer holds the job, unless the attempt has ended or was given up.
    pub(crate) fn lose(&self, attempt: AttemptId) {
        if let Some(held) = self.unsettled.get(&attempt).filter(|held| held.runs()) {
            held.execution.0.lost.notify_one();
        }
    }

    /// The attempts whose leases expire by `then` unless they are confirmed for longer.
    pub(crate) fn expiring_until(&self, then: Instant) -> Vec<AttemptId> {
        let expires = |held: &Held| held.given_up_at(self.alive_until).is_some_and(|at| at <= then);
        let expiring = |held: &&Held| !held.execution.is_given_up() && expires(held);
        self.unsettled.values().filter(expiring).map(|held| held.execution.attempt()).collect()
    }

    /// Whether the lease of an execution may expire before the next check.
    pub(crate) fn expires_before_next_check(&self, times: ClaimTimes) -> bool {
        self.next_check.is_none_or(|next| times.over_at() < next)
    }

    /// Notifies the executors whose leases have expired by this worker's clock or whose executions were not recorded in
    /// time; returns the time of the next check: when the next lease may expire, but not after `latest`.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        latest: Instant,
        unrecorded_until: impl Fn(AttemptId) -> Option<Instant>,
    ) -> Instant {
        let mut next_check = latest;
        for held in self.unsettled.values_mut() {
            if let Some(at) = held.expire(now, self.alive_until, &unrecorded_until) {
                next_check = next_check.min(at);
            }
        }
        self.next_check = Some(next_check);
        next_check
    }

    /// The same check as [`expire`](Self::expire), for one execution.
    pub(crate) fn expire_one(
        &mut self,
        execution: &Execution,
        now: Instant,
        unrecorded_until: impl Fn(AttemptId) -> Option<Instant>,
    ) {
        let held = self.unsettled.get_mut(&execution.attempt());
        if let Some(held) = held.filter(|held| held.execution.is(execution)) {
            held.expire(now, self.alive_until, unrecorded_until);
        }
    }

    /// Whether there is an execution that has ended but is not settled.
    pub(crate) fn is_any_ended(&self) -> bool {
        self.unsettled.values().any(|held| held.execution.is_ended())
    }

    /// Number of unsettled executions.
    pub(crate) fn unsettled_count(&self) -> usize {
        self.unsettled.len()
    }

    /// The attempts whose leases are renewed: unsettled ones, except those that were given up or have expired.
    pub(crate) fn kept(&self) -> Vec<AttemptId> {
        let over = |held: &Held| held.execution.is_lease_over() && !held.execution.is_ended();
        let kept = |held: &Held| !held.execution.is_given_up() && !over(held);
        self.unsettled.iter().filter(|(_, held)| kept(held)).map(|(attempt, _)| *attempt).collect()
    }

    /// The attempts whose handlers have not ended and whose jobs may run again elsewhere.
    pub(crate) fn releasable(&self) -> Vec<AttemptId> {
        let releasable = |held: &&Held| held.runs() && !held.execution.is_confirmed();
        self.unsettled.values().filter(releasable).map(|held| held.execution.attempt()).collect()
    }

    /// The attempts whose handlers have not ended, except those that were given up.
    pub(crate) fn unended(&self) -> Vec<AttemptId> {
        self.unsettled.iter().filter(|(_, held)| held.runs()).map(|(attempt, _)| *attempt).collect()
    }
}
