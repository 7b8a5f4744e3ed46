//! Leases and fences: claim, extend, confirm, settle and the search for expired leases, for one job, two workers and
//! one store.
//!
//! Time is counted in ticks and only as remaining time, so that no run of the model ends because of its time. A worker
//! that takes no step while time passes is paused. A message in flight may arrive at any time, or never.

use stateright::{Model, Property};

/// The duration of a lease.
pub(crate) const LEASE: u8 = 2;
/// How far a worker's clock may fall behind the store's within one lease. For that time a worker may rely on a lease
/// after its end.
pub(crate) const DRIFT: u8 = 1;
pub(crate) const MAX_ATTEMPTS: u8 = 2;
pub(crate) const MAX_CRASHES: u8 = 2;
const MAX_MESSAGES: usize = 2;

pub(crate) const ONE_BELIEVER: &str = "at most one worker believes that it holds the job";
pub(crate) const ONE_END: &str = "a job has one end";
pub(crate) const NOT_LOST: &str = "a job comes to its end once faults stop";
pub(crate) const STAYS_EXPIRED: &str = "an expired lease stays expired";
pub(crate) const ONE_START: &str = "a job that may run at most once starts at most once";
pub(crate) const BUDGETS: &str = "a job is dead only once its attempts or its crashes are spent";

/// The rules that the protocol relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A settle changes only a job that is processing.
    SettleNeedsRunningRow,
    /// A settle names the run that it ends.
    FenceRun,
    /// A settle names its worker.
    FenceWorker,
    /// A lease that has expired is not extended.
    ExtendChecksExpiry,
    /// The reaper's settle applies only while the lease is expired.
    ReaperChecksExpiry,
    /// The reaper exists: it searches for expired leases.
    Reaper,
    /// A worker stops its handler when the lease ends by its own clock.
    LocalClock,
    /// A worker counts the duration of a lease from before its request.
    CountFromRequest,
    /// A worker that receives a run that it already executes ends the older execution, and does not start another.
    RefuseRepeatedRun,
    /// The same for a run that it has executed before.
    RememberRuns,
    /// A lost execution does not count as an attempt.
    CrashSpendsNoAttempt,
    /// A job that may run at most once is confirmed before its handler starts.
    Confirmation,
    /// A confirmation names the run and the worker.
    FencedConfirmation,
    /// A confirmation is answered after it was written to disk.
    DurableConfirmation,
    /// A job that may run at most once and is lost before its confirmation returns to its queue.
    UnconfirmedGoesBack,
    /// A job that may run at most once is not released after its confirmation: a release ends it.
    NoReleaseAfterConfirmation,
}

/// The model and its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Leases {
    pub(crate) without: &'static [Guard],
    /// `max_attempts = 1`.
    pub(crate) at_most_once: bool,
    /// How far the workers' clocks actually fall behind.
    pub(crate) drift: u8,
    /// The maximum number of claims of the job.
    pub(crate) max_runs: u8,
    /// Whether workers may die.
    pub(crate) kills: bool,
    /// How many times the store may lose the commits that it has not synced.
    pub(crate) store_crashes: u8,
    /// How many times the store's clock may be set back.
    pub(crate) clock_steps: u8,
}

impl Leases {
    pub(crate) fn has(&self, guard: Guard) -> bool {
        !self.without.contains(&guard)
    }

    /// How much longer a worker relies on a lease that it requested this long ago.
    pub(crate) fn belief(&self, age: u8) -> u8 {
        let age = if self.has(Guard::CountFromRequest) { age } else { 0 };
        (LEASE + self.drift).saturating_sub(age)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Status {
    Queued,
    Held { worker: u8, left: u8 },
    Succeeded,
    Dead,
}

/// The job as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) status: Status,
    pub(crate) run: u8,
    pub(crate) failures: u8,
    pub(crate) crashes: u8,
    /// Whether its last run may start, if it may run at most once.
    pub(crate) confirmed: bool,
}

impl Row {
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.status, Status::Succeeded | Status::Dead)
    }
}

/// Identifies an execution: the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Fence {
    pub(crate) worker: u8,
    pub(crate) run: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Succeed,
    Fail,
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Waits for its confirmation.
    Waiting,
    Running,
    /// The handler has ended; the outcome has yet to be stored.
    Ended(Outcome),
}

