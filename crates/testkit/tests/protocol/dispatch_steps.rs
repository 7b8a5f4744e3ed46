//! The steps of the model of dispatch.

use crate::dispatch::{
    Action, Dispatch, Enqueuer, Execution, Fault, GOOD_FOR, GRACE, Guard, HOLD, Job, NEW_FOR, PAUSE, PROLONG, Phase,
    Process, SWEEP_AFTER, Server, State,
};

impl Server {
    /// An empty server in this run.
    const fn empty(run: u8) -> Self {
        Self { run, epoch: 0, opened_in: 0, hint: false, document: false, owner: None }
    }
}

impl State {
    fn process(&mut self, number: u8) -> &mut Process {
        &mut self.processes[usize::from(number)]
    }

    fn server_of(&mut self, process: u8) -> &mut Server {
        let at = usize::from(self.process(process).at);
        &mut self.servers[at]
    }

    /// A claim releases the job.
    fn release(&mut self, process: u8) {
        let server = self.server_of(process);
        server.owner = server.owner.filter(|(owner, _)| *owner != process);
    }

    /// An ordinary claim in PostgreSQL.
    fn take(&mut self, process: u8) {
        if let Job::Ready(run) = self.ledger.job {
            self.ledger.job = Job::Running { process, run: run + 1 };
            self.process(process).execution = Execution::Recorded { run: run + 1 };
        }
        self.process(process).phase = Phase::Idle;
    }

    /// Processes are symmetric: states that differ only in the numbers of processes are equal.
    pub(crate) fn put_in_order(&mut self) {
        if self.processes[0] <= self.processes[1] {
            return;
        }
        self.processes.swap(0, 1);
        if let Job::Running { process, .. } = &mut self.ledger.job {
            *process = 1 - *process;
        }
        for (owner, _) in self.servers.iter_mut().filter_map(|server| server.owner.as_mut()) {
            *owner = 1 - *owner;
        }
    }
}

impl Dispatch {
    pub(crate) fn tick(&self, state: &mut State) {
        let ledger = &mut state.ledger;
        ledger.until = (ledger.until - 1).max(-(GRACE as i8));
        ledger.opens = ledger.opens.saturating_sub(1);
        if !matches!(ledger.job, Job::Absent) {
            ledger.age = (ledger.age + 1).min(SWEEP_AFTER);
        }
        if let Enqueuer::Stored { age, .. } = &mut state.enqueuer {
            *age = (*age + 1).min(NEW_FOR);
        }
        for server in &mut state.servers {
            server.owner = server.owner.map(|(owner, left)| (owner, left.saturating_sub(1)));
        }
        for process in &mut state.processes {
            match &mut process.phase {
                Phase::Checked { age, .. } => *age = (*age + 1).min(GOOD_FOR),
                Phase::Sent { since, .. } | Phase::Handed { since } => *since = (*since + 1).min(GRACE),
                _ => {}
            }
            if matches!(process.phase, Phase::Checked { age, .. } if age >= GOOD_FOR && self.has(Guard::CheckAtHandOut))
            {
                process.phase = Phase::Idle;
            }
            if let Execution::Unrecorded { since } = &mut process.execution {
                *since = (*since + 1).min(GRACE);
                if *since >= GRACE && self.has(Guard::GiveUpByOwnClock) {
                    process.execution = Execution::GivenUp;
                }
            }
        }
    }

    /// A queue is assigned to Redis again.
    fn give(&self, state: &mut State, pause: u8) {
        state.ledger.epoch += 1;
        state.ledger.opens = if self.has(Guard::OpeningDelay) { pause } else { 0 };
        (state.ledger.opened, state.ledger.loaded) = (false, false);
    }

    /// The query to PostgreSQL of a process that reaches Redis.
    fn query(&self, state: &mut State, process: u8) {
        let until = state.ledger.until;
        if until < 0 && self.has(Guard::LapseGivesAnew) {
            self.give(state, (until + GRACE as i8).max(0) as u8);
        }
        state.ledger.until = PROLONG;
        if state.ledger.opened {
            state.process(process).phase = Phase::Checked { epoch: state.ledger.epoch, age: 0 };
        }
    }

