//! The steps of the model of leases.

use crate::lease::{
    DRIFT, Execution, Fence, Guard, LEASE, Leases, MAX_ATTEMPTS, MAX_CRASHES, Message, Outcome, Phase, Row, State,
    Status,
};

impl State {
    pub(crate) fn send(&mut self, message: Message) {
        self.messages.push(message);
    }

    pub(crate) fn take(&mut self, message: &Message) {
        if let Some(at) = self.messages.iter().position(|one| one == message) {
            self.messages.remove(at);
        }
    }

    pub(crate) fn is_held(&self, fence: Fence) -> bool {
        matches!(self.row.status, Status::Held { worker, .. } if worker == fence.worker) && self.row.run == fence.run
    }

    pub(crate) fn left(&self) -> u8 {
        if let Status::Held { left, .. } = self.row.status { left } else { 0 }
    }

    /// The executions whose settles are in flight.
    pub(crate) fn settles(&self) -> impl Iterator<Item = Fence> {
        self.messages.iter().filter_map(|one| if let Message::Settle(fence, _) = one { Some(*fence) } else { None })
    }

    pub(crate) fn set_left(&mut self, to: u8) {
        if let Status::Held { left, .. } = &mut self.row.status {
            *left = to;
        }
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.row.confirmed
    }

    /// A worker is notified that it no longer holds an execution.
    pub(crate) fn refuse(&mut self, fence: Fence) {
        self.executions.retain(|one| one.fence != fence || matches!(one.phase, Phase::Ended(_)));
    }

    pub(crate) fn end(&mut self, status: Status) {
        self.row.status = status;
        self.ends = (self.ends + 1).min(2);
    }

    pub(crate) fn sync(&mut self) {
        self.synced = self.row;
    }

    /// A worker dies. Its messages are still in flight; the answers are ignored.
    pub(crate) fn kill(&mut self, worker: u8) {
        self.alive[usize::from(worker)] = false;
        self.executions.retain(|one| one.fence.worker != worker);
        let is_its = |one: &Message| {
            one.claimer() == Some(worker)
                || matches!(one, Message::Extended { fence, .. } | Message::Confirmed(fence) if fence.worker == worker)
        };
        self.messages.retain(|one| !is_its(one));
    }

    pub(crate) fn tick(&mut self) {
        self.set_left(self.left().saturating_sub(1));
        for execution in &mut self.executions {
            execution.left = execution.left.saturating_sub(1);
        }
        // An execution without a lease does not start.
        self.executions.retain(|one| one.phase != Phase::Waiting || one.left > 0);
        for message in &mut self.messages {
            if let Message::Claim { age, .. }
            | Message::Granted { age, .. }
            | Message::Extend { age, .. }
            | Message::Extended { age, .. } = message
            {
                *age = (*age + 1).min(LEASE + DRIFT);
            }
        }
        // Commits reach the disk within half a second, far less than a lease.
        self.sync();
    }
}

impl Leases {
    /// A worker's execution starts or waits for its confirmation; starts are counted.
    pub(crate) fn start(&self, state: &mut State, execution: Execution) {
        if self.at_most_once && execution.phase == Phase::Running {
            state.starts = (state.starts + 1).min(2);
        }
        state.executions.push(execution);
    }

    pub(crate) fn deliver(&self, state: &mut State, message: Message, answered: bool) {
        match message {
            Message::Claim { worker, age } => {
                if state.row.status == Status::Queued && state.row.run < self.max_runs {
                    state.row.run += 1;
                    state.row.confirmed = false;
                    state.row.status = Status::Held { worker, left: LEASE };
                    let fence = Fence { worker, run: state.row.run };
                    state.send(Message::Granted { fence, age, forgotten: false });
                }
            }
            Message::Granted { fence, age, forgotten } => self.granted(state, fence, age, forgotten),
            Message::Confirm(fence) => self.confirm(state, fence, answered),
            Message::Confirmed(fence) => {
                let waits = |one: &Execution| one.fence == fence && one.phase == Phase::Waiting && one.left > 0;
                if let Some(at) = state.executions.iter().position(waits) {
                    let execution = state.executions.remove(at);
                    self.start(state, Execution { phase: Phase::Running, ..execution });
                }
            }
            Message::Extend { fence, age } => {
                let is_live = state.left() > 0 || !self.has(Guard::ExtendChecksExpiry);
                if state.is_held(fence) && is_live {
                    state.revived |= state.left() == 0;
                    state.set_left(LEASE.max(state.left()));
                    state.send(Message::Extended { fence, age, forgotten: false });
                } else if answered {
                    state.refuse(fence);
                }
            }
            Message::Extended { fence, age, forgotten } => {
                let belief = self.belief(age);
                let stopped = |one: &Execution| self.has(Guard::LocalClock) && one.left == 0;
                for one in state.executions.iter_mut().filter(|one| one.fence == fence && !stopped(one)) {
                    one.left = one.left.max(belief);
                    one.forgotten &= forgotten;
                }
            }
            Message::Settle(fence, outcome) => {
                self.settle(state, fence, outcome);
                if answered {
                    state.executions.retain(|one| one.fence != fence || one.phase != Phase::Ended(outcome));
                }
            }
            Message::Lost(fence) => self.lose(state, fence),
        }
    }

