//! Whether a dispatched job can still finish.

use crate::dispatch::{Action, Dispatch, Enqueuer, Execution, Job, Phase, Process, State};

impl Dispatch {
    /// Both processes die and every message is lost; then they take the intended steps, with or without Redis. Returns
    /// whether the job finishes.
    pub(crate) fn recovers(&self, state: &State, with_redis: bool) -> bool {
        let mut state = state.clone();
        let at = (state.servers.len() - 1) as u8;
        state.processes = [Process { at, phase: Phase::Idle, execution: Execution::None, begins: false }; 2];
        if matches!(state.enqueuer, Enqueuer::Stored { .. }) {
            state.enqueuer = Enqueuer::Done;
        }
        let mut actions = Vec::new();
        for _ in 0..80 {
            if matches!(state.ledger.job, Job::Ended | Job::Absent) {
                return true;
            }
            actions.clear();
            self.possible(&state, &mut actions);
            let next = actions.iter().copied().filter_map(|action| Some((rank(action, with_redis)?, action)));
            let Some((_, action)) = next.min_by_key(|(rank, _)| *rank) else { return false };
            if action == Action::Query(0) {
                // The process checks once per tick.
                self.tick(&mut state);
            }
            self.apply(&mut state, action);
        }
        false
    }
}

/// The order in which a process takes its possible steps, if it is the first one and there are no failures.
fn rank(action: Action, with_redis: bool) -> Option<u8> {
    match action {
        Action::EndHandler(0, true) => Some(0),
        Action::Settle(0) | Action::Reap => Some(1),
        Action::ClaimInFallback(0) => Some(2),
        Action::CheckFallback(0) if !with_redis => Some(3),
        Action::Start(0) | Action::HandOut(0) | Action::Send(0) | Action::OpenInRedis(0) if with_redis => Some(4),
        Action::OpenInLedger(0) if with_redis => Some(5),
        Action::PutBack(_) | Action::Sweep(_) if with_redis => Some(6),
        Action::Query(0) if with_redis => Some(7),
        Action::Tick => Some(8),
        _ => None,
    }
}
