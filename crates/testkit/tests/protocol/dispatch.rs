//! Dispatch with Redis (ADR 14): which store hands out jobs until when, epochs, executions that begin before PostgreSQL
//! records them, takeover and rebuilding, for one job, one queue and two processes.
//!
//! Time is counted in ticks, and only as remaining or elapsed time. A process that takes no step while time passes is
//! paused, or waits for an answer. Leases after PostgreSQL has recorded an execution are the subject of the other
//! model: here, the holder keeps the lease until it settles or dies.

use stateright::{Model, Property};

/// How long a process may rely on its knowledge of which store hands out jobs.
pub(crate) const GOOD_FOR: u8 = 2;
/// How long Redis hands out jobs after a process has prolonged the deadline.
pub(crate) const PROLONG: i8 = 3;
/// How long a job is new.
pub(crate) const NEW_FOR: u8 = 3;
/// The longest time for which PostgreSQL may not know of an execution.
pub(crate) const GRACE: u8 = 4;
/// The sweep skips jobs that were stored less than this time ago.
pub(crate) const SWEEP_AFTER: u8 = 4;
/// How long a claim holds jobs without reporting on them.
pub(crate) const HOLD: u8 = 5;
/// The delay before a queue that was assigned again opens.
pub(crate) const PAUSE: u8 = GOOD_FOR + GRACE;

pub(crate) const ONE_BELIEVER: &str = "at most one process believes that it holds the job";
pub(crate) const NOT_SUPERSEDED: &str = "an execution that another one has followed is not recorded";
pub(crate) const NOT_LOST: &str = "a job comes to its end once faults stop, with Redis or without";

/// The rules that the protocol relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// PostgreSQL hands out jobs only after the grace period.
    GraceBeforeFallback,
    /// A fallback claim gets nothing if a queue was assigned again since the process checked.
    RevisionOnFallback,
    /// A process that prolongs the deadline too late assigns every queue again.
    LapseGivesAnew,
    /// A queue that is assigned again opens after a pause.
    OpeningDelay,
    /// The pause exceeds the grace period by the time for which a process may rely on outdated knowledge.
    PauseUntilNoticed,
    /// Redis hands out only jobs of the epoch that the claim names.
    EpochCheck,
    /// Redis hands out no jobs whose hints an earlier run of the server received.
    ServerRun,
    /// A server that becomes the primary again counts as a new run.
    RunChangesWithRole,
    /// The knowledge of a process is checked again immediately before Redis hands out jobs.
    CheckAtHandOut,
    /// An execution's time counts from before its job was handed out.
    CountFromRequest,
    /// A handler stops if its execution is not recorded within the grace period, by the clock of its own process.
    GiveUpByOwnClock,
    /// PostgreSQL records only the first execution of a job that is unchanged since it was enqueued.
    AsItCame,
    /// The cached document of a job is removed when the job is handed out.
    DocumentGoesWithClaim,
    /// A held job is put back only when its execution must be recorded or given up already.
    HoldBeyondGrace,
    /// Jobs are cached only while they are new.
    NewFor,
    /// Jobs are cached only in an epoch that was complete before they were stored.
    LoadedEpoch,
    /// The sweep skips jobs that were stored recently.
    SweepAge,
    /// The sweep exists.
    Sweep,
    /// Held jobs are put back.
    PutBack,
    /// PostgreSQL hands out jobs when Redis does not.
    Fallback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Redis loses all its data.
    Empty,
    /// Redis restarts with the data that it had when the job was new.
    Restore,
    /// A replica takes over with the data that Redis had when the job was new; the old primary still answers processes
    /// that have not noticed.
    Failover,
    /// A replica takes over for a short time, and the old primary returns with its data.
    Failback,
    Kill,
}

/// The model and its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    pub(crate) without: &'static [Guard],
    /// At most one of these occurs, once.
    pub(crate) faults: &'static [Fault],
    /// The maximum number of runs of the job.
    pub(crate) runs: u8,
    /// The maximum number of epochs.
    pub(crate) epochs: u8,
    /// Whether every state is checked for whether the job can still finish.
    pub(crate) recovery: bool,
}