    /// A process empties the queue in Redis, sets its epoch, and adds a hint of the job.
    fn open(&self, state: &mut State, process: u8, epoch: u8) {
        let is_ready = matches!(state.ledger.job, Job::Ready(_));
        let server = state.server_of(process);
        *server = Server { epoch, opened_in: server.run, hint: is_ready, ..Server::empty(server.run) };
        state.ledger.loaded |= state.ledger.epoch == epoch;
        state.process(process).phase = Phase::Idle;
    }

    fn push(&self, state: &mut State, at: u8) {
        let Enqueuer::Stored { epoch, age } = state.enqueuer else { return };
        state.enqueuer = Enqueuer::Done;
        let is_new = age < NEW_FOR || !self.has(Guard::NewFor);
        let server = &mut state.servers[usize::from(at)];
        if epoch == Some(server.epoch) {
            server.hint = true;
            server.document |= is_new;
            state.image = Some(*server);
        } else if server.epoch == state.ledger.epoch && server.owner.is_none() {
            // The hint is added again, without the cached document.
            server.hint = true;
        }
    }

    /// Redis hands out the job, if it has a hint of it.
    fn hand_out(&self, state: &mut State, process: u8, answered: bool) {
        let Phase::Sent { epoch, since } = state.process(process).phase else { return };
        state.process(process).phase = Phase::Idle;
        let server = state.server_of(process);
        let is_open = (server.epoch == epoch || !self.has(Guard::EpochCheck))
            && (server.opened_in == server.run || !self.has(Guard::ServerRun));
        if !is_open {
            let ledger = &state.ledger;
            if answered && ledger.epoch == epoch && ledger.opened {
                self.give(state, if self.has(Guard::PauseUntilNoticed) { PAUSE } else { GRACE });
            }
            return;
        }
        if !server.hint {
            return;
        }
        let is_fresh = server.document;
        server.hint = false;
        server.document &= !self.has(Guard::DocumentGoesWithClaim);
        server.owner = Some((process, HOLD));
        if !answered {
            return;
        }
        if is_fresh {
            state.process(process).phase = Phase::Handed { since };
        } else {
            state.take(process);
            state.release(process);
        }
    }

    fn start(&self, state: &mut State, process: u8) {
        let Phase::Handed { since } = state.process(process).phase else { return };
        state.process(process).phase = Phase::Idle;
        if !self.has(Guard::CountFromRequest) {
            state.process(process).execution = Execution::Unrecorded { since: 0 };
        } else if since < GRACE / 2 {
            state.process(process).execution = Execution::Unrecorded { since };
        } else {
            state.take(process);
            state.release(process);
        }
    }

    /// Whether PostgreSQL accepts the first execution of the job.
    fn accepts(&self, state: &mut State) -> bool {
        match state.ledger.job {
            Job::Ready(0) => true,
            Job::Ready(_) if !self.has(Guard::AsItCame) => {
                state.superseded = true;
                true
            }
            _ => false,
        }
    }

    fn begin(&self, state: &mut State, process: u8, answered: bool) {
        state.process(process).begins = false;
        if self.accepts(state) {
            state.ledger.job = Job::Running { process, run: 1 };
        }
        if !answered || !matches!(state.process(process).execution, Execution::Unrecorded { .. }) {
            return;
        }
        // If it is refused, the process queries which jobs it holds: an earlier answer may have been lost.
        let is_held = state.ledger.job == Job::Running { process, run: 1 };
        state.process(process).execution = if is_held { Execution::Recorded { run: 1 } } else { Execution::None };
        state.release(process);
    }

    /// An execution ends without success: the job runs again, or is dead.
    fn fail(&self, state: &mut State, run: u8) {
        state.ledger.job = if run >= self.runs { Job::Ended } else { Job::Ready(run) };
    }

    fn settle(&self, state: &mut State, process: u8, answered: bool) {
        let Execution::Settling { run, fresh, success } = state.process(process).execution else { return };
        let is_held = state.ledger.job == Job::Running { process, run };
        if is_held || (fresh && self.accepts(state)) {
            if success { state.ledger.job = Job::Ended } else { self.fail(state, run) }
        }
        if answered {
            state.process(process).execution = Execution::None;
            state.release(process);
        }
    }

