//! What is shared among those who look after worker processes.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use punctual_client::Punctual;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::Stats;

pub(super) type MakeCommand = Box<dyn Fn() -> Command + Send + Sync>;
pub(super) type LogLine = Arc<dyn Fn(&str) + Send + Sync>;

/// What is shared among those who look after the processes.
pub(super) struct Fleet {
    pub(super) punctual: Punctual,
    command: MakeCommand,
    pub(super) silence: Duration,
    log_line: LogLine,
    slots: Mutex<Vec<Slot>>,
    /// Whether any of them has ever worked.
    has_worked: AtomicBool,
    /// Start no more, and let those that run end in order.
    pub(super) draining: CancellationToken,
    /// Kill those that run.
    pub(super) ending_now: CancellationToken,
}

/// A place for a process.
#[derive(Clone, Default)]
struct Slot {
    /// What the process that has it did so far, if one works.
    stats: Option<Stats>,
    /// What those before it did.
    before: Stats,
    /// Why no process has it any more.
    given_up: Option<String>,
}

impl Fleet {
    pub(super) fn new(
        punctual: Punctual,
        (command, log_line): (MakeCommand, LogLine),
        silence: Duration,
        workers: usize,
    ) -> Self {
        Self {
            punctual,
            command,
            silence,
            log_line,
            slots: Mutex::new(vec![Slot::default(); workers]),
            has_worked: AtomicBool::new(false),
            draining: CancellationToken::new(),
            ending_now: CancellationToken::new(),
        }
    }

    /// Whether any process has ever worked; `one` has, or has not.
    pub(super) fn has_worked(&self, one: bool) -> bool {
        self.has_worked.fetch_or(one, Ordering::Relaxed) || one
    }

    /// No process has that slot any more.
    pub(super) fn give_up(&self, slot: usize, reason: String) {
        self.slots()[slot].given_up = Some(reason);
    }

    /// Why the last slot was given up that was.
    pub(super) fn why_given_up(&self) -> Option<String> {
        self.slots().iter().rev().find_map(|slot| slot.given_up.clone())
    }

    /// How many processes work.
    pub(super) fn working(&self) -> usize {
        self.slots().iter().filter(|slot| slot.stats.is_some()).count()
    }

    pub(super) fn command(&self) -> Command {
        (self.command)()
    }

    pub(super) fn log_line(&self) -> LogLine {
        Arc::clone(&self.log_line)
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all of them have done so far.
    pub(super) fn stats(&self) -> Stats {
        let of_slot = |slot: &Slot| slot.before.plus(slot.stats.unwrap_or_default());
        self.slots().iter().map(of_slot).fold(Stats::default(), Stats::plus)
    }

    /// What the process in a slot did so far; nothing once it has ended.
    pub(super) fn set_stats(&self, slot: usize, stats: Option<Stats>) {
        let slot = &mut self.slots()[slot];
        if stats.is_none()
            && let Some(last) = slot.stats
        {
            slot.before = slot.before.plus(Stats { running: 0, ..last });
        }
        slot.stats = stats;
    }
}