    pub(crate) fn granted(&self, state: &mut State, fence: Fence, age: u8, forgotten: bool) {
        let left = self.belief(age);
        if left == 0 && self.has(Guard::LocalClock) {
            return;
        }
        let (had, run) = (&mut state.had[usize::from(fence.worker)], 1 << fence.run);
        let in_hand = state.executions.iter().any(|one| one.fence == fence);
        let again = in_hand || (*had & run != 0 && self.has(Guard::RememberRuns));
        *had |= run;
        if again && self.has(Guard::RefuseRepeatedRun) {
            return state.executions.retain(|one| one.fence != fence);
        }
        let waits = self.at_most_once && self.has(Guard::Confirmation);
        let phase = if waits { Phase::Waiting } else { Phase::Running };
        self.start(state, Execution { fence, phase, left, forgotten });
    }

    pub(crate) fn confirm(&self, state: &mut State, fence: Fence, answered: bool) {
        let is_held = state.is_held(fence) || !self.has(Guard::FencedConfirmation);
        let confirms = is_held && state.left() > 0;
        if confirms {
            state.row.confirmed = true;
            if self.has(Guard::DurableConfirmation) {
                state.sync();
            }
            state.send(Message::Confirmed(fence));
        } else if answered {
            state.refuse(fence);
        }
    }

    /// The number of attempts that count.
    pub(crate) fn attempts(&self, row: &Row) -> u8 {
        row.failures + if self.has(Guard::CrashSpendsNoAttempt) { 0 } else { row.crashes }
    }

    pub(crate) fn settle(&self, state: &mut State, fence: Fence, outcome: Outcome) {
        let held = match state.row.status {
            Status::Held { worker, .. } => {
                (worker == fence.worker || !self.has(Guard::FenceWorker))
                    && (state.row.run == fence.run || !self.has(Guard::FenceRun))
            }
            _ => !self.has(Guard::SettleNeedsRunningRow),
        };
        if !held {
            return;
        }
        let max_attempts = if self.at_most_once { 1 } else { MAX_ATTEMPTS };
        match outcome {
            Outcome::Succeed => state.end(Status::Succeeded),
            Outcome::Release if state.is_confirmed() && self.has(Guard::NoReleaseAfterConfirmation) => {
                state.end(Status::Dead);
            }
            Outcome::Release => state.row.status = Status::Queued,
            Outcome::Fail => {
                state.row.failures += 1;
                if self.attempts(&state.row) >= max_attempts {
                    state.end(Status::Dead);
                } else {
                    state.row.status = Status::Queued;
                }
            }
        }
        state.sync();
    }

    /// The reaper ends an execution whose lease it has found expired.
    pub(crate) fn lose(&self, state: &mut State, fence: Fence) {
        if !state.is_held(fence) || (state.left() > 0 && self.has(Guard::ReaperChecksExpiry)) {
            return;
        }
        if self.at_most_once {
            let dies = state.is_confirmed() || !self.has(Guard::UnconfirmedGoesBack);
            if dies { state.end(Status::Dead) } else { state.row.status = Status::Queued }
        } else {
            state.row.crashes += 1;
            let dies = state.row.crashes >= MAX_CRASHES || self.attempts(&state.row) >= MAX_ATTEMPTS;
            if dies { state.end(Status::Dead) } else { state.row.status = Status::Queued }
        }
        state.sync();
    }

    /// The store loses the commits that it had not synced: claims, extensions, and confirmations if those are not
    /// durable.
    pub(crate) fn crash_store(&self, state: &mut State) {
        state.row = state.synced;
        state.store_crashes -= 1;
        let row = state.clone();
        let is_known = |fence: Fence, belief: u8| row.is_held(fence) && row.left() + self.drift >= belief;
        for one in &mut state.executions {
            one.forgotten |= !is_known(one.fence, one.left);
        }
        for message in &mut state.messages {
            if let Message::Granted { fence, age, forgotten } | Message::Extended { fence, age, forgotten } = message {
                *forgotten |= !is_known(*fence, self.belief(*age));
            }
        }
    }

    /// All workers die and all messages are lost; then one worker takes the intended steps. Returns whether the job
    /// finishes.
    pub(crate) fn recovers(&self, state: &State) -> bool {
        let mut state = State { executions: Vec::new(), messages: Vec::new(), ..state.clone() };
        for _ in 0..2 * (LEASE + MAX_CRASHES + 2) {
            match state.row.status {
                Status::Succeeded | Status::Dead => return true,
                Status::Queued => {
                    state.row.run += 1;
                    state.row.status = Status::Held { worker: 0, left: LEASE };
                    let fence = Fence { worker: 0, run: state.row.run };
                    self.settle(&mut state, fence, Outcome::Succeed);
                }
                Status::Held { left: 0, worker } if self.has(Guard::Reaper) => {
                    let fence = Fence { worker, run: state.row.run };
                    self.lose(&mut state, fence);
                }
                Status::Held { .. } => state.tick(),
            }
        }
        false
    }

    pub(crate) fn believes(&self, one: &Execution) -> bool {
        // Within the last ticks the worker's clock may be behind; and leases that a crashed store had granted remain
        // valid until their end.
        let within_bounds = !self.has(Guard::LocalClock) || one.left > DRIFT;
        one.phase == Phase::Running && within_bounds && !one.forgotten
    }
}
