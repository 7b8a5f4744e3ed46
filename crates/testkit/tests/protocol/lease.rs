//! Leases and fences: claim, extend, confirm, settle and the search for expired leases, for one job, two workers and
//! one store.
//!
//! Time is counted in ticks and only as what is left of it, so that no run of the model ends because its time is up. A
//! worker that takes no step while time passes is a paused one. A message in flight may arrive at any time, or never.

use stateright::{Model, Property};

/// How long a lease lasts.
pub(crate) const LEASE: u8 = 2;
/// By how much a worker's clock may fall behind the store's within one lease. For that long a lease may be believed in
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

/// What the protocol relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A settle changes only a job that is being processed.
    SettleNeedsRunningRow,
    /// A settle names the run that it ends.
    FenceRun,
    /// A settle names the worker that it comes from.
    FenceWorker,
    /// A lease that has expired is not extended.
    ExtendChecksExpiry,
    /// The reaper's settle applies only while the lease is expired.
    ReaperChecksExpiry,
    /// Expired leases are looked for.
    Reaper,
    /// A worker stops its handler when the lease ends by its own clock.
    LocalClock,
    /// A worker counts a lease from before it asked for it.
    CountFromRequest,
    /// A worker that is given a run that it already has in hand ends the older execution, and does not start another.
    RefuseRepeatedRun,
    /// The same for a run that it has had in hand.
    RememberRuns,
    /// A lost execution spends none of the job's attempts.
    CrashSpendsNoAttempt,
    /// A job that may run at most once is confirmed before its handler starts.
    Confirmation,
    /// A confirmation names run and worker.
    FencedConfirmation,
    /// A confirmation is answered once it is on the disk.
    DurableConfirmation,
    /// A job that may run at most once, lost before it was confirmed, goes back.
    UnconfirmedGoesBack,
    /// A job that may run at most once is not given back once it is confirmed: that ends it.
    NoReleaseAfterConfirmation,
}

/// The model and its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Leases {
    pub(crate) without: &'static [Guard],
    /// `max_attempts = 1`.
    pub(crate) at_most_once: bool,
    /// How far workers' clocks really fall behind.
    pub(crate) drift: u8,
    /// How often the job may be claimed.
    pub(crate) max_runs: u8,
    /// Whether workers may die.
    pub(crate) kills: bool,
    /// How often the store may lose the commits that it has not synced.
    pub(crate) store_crashes: u8,
    /// How often the store's clock may be set back.
    pub(crate) clock_steps: u8,
}

impl Leases {
    pub(crate) fn has(&self, guard: Guard) -> bool {
        !self.without.contains(&guard)
    }

    /// For how much longer a worker believes in a lease that it asked for so long ago.
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

/// The job as the store has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub(crate) status: Status,
    pub(crate) run: u8,
    pub(crate) failures: u8,
    pub(crate) crashes: u8,
    /// That its last run may start, if it may run at most once.
    pub(crate) confirmed: bool,
}

impl Row {
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.status, Status::Succeeded | Status::Dead)
    }
}

/// Which execution: the fence.
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
    /// For its confirmation.
    Waiting,
    Running,
    /// The handler has ended; the outcome is to be stored.
    Ended(Outcome),
}

/// An execution as its worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Execution {
    pub(crate) fence: Fence,
    pub(crate) phase: Phase,
    /// What is left of the lease by the worker's own clock.
    pub(crate) left: u8,
    /// The store has lost what it answered. Until the end of that lease, a second believer is not excluded.
    pub(crate) forgotten: bool,
}

/// What is under way, and how long ago it was asked for where that counts.
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
    /// The worker that claims, or has claimed. It has one claim under way at most; it hears no answer to one that it
    /// has given up.
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
    /// What a crash of the store leaves.
    pub(crate) synced: Row,
    /// Ids of workers are never used again.
    pub(crate) alive: [bool; 2],
    /// The runs that each worker has been given, where they may repeat.
    pub(crate) had: [u8; 2],
    pub(crate) executions: Vec<Execution>,
    pub(crate) messages: Vec<Message>,
    pub(crate) store_crashes: u8,
    pub(crate) clock_steps: u8,
    // What the properties need to know of the past.
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
    /// It is applied and its answer lost.
    DeliverUnanswered(Message),
    Lose(Message),
    /// A worker notices that its lease has ended, and stops its handler.
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
                // To the store, a failure that is retried and a release are much the same.
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
            // Workers are alike: the first to claim is the first one.
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