impl Dispatch {
    pub(crate) fn has(&self, guard: Guard) -> bool {
        !self.without.contains(&guard)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Job {
    Absent,
    /// The number of its runs so far.
    Ready(u8),
    Running {
        process: u8,
        run: u8,
    },
    Ended,
}

/// The state in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// How much longer Redis hands out jobs; negative: the time since it stopped.
    pub(crate) until: i8,
    pub(crate) epoch: u8,
    pub(crate) opens: u8,
    pub(crate) opened: bool,
    pub(crate) loaded: bool,
    pub(crate) job: Job,
    /// The time since the job was stored.
    pub(crate) age: u8,
}

/// The state of a Redis server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) run: u8,
    pub(crate) epoch: u8,
    /// The run in which the epoch was opened.
    pub(crate) opened_in: u8,
    pub(crate) hint: bool,
    pub(crate) document: bool,
    /// The process whose claim holds the job, and the remaining time.
    pub(crate) owner: Option<(u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Idle,
    /// The process may claim in Redis, as it found when it checked; with the time since then.
    Checked {
        epoch: u8,
        age: u8,
    },
    /// A claim is in flight to Redis.
    Sent {
        epoch: u8,
        since: u8,
    },
    /// Redis has handed out the job with its cached document.
    Handed {
        since: u8,
    },
    /// The process opens the queue.
    Opening {
        epoch: u8,
    },
    /// The process may claim in PostgreSQL.
    Fallback {
        epoch: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Execution {
    None,
    Unrecorded {
        since: u8,
    },
    /// The execution was not recorded in time.
    GivenUp,
    Recorded {
        run: u8,
    },
    /// The handler has ended; the outcome has yet to be stored.
    Settling {
        run: u8,
        fresh: bool,
        success: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Process {
    /// The server that the process is connected to.
    pub(crate) at: u8,
    pub(crate) phase: Phase,
    pub(crate) execution: Execution,
    /// Whether the record of its start is in flight to PostgreSQL.
    pub(crate) begins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Enqueuer {
    Before,
    /// The job is stored, but Redis has no hint of it yet. With the epoch that was complete before, if any.
    Stored {
        epoch: Option<u8>,
        age: u8,
    },
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) ledger: Ledger,
    pub(crate) servers: Vec<Server>,
    pub(crate) processes: [Process; 2],
    pub(crate) enqueuer: Enqueuer,
    /// The data that Redis had when the job was new.
    pub(crate) image: Option<Server>,
    pub(crate) faults: u8,
    pub(crate) superseded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    Store,
    Push(u8),
    PushLost,
    Query(u8),
    OpenInLedger(u8),
    OpenInRedis(u8),
    Send(u8),
    HandOut(u8),
    HandOutUnanswered(u8),
    Start(u8),
    SendBegin(u8),
    Begin(u8),
    BeginUnanswered(u8),
    HearOfGivingUp(u8),
    EndHandler(u8, bool),
    Settle(u8),
    SettleUnanswered(u8),
    Reap,
    Sweep(u8),
    PutBack(u8),
    CheckFallback(u8),
    ClaimInFallback(u8),
    Switch(u8),
    Break(Fault),
    Kill(u8),
}

impl Model for Dispatch {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process = Process { at: 0, phase: Phase::Idle, execution: Execution::None, begins: false };
        let ledger =
            Ledger { until: PROLONG, epoch: 1, opens: 0, opened: true, loaded: true, job: Job::Absent, age: 0 };
        let server = Server { run: 1, epoch: 1, opened_in: 1, hint: false, document: false, owner: None };
        vec![State {
            ledger,
            servers: vec![server],
            processes: [process; 2],
            enqueuer: Enqueuer::Before,
            image: None,
            faults: u8::from(!self.faults.is_empty()),
            superseded: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.possible(state, actions);
        if state.faults > 0 {
            self.breaking(state, actions);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.apply(&mut state, action);
        if state.faults == 0 {
            state.image = None;
        }
        state.put_in_order();
        Some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.ledger.epoch <= self.epochs
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(ONE_BELIEVER, |_: &Self, state: &State| {
                let believes =
                    |one: &&Process| matches!(one.execution, Execution::Unrecorded { .. } | Execution::Recorded { .. });
                state.processes.iter().filter(believes).count() <= 1
            }),
            Property::always(NOT_SUPERSEDED, |_: &Self, state: &State| !state.superseded),
            Property::sometimes("an execution begins before PostgreSQL knows of it", |_: &Self, state: &State| {
                let unrecorded = |one: &Process| matches!(one.execution, Execution::Unrecorded { .. });
                state.processes.iter().any(unrecorded) && matches!(state.ledger.job, Job::Ready(0))
            }),
            Property::sometimes("an execution is given up", |_: &Self, state: &State| {
                state.processes.iter().any(|one| one.execution == Execution::GivenUp)
            }),
            Property::sometimes("PostgreSQL takes over", |_: &Self, state: &State| {
                let falls_back = |one: &Process| matches!(one.phase, Phase::Fallback { .. });
                state.processes.iter().any(falls_back) && matches!(state.ledger.job, Job::Ready(_))
            }),
            Property::sometimes("Redis is rebuilt with the job", |_: &Self, state: &State| {
                state.servers.iter().any(|server| server.epoch > 1 && server.hint && state.ledger.epoch == server.epoch)
            }),
            Property::sometimes("a stale settle is refused", |_: &Self, state: &State| {
                let settles = |one: &Process| matches!(one.execution, Execution::Settling { .. });
                state.processes.iter().any(settles) && state.ledger.job == Job::Ended
            }),
        ];
        if self.recovery {
            all.push(Property::always(NOT_LOST, |model: &Self, state: &State| {
                model.recovers(state, true) && model.recovers(state, false)
            }));
        }
        all
    }
}
