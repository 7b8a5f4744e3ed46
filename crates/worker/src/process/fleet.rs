//! State shared by the tasks of a supervisor.

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

/// Maximum number of processes for suspects. There is always one, and one more while all of them are busy.
const SUSPECTS_MAX_PROCESSES: usize = 8;
/// How often to check whether there are enough of them.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// A process for suspects that was not needed for this time ends.
const IDLE_MAX: Duration = Duration::from_secs(30);

pub(super) type MakeCommand = Box<dyn Fn() -> Command + Send + Sync>;
pub(super) type LogLine = Arc<dyn Fn(&str) + Send + Sync>;

/// State shared by the tasks that manage the processes.
pub(super) struct Fleet {
    pub(super) punctual: Punctual,
    command: MakeCommand,
    pub(super) silence: Duration,
    log_line: LogLine,
    /// Number of processes, not counting those for suspects, whose slots follow.
    workers: usize,
    slots: Mutex<Vec<ProcessSlot>>,
    /// Whether any of them has ever worked.
    has_worked: AtomicBool,
    /// Set when the store has failed permanently in one of them.
    failure: watch::Sender<Option<StoreError>>,
    /// Start no more processes, and let the running ones end gracefully.
    pub(super) draining: CancellationToken,
    /// Kill the running processes.
    pub(super) ending_now: CancellationToken,
}

/// A slot for a process.
#[derive(Clone, Default)]
struct ProcessSlot {
    /// Statistics of the current process, if it works.
    stats: Option<Stats>,
    /// Statistics of the earlier processes.
    before: Stats,
    /// Why the slot was given up, if it was.
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
            slots: Mutex::new(vec![ProcessSlot::default(); workers + SUSPECTS_MAX_PROCESSES]),
            has_worked: AtomicBool::new(false),
            failure: watch::Sender::new(None),
            draining: CancellationToken::new(),
            ending_now: CancellationToken::new(),
        }
    }

    /// Whether any process has ever worked. `one` reports that a process has.
    pub(super) fn has_worked(&self, one: bool) -> bool {
        self.has_worked.fetch_or(one, Ordering::Relaxed) || one
    }

    /// Reports that the store has failed permanently in one of the processes.
    pub(super) fn fail(&self, error: StoreError) {
        self.failure.send_replace(Some(error));
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// Waits until the store has failed permanently in one of the processes.
    pub(super) async fn failed(&self) -> StoreError {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(error)) => error,
            _ => std::future::pending().await,
        }
    }

    /// Gives a slot up: no more processes are started in it.
    pub(super) fn give_up(&self, slot: usize, reason: String) {
        self.slots()[slot].given_up = Some(reason);
    }

    /// Whether all slots were given up, not counting those for suspects.
    pub(super) fn is_given_up(&self) -> bool {
        self.slots().iter().take(self.workers).all(|slot| slot.given_up.is_some())
    }

    /// Why the last slot was given up.
    pub(super) fn why_given_up(&self) -> Option<String> {
        self.slots().iter().rev().find_map(|slot| slot.given_up.clone())
    }

    /// Number of working processes, not counting those for suspects.
    pub(super) fn working(&self) -> usize {
        self.slots().iter().take(self.workers).filter(|slot| slot.stats.is_some()).count()
    }

    /// The command that starts the process of a slot, with the environment variable for which suspects it runs.
    pub(super) fn command(&self, slot: usize) -> Command {
        let mut command = (self.command)();
        let isolation = if self.is_for_suspects(slot) { Isolation::Only } else { Isolation::Elsewhere };
        command.env(isolation::VARIABLE, isolation.as_str());
        command
    }

    /// Number of slots.
    pub(super) const fn slots_count(&self) -> usize {
        self.workers + SUSPECTS_MAX_PROCESSES
    }

    /// Whether the process of a slot runs suspects only.
    pub(super) const fn is_for_suspects(&self, slot: usize) -> bool {
        slot >= self.workers
    }

    /// Waits until a process is needed in a slot: for suspects, once all processes in earlier slots for suspects are
    /// busy; otherwise at once.
    pub(super) async fn until_wanted(&self, slot: usize) {
        while (self.workers..slot).any(|before| !self.is_busy(before)) {
            time::sleep(CHECK_PERIOD).await;
        }
    }

    /// Waits until a process for suspects has not been needed for a while, because an earlier one was idle, too.
    pub(super) async fn until_unwanted(&self, slot: usize) {
        if !self.is_for_suspects(slot) {
            return future::pending().await;
        }
        let mut idle_since = Instant::now();
        while idle_since.elapsed() < IDLE_MAX {
            time::sleep(CHECK_PERIOD).await;
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

    fn slots(&self) -> MutexGuard<'_, Vec<ProcessSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Statistics of all processes together.
    pub(super) fn stats(&self) -> Stats {
        let of_slot = |slot: &ProcessSlot| slot.before.plus(slot.stats.unwrap_or_default());
        self.slots().iter().map(of_slot).fold(Stats::default(), Stats::plus)
    }

    /// Sets the statistics of the process in a slot; `None` once it has ended.
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