    pub(crate) fn apply(&self, state: &mut State, action: Action) {
        match action {
            Action::Tick => self.tick(state),
            Action::Store => {
                let ledger = &mut state.ledger;
                ledger.job = Job::Ready(0);
                let complete = ledger.until > 0 && ledger.opened && (ledger.loaded || !self.has(Guard::LoadedEpoch));
                state.enqueuer = Enqueuer::Stored { epoch: complete.then_some(ledger.epoch), age: 0 };
            }
            Action::Push(at) => self.push(state, at),
            Action::PushLost => state.enqueuer = Enqueuer::Done,
            Action::Query(process) => self.query(state, process),
            Action::OpenInLedger(process) => {
                state.ledger.opened = true;
                state.process(process).phase = Phase::Opening { epoch: state.ledger.epoch };
            }
            Action::OpenInRedis(process) => {
                let Phase::Opening { epoch } = state.process(process).phase else { return };
                self.open(state, process, epoch);
            }
            Action::Send(process) => {
                let Phase::Checked { epoch, .. } = state.process(process).phase else { return };
                state.process(process).phase = Phase::Sent { epoch, since: 0 };
            }
            Action::HandOut(process) => self.hand_out(state, process, true),
            Action::HandOutUnanswered(process) => self.hand_out(state, process, false),
            Action::Start(process) => self.start(state, process),
            Action::SendBegin(process) => state.process(process).begins = true,
            Action::Begin(process) => self.begin(state, process, true),
            Action::BeginUnanswered(process) => self.begin(state, process, false),
            Action::HearOfGivingUp(process) => state.process(process).execution = Execution::GivenUp,
            Action::EndHandler(process, success) => {
                let execution = &mut state.process(process).execution;
                let (run, fresh) = if let Execution::Recorded { run } = execution { (*run, false) } else { (1, true) };
                *execution = Execution::Settling { run, fresh, success };
            }
            Action::Settle(process) => self.settle(state, process, true),
            Action::SettleUnanswered(process) => self.settle(state, process, false),
            Action::Reap => {
                let Job::Running { run, .. } = state.ledger.job else { return };
                self.fail(state, run);
            }
            Action::Sweep(at) => state.servers[usize::from(at)].hint = true,
            Action::PutBack(at) => {
                let server = &mut state.servers[usize::from(at)];
                (server.owner, server.hint) = (None, true);
            }
            Action::CheckFallback(process) => {
                state.process(process).phase = Phase::Fallback { epoch: state.ledger.epoch };
            }
            Action::ClaimInFallback(process) => {
                let Phase::Fallback { epoch } = state.process(process).phase else { return };
                if epoch == state.ledger.epoch || !self.has(Guard::RevisionOnFallback) {
                    state.take(process);
                }
                state.process(process).phase = Phase::Idle;
            }
            Action::Switch(process) => state.process(process).at = 1,
            Action::Break(fault) => self.break_redis(state, fault),
            Action::Kill(process) => {
                state.faults -= 1;
                let at = state.process(process).at;
                *state.process(process) = Process { at, phase: Phase::Idle, execution: Execution::None, begins: false };
            }
        }
    }

    fn break_redis(&self, state: &mut State, fault: Fault) {
        state.faults -= 1;
        let run = state.servers[0].run;
        let image = state.image.unwrap_or(Server::empty(run));
        match fault {
            Fault::Empty => state.servers[0] = Server::empty(run),
            Fault::Restore => state.servers[0] = Server { run: run + 1, ..image },
            Fault::Failover => state.servers.push(Server { run: run + 1, ..image }),
            Fault::Failback => {
                let changed = u8::from(self.has(Guard::RunChangesWithRole));
                state.servers[0] = Server { run: run + changed, ..image };
            }
            Fault::Kill => {}
        }
    }

