//! Whether a job that is dispatched still comes to its end.

use crate::dispatch::{Action, Dispatch, Enqueuer, Execution, Job, Phase, Process, State};

impl Dispatch {
    /// Both processes die and every message is lost; then they do what they should, with Redis or without. Whether the
    /// job comes to its end.
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
            if action == Action::Ask(0) {
                // It looks as often as time passes.
                self.tick(&mut state);
            }
            self.apply(&mut state, action);
        }
        false
    }
}

/// In which order a process does what it may, if it is the first one and all goes well.
fn rank(action: Action, with_redis: bool) -> Option<u8> {
    match action {
        Action::EndHandler(0, true) => Some(0),
        Action::Settle(0) | Action::Reap => Some(1),
        Action::ClaimInFallback(0) => Some(2),
        Action::LookForFallback(0) if !with_redis => Some(3),
        Action::Start(0) | Action::HandOut(0) | Action::Send(0) | Action::OpenInRedis(0) if with_redis => Some(4),
        Action::OpenInLedger(0) if with_redis => Some(5),
        Action::PutBack(_) | Action::Sweep(_) if with_redis => Some(6),
        Action::Ask(0) if with_redis => Some(7),
        Action::Tick => Some(8),
        _ => None,
    }
}