/// An execution as known to its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Execution {
    pub(crate) fence: Fence,
    pub(crate) phase: Phase,
    /// The remaining lease by the worker's own clock.
    pub(crate) left: u8,
    /// The store has lost the claim or extension that it had confirmed. Until the end of that lease, a second worker
    /// may rely on the job, too.
    pub(crate) forgotten: bool,
}

/// A message in flight, and the time since the request where it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Claim {
        worker: u8,
        age: u8,
    },
    Granted {
        fence: Fence,
        age: u8,
        forgotten: bool,
    },
    Confirm(Fence),
    Confirmed(Fence),
    Extend {
        fence: Fence,
        age: u8,
    },
    Extended {
        fence: Fence,
        age: u8,
        forgotten: bool,
    },
    Settle(Fence, Outcome),
    /// The reaper's settle.
    Lost(Fence),
}

impl Message {
    /// The worker that claims, or has claimed. It has at most one claim in flight; it ignores the answer to a claim
    /// that it has given up.
    pub(crate) fn claimer(&self) -> Option<u8> {
        match self {
            Self::Claim { worker, .. } => Some(*worker),
            Self::Granted { fence, .. } => Some(fence.worker),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) row: Row,
    /// The state that remains after a crash of the store.
    pub(crate) synced: Row,
    /// Ids of workers are not reused.
    pub(crate) alive: [bool; 2],
    /// The runs that each worker has received, where they may repeat.
    pub(crate) had: [u8; 2],
    pub(crate) executions: Vec<Execution>,
    pub(crate) messages: Vec<Message>,
    pub(crate) store_crashes: u8,
    pub(crate) clock_steps: u8,
    // The history that the properties need.
    pub(crate) ends: u8,
    pub(crate) starts: u8,
    pub(crate) revived: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    SendClaim(u8),
    SendConfirm(Fence),
    SendExtend(Fence),
    EndHandler(usize, Outcome),
    SendSettle(usize),
    FindExpired,
    Deliver(Message),
    /// The message is applied, but its answer is lost.
    DeliverUnanswered(Message),
    Lose(Message),
    /// A worker detects that its lease has ended, and stops its handler.
    Stop(usize),
    Kill(u8),
    CrashStore,
    SetClockBack,
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = Row { status: Status::Queued, run: 0, failures: 0, crashes: 0, confirmed: false };
        vec![State {
            row,
            synced: row,
            alive: [true; 2],
            had: [0; 2],
            executions: Vec::new(),
            messages: Vec::new(),
            store_crashes: self.store_crashes,
            clock_steps: self.clock_steps,
            ends: 0,
            starts: 0,
            revived: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let under_way = |is: &dyn Fn(&Message) -> bool| state.messages.iter().any(is);
        actions.push(Action::Tick);
        for message in &state.messages {
            actions.push(Action::Deliver(*message));
            actions.push(Action::Lose(*message));
            if matches!(message, Message::Settle(..) | Message::Extend { .. } | Message::Confirm(_)) {
                actions.push(Action::DeliverUnanswered(*message));
            }
        }
        for (number, one) in state.executions.iter().enumerate() {
            if one.left == 0 && one.phase == Phase::Running && self.has(Guard::LocalClock) {
                actions.push(Action::Stop(number));
            }
            if one.phase == Phase::Running {
                // To the store, a failure that is retried and a release are nearly equal.
                let back = if self.at_most_once { Outcome::Release } else { Outcome::Fail };
                actions.extend([Outcome::Succeed, back].map(|how| Action::EndHandler(number, how)));
            }
        }
        actions.extend((0..2).filter(|worker| self.kills && state.alive[usize::from(*worker)]).map(Action::Kill));
        if state.store_crashes > 0 {
            actions.push(Action::CrashStore);
        }
        if state.clock_steps > 0 {
            actions.push(Action::SetClockBack);
        }
        if state.messages.len() >= MAX_MESSAGES {
            return;
        }
        if state.row.status == Status::Queued && state.row.run < self.max_runs {
            // Workers are symmetric: the first to claim is worker 0.
            let claims = |w: u8| under_way(&|m| m.claimer() == Some(w));
            let others = state.row.run > 0 || claims(0);
            actions.extend(
                (0..=u8::from(others)).filter(|w| !claims(*w) && state.alive[usize::from(*w)]).map(Action::SendClaim),
            );
        }
        for (number, one) in state.executions.iter().enumerate() {
            let fence = one.fence;
            match one.phase {
                Phase::Waiting if !under_way(&|m| *m == Message::Confirm(fence) || *m == Message::Confirmed(fence)) => {
                    actions.push(Action::SendConfirm(fence));
                }
                Phase::Ended(how) if !under_way(&|m| *m == Message::Settle(fence, how)) => {
                    actions.push(Action::SendSettle(number));
                }
                _ => {}
            }
            let extends = under_way(
                &|m| matches!(m, Message::Extend { fence: f, .. } | Message::Extended { fence: f, .. } if *f == fence),
            );
            if one.phase == Phase::Running && !extends && (one.left > 0 || !self.has(Guard::LocalClock)) {
                actions.push(Action::SendExtend(fence));
            }
        }
        if let Status::Held { worker, left: 0 } = state.row.status
            && self.has(Guard::Reaper)
            && !under_way(&|m| *m == Message::Lost(Fence { worker, run: state.row.run }))
        {
            actions.push(Action::FindExpired);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.tick(),
            Action::SendClaim(worker) => state.send(Message::Claim { worker, age: 0 }),
            Action::SendConfirm(fence) => state.send(Message::Confirm(fence)),
            Action::SendExtend(fence) => state.send(Message::Extend { fence, age: 0 }),
            Action::EndHandler(number, how) => {
                let fence = state.executions[number].fence;
                state.executions[number] = Execution { fence, phase: Phase::Ended(how), left: 0, forgotten: false };
            }
            Action::SendSettle(number) => {
                let Execution { fence, phase: Phase::Ended(how), .. } = state.executions[number] else { return None };
                state.send(Message::Settle(fence, how));
            }
            Action::FindExpired => {
                let Status::Held { worker, .. } = state.row.status else { return None };
                let run = state.row.run;
                state.send(Message::Lost(Fence { worker, run }));
            }
            Action::Deliver(message) => {
                state.take(&message);
                self.deliver(&mut state, message, true);
            }
            Action::DeliverUnanswered(message) => {
                state.take(&message);
                self.deliver(&mut state, message, false);
            }
            Action::Lose(message) => state.take(&message),
            Action::Stop(number) => drop(state.executions.remove(number)),
            Action::Kill(worker) => state.kill(worker),
            Action::CrashStore => self.crash_store(&mut state),
            Action::SetClockBack => {
                state.clock_steps -= 1;
                if let Status::Held { left, .. } = &mut state.row.status {
                    *left = (*left + 1).min(LEASE);
                }
            }
        }
        state.messages.sort_unstable();
        state.executions.sort_unstable();
        if state.store_crashes == 0 {
            state.synced = state.row;
        }
        if self.store_crashes == 0 {
            state.had = [0; 2];
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(ONE_BELIEVER, |model: &Self, state: &State| {
                state.executions.iter().filter(|one| model.believes(one)).count() <= 1
            }),
            Property::always(ONE_END, |_: &Self, state: &State| state.ends == u8::from(state.row.is_ended())),
            Property::always(NOT_LOST, |model: &Self, state: &State| model.recovers(state)),
            Property::always(STAYS_EXPIRED, |_: &Self, state: &State| !state.revived),
            Property::always(ONE_START, |_: &Self, state: &State| state.starts <= 1),
            Property::always(BUDGETS, |model: &Self, state: &State| {
                let spent = state.row.failures >= MAX_ATTEMPTS || state.row.crashes >= MAX_CRASHES;
                state.row.status != Status::Dead || spent || (model.at_most_once && state.row.confirmed)
            }),
            Property::sometimes("a stale settle is refused", |_: &Self, state: &State| {
                state.settles().any(|fence| !state.is_held(fence))
            }),
            Property::sometimes("a settle after the end of its lease counts", |_: &Self, state: &State| {
                state.settles().any(|fence| state.is_held(fence) && state.left() == 0)
            }),
        ];
        if self.max_runs > 1 {
            all.push(Property::sometimes("a second run succeeds", |_: &Self, state: &State| {
                state.row.run > 1 && state.row.status == Status::Succeeded
            }));
            all.push(Property::sometimes("a job is dead", |_: &Self, state: &State| state.row.status == Status::Dead));
        }
        if self.at_most_once {
            all.push(Property::sometimes(
                "a claim that was lost before its confirmation goes back",
                |_: &Self, state: &State| state.row.run > 1 && state.starts == 0,
            ));
        }
        all
    }
}
