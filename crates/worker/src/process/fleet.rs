//! What is shared among those who look after worker processes.

use std::{
    future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use punctual_client::Punctual;
use punctual_core::StoreError;
use tokio::{
    process::Command,
    sync::watch,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Stats,
    isolation::{self, Isolation},
};

/// Processes for suspects at most. There is always one, and another one while all of them are busy.
const SUSPECTS_MAX_PROCESSES: usize = 8;
/// How often it is looked whether there are enough of them.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// One that was not needed for so long ends.
const IDLE_MAX: Duration = Duration::from_secs(30);

pub(super) type MakeCommand = Box<dyn Fn() -> Command + Send + Sync>;
pub(super) type LogLine = Arc<dyn Fn(&str) + Send + Sync>;

/// What is shared among those who look after the processes.
pub(super) struct Fleet {
    pub(super) punctual: Punctual,
    command: MakeCommand,
    pub(super) silence: Duration,
    log_line: LogLine,
    /// How many processes there are, but for those for suspects, which have the slots behind theirs.
    workers: usize,
    slots: Mutex<Vec<Slot>>,
    /// Whether any of them has ever worked.
    has_worked: AtomicBool,
    /// The store has failed for good in one of them.
    failure: watch::Sender<Option<StoreError>>,
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
            workers,
            slots: Mutex::new(vec![Slot::default(); workers + SUSPECTS_MAX_PROCESSES]),
            has_worked: AtomicBool::new(false),
            failure: watch::Sender::new(None),
            draining: CancellationToken::new(),
            ending_now: CancellationToken::new(),
        }
    }

    /// Whether any process has ever worked; `one` has, or has not.
    pub(super) fn has_worked(&self, one: bool) -> bool {
        self.has_worked.fetch_or(one, Ordering::Relaxed) || one
    }

    /// The store has failed for good in one of the processes.
    pub(super) fn fail(&self, error: StoreError) {
        self.failure.send_replace(Some(error));
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Waits until the store has failed for good in one of the processes.
    pub(super) async fn failed(&self) -> StoreError {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(error)) => error,
            _ => std::future::pending().await,
        }
    }

    /// No process has that slot any more.
    pub(super) fn give_up(&self, slot: usize, reason: String) {
        self.slots()[slot].given_up = Some(reason);
    }

    /// Whether all slots were, but for those of suspects.
    pub(super) fn is_given_up(&self) -> bool {
        self.slots().iter().take(self.workers).all(|slot| slot.given_up.is_some())
    }

    /// Why the last slot was given up that was.
    pub(super) fn why_given_up(&self) -> Option<String> {
        self.slots().iter().rev().find_map(|slot| slot.given_up.clone())
    }

    /// How many processes work, but for those for suspects.
    pub(super) fn working(&self) -> usize {
        self.slots().iter().take(self.workers).filter(|slot| slot.stats.is_some()).count()
    }

    /// What starts the process of a slot, which learns from its environment which suspects it runs.
    pub(super) fn command(&self, slot: usize) -> Command {
        let mut command = (self.command)();
        let isolation = if self.is_for_suspects(slot) { Isolation::Only } else { Isolation::Elsewhere };
        command.env(isolation::VARIABLE, isolation.as_str());
        command
    }

    /// How many slots there are.
    pub(super) const fn slots_count(&self) -> usize {
        self.workers + SUSPECTS_MAX_PROCESSES
    }

    /// Whether the process of a slot runs suspects only.
    pub(super) const fn is_for_suspects(&self, slot: usize) -> bool {
        slot >= self.workers
    }

    /// Waits until a process is wanted in a slot: at once, but for suspects once all that are there for them are busy.
    pub(super) async fn until_wanted(&self, slot: usize) {
        while (self.workers..slot).any(|before| !self.is_busy(before)) {
            time::sleep(LOOK_PERIOD).await;
        }
    }

    /// Waits until a process for suspects has not been needed for a while: another one had nothing to do either.
    pub(super) async fn until_unwanted(&self, slot: usize) {
        if !self.is_for_suspects(slot) {
            return future::pending().await;
        }
        let mut idle_since = Instant::now();
        while idle_since.elapsed() < IDLE_MAX {
            time::sleep(LOOK_PERIOD).await;
            if self.is_busy(slot) || (self.workers..slot).all(|before| self.is_busy(before)) {
                idle_since = Instant::now();
            }
        }
    }

    fn is_busy(&self, slot: usize) -> bool {
        self.slots()[slot].stats.is_some_and(|stats| stats.running > 0)
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