    /// The possible next steps of processes and servers.
    pub(crate) fn possible(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        match state.enqueuer {
            Enqueuer::Before => actions.push(Action::Store),
            Enqueuer::Stored { .. } => {
                actions.push(Action::PushLost);
                actions.extend((0..state.servers.len() as u8).map(Action::Push));
            }
            Enqueuer::Done => {}
        }
        for (number, process) in (0..).zip(&state.processes) {
            self.of_process(state, number, process, actions);
        }
        for (at, server) in (0..).zip(&state.servers) {
            let is_old = state.ledger.age >= SWEEP_AFTER || !self.has(Guard::SweepAge);
            let in_epoch = server.epoch == state.ledger.epoch && state.ledger.opened && server.owner.is_none();
            let is_ready = matches!(state.ledger.job, Job::Ready(_)) && !server.hint;
            if self.has(Guard::Sweep) && is_old && in_epoch && is_ready {
                actions.push(Action::Sweep(at));
            }
            let is_over = |left: u8| left == 0 || !self.has(Guard::HoldBeyondGrace);
            if self.has(Guard::PutBack) && server.owner.is_some_and(|(_, left)| is_over(left)) {
                actions.push(Action::PutBack(at));
            }
        }
        if let Job::Running { process, run } = state.ledger.job {
            // The lease ends once its holder is dead, or does not know that it holds the job.
            let lives = match state.processes[usize::from(process)].execution {
                Execution::Recorded { run: own } | Execution::Settling { run: own, .. } => own == run,
                Execution::Unrecorded { .. } => true,
                Execution::None | Execution::GivenUp => false,
            };
            if !lives {
                actions.push(Action::Reap);
            }
        }
    }

    fn of_process(&self, state: &State, number: u8, process: &Process, actions: &mut Vec<Action>) {
        let ledger = &state.ledger;
        match process.phase {
            Phase::Idle if process.execution == Execution::None => {
                actions.push(Action::Query(number));
                if !ledger.opened && ledger.opens == 0 && ledger.until > 0 {
                    actions.push(Action::OpenInLedger(number));
                }
                let over = if self.has(Guard::GraceBeforeFallback) { -(GRACE as i8) } else { 0 };
                if ledger.until <= over && self.has(Guard::Fallback) {
                    actions.push(Action::CheckFallback(number));
                }
            }
            Phase::Idle => {}
            Phase::Checked { .. } => actions.push(Action::Send(number)),
            Phase::Sent { .. } => actions.extend([Action::HandOut(number), Action::HandOutUnanswered(number)]),
            Phase::Handed { .. } => actions.push(Action::Start(number)),
            Phase::Opening { .. } => actions.push(Action::OpenInRedis(number)),
            Phase::Fallback { .. } => actions.push(Action::ClaimInFallback(number)),
        }
        if process.begins {
            actions.extend([Action::Begin(number), Action::BeginUnanswered(number)]);
        }
        match process.execution {
            Execution::None => {}
            Execution::Unrecorded { since } => {
                actions.extend([Action::EndHandler(number, true), Action::EndHandler(number, false)]);
                if since < GRACE && !process.begins {
                    actions.push(Action::SendBegin(number));
                }
                if since >= GRACE {
                    actions.push(Action::HearOfGivingUp(number));
                }
            }
            Execution::GivenUp => actions.push(Action::EndHandler(number, true)),
            Execution::Recorded { .. } => {
                actions.extend([Action::EndHandler(number, true), Action::EndHandler(number, false)]);
            }
            Execution::Settling { .. } => {
                actions.extend([Action::Settle(number), Action::SettleUnanswered(number)]);
            }
        }
        // Once both processes have noticed, this equals a restart of the server, which is a separate fault.
        if state.servers.len() == 2 && state.processes.iter().all(|one| one.at == 0) {
            actions.push(Action::Switch(number));
        }
    }

    pub(crate) fn breaking(&self, state: &State, actions: &mut Vec<Action>) {
        for fault in self.faults {
            match fault {
                Fault::Kill => {
                    let works = |one: &Process| one.phase != Phase::Idle || one.execution != Execution::None;
                    let busy = (0..).zip(&state.processes).filter(|(_, one)| works(one));
                    actions.extend(busy.map(|(number, _)| Action::Kill(number)));
                }
                Fault::Empty => actions.push(Action::Break(*fault)),
                Fault::Restore | Fault::Failover | Fault::Failback if state.image.is_some() => {
                    actions.push(Action::Break(*fault));
                }
                _ => {}
            }
        }
    }
}
