//! Dispatch with Redis (ADR 14): who hands out jobs until when, epochs, executions that begin before PostgreSQL knows
//! of them, takeover and rebuilding, for one job, one queue and two processes.
//!
//! Time is counted in ticks, and only as what is left of it or has passed. A process that takes no step while time
//! passes is a paused one, or waits for an answer. What a lease does once PostgreSQL knows of an execution is the other
//! model's subject: here, its holder has it until it settles or dies.

use stateright::{Model, Property};

/// What a process knows of who hands out jobs is good for so long.
pub(crate) const GOOD_FOR: u8 = 2;
/// Redis hands out jobs for so long after a process has said so.
pub(crate) const PROLONG: i8 = 3;
/// A job is new for so long.
pub(crate) const NEW_FOR: u8 = 3;
/// The longest that an execution may be unknown to PostgreSQL.
pub(crate) const GRACE: u8 = 4;
/// The sweep leaves out jobs that were stored less than so long ago.
pub(crate) const SWEEP_AFTER: u8 = 4;
/// So long jobs stay in the hands of a claim that says nothing of them.
pub(crate) const HOLD: u8 = 5;
/// A queue that is given anew opens so much later.
pub(crate) const PAUSE: u8 = GOOD_FOR + GRACE;

pub(crate) const ONE_BELIEVER: &str = "at most one process believes that it holds the job";
pub(crate) const NOT_SUPERSEDED: &str = "an execution that another one has followed is not recorded";
pub(crate) const NOT_LOST: &str = "a job comes to its end once faults stop, with Redis or without";

/// What the protocol relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// PostgreSQL hands out jobs only once the grace is over.
    GraceBeforeFallback,
    /// A claim of the fallback gets nothing if a queue was given anew since it looked.
    RevisionOnFallback,
    /// Who prolongs too late gives every queue anew.
    LapseGivesAnew,
    /// A queue that is given anew opens after a pause.
    OpeningDelay,
    /// That pause is longer than the grace by as long as a process may not have noticed.
    PauseUntilNoticed,
    /// Redis hands out only what belongs to the epoch that the claim names.
    EpochCheck,
    /// Redis hands out nothing that an earlier run of the server was told.
    ServerRun,
    /// A server that becomes the primary again counts as another run.
    RunChangesWithRole,
    /// What a process knows is checked again right before it has Redis hand out jobs.
    CheckAtHandOut,
    /// An execution counts from before its job was handed out.
    CountFromRequest,
    /// A handler stops when its execution has not been recorded within the grace, by the clock of its own process.
    GiveUpByOwnClock,
    /// PostgreSQL records only the first execution of a job that is as it came.
    AsItCame,
    /// What is cached of a job goes when the job is handed out.
    DocumentGoesWithClaim,
    /// A job in hands is put back only once its execution must be recorded or given up.
    HoldBeyondGrace,
    /// Jobs are cached only within the time for which they are new.
    NewFor,
    /// Jobs are cached only in an epoch that was complete before they were stored.
    LoadedEpoch,
    /// The sweep leaves out what has just been stored.
    SweepAge,
    /// There is a sweep.
    Sweep,
    /// Jobs in hands are put back.
    PutBack,
    /// PostgreSQL hands out jobs when Redis does not.
    Fallback,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Redis loses all that it has.
    Empty,
    /// Redis restarts with what it had when the job was new.
    Restore,
    /// A replica takes over that has what Redis had when the job was new; the old primary still answers those who have
    /// not noticed.
    Failover,
    /// A replica takes over for a moment, and the old primary comes back with its data.
    Failback,
    Kill,
}

/// The model and its bounds.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    pub(crate) without: &'static [Guard],
    /// One of these may happen, once.
    pub(crate) faults: &'static [Fault],
    /// How often the job is run at most.
    pub(crate) runs: u8,
    /// How many epochs there may be.
    pub(crate) epochs: u8,
    /// Whether every state is asked if the job still comes to its end.
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
    /// It has been run so often.
    Ready(u8),
    Running {
        process: u8,
        run: u8,
    },
    Ended,
}

/// What PostgreSQL has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    /// How much longer Redis hands out jobs; less than nothing since it has not.
    pub(crate) until: i8,
    pub(crate) epoch: u8,
    pub(crate) opens: u8,
    pub(crate) opened: bool,
    pub(crate) loaded: bool,
    pub(crate) job: Job,
    /// How long ago the job was stored.
    pub(crate) age: u8,
}

/// What a Redis server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) run: u8,
    pub(crate) epoch: u8,
    /// The run in which the epoch was opened.
    pub(crate) opened_in: u8,
    pub(crate) hint: bool,
    pub(crate) document: bool,
    /// The process whose claim has the job, and for how much longer.
    pub(crate) owner: Option<(u8, u8)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Idle,
    /// It may claim in Redis, as it asked so long ago.
    Checked {
        epoch: u8,
        age: u8,
    },
    /// A claim is under way to Redis.
    Sent {
        epoch: u8,
        since: u8,
    },
    /// Redis has handed out the job with all that is known of it.
    Handed {
        since: u8,
    },
    /// It opens the queue.
    Opening {
        epoch: u8,
    },
    /// It may claim in PostgreSQL.
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
    /// Not recorded in time.
    GivenUp,
    Recorded {
        run: u8,
    },
    /// The handler has ended; the outcome is to be stored.
    Settling {
        run: u8,
        fresh: bool,
        success: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Process {
    /// The server that it talks to.
    pub(crate) at: u8,
    pub(crate) phase: Phase,
    pub(crate) execution: Execution,
    /// Whether its start is on its way to PostgreSQL.
    pub(crate) begins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Enqueuer {
    Before,
    /// The job is stored; Redis has not been told of it. With the epoch that was complete before, if one was.
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
    /// What Redis had when the job was new.
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
    Ask(u8),
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
    LookForFallback(u8),
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
