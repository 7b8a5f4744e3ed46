//! Kills the processes that a program has started and that have left its process group.

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{task::spawn_blocking, time};

use super::{
    mark::Mark,
    memory_watchdog::{self, is_zombie},
};

/// How long killed processes may take to be gone. One that the kernel does not let go of may take longer.
const GONE_MAX: Duration = Duration::from_secs(2);
/// How often to look whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// For so long after a program was started, the numbers of processes that it has started cannot have come round to its
/// own.
const NUMBERS_LAST: Duration = Duration::from_secs(1);

/// Programs whose descendants are being killed by background threads.
static IN_BACKGROUND: AtomicUsize = AtomicUsize::new(0);

/// The processes that descend from a program's own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descendants {
    pub(super) mark: Mark,
    pub(super) leader: Pid,
    pub(super) started_at: Instant,
}

impl Descendants {
    /// Kills all that carries the mark, and waits until it is gone.
    pub(super) async fn kill_all(self) {
        let _ = spawn_blocking(move || self.kill_all_now()).await;
    }

    /// The same, on a background thread.
    pub(super) fn kill_in_background(self) {
        IN_BACKGROUND.fetch_add(1, Ordering::SeqCst);
        let kill = move || {
            self.kill_all_now();
            IN_BACKGROUND.fetch_sub(1, Ordering::SeqCst);
        };
        if let Err(error) = thread::Builder::new().name("punctual-kill".into()).spawn(kill) {
            IN_BACKGROUND.fetch_sub(1, Ordering::SeqCst);
            tracing::error!(%error, "cannot start a thread; processes of a program may be left");
        }
    }

    fn kill_all_now(self) {
        let since = Instant::now();
        while self.kill_marked() > 0 {
            if since.elapsed() > GONE_MAX {
                tracing::warn!(program = %self.leader, "processes of a program do not end although they were killed");
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills what is there; says how many.
    fn kill_marked(self) -> usize {
        let looks_at_all = self.looks_at_all();
        let may_descend = |process: &Pid| *process > self.leader || looks_at_all && *process != self.leader;
        let marked =
            memory_watchdog::processes().filter(may_descend).filter(|process| Mark::of(*process) == Some(self.mark));
        marked.filter(|process| !is_zombie(*process) && kill(*process, Signal::SIGKILL).is_ok()).count()
    }

    /// Numbers of processes only grow, until they begin again: what a program has just started has a greater one than
    /// itself.
    fn looks_at_all(self) -> bool {
        self.started_at.elapsed() > NUMBERS_LAST || last_process().is_none_or(|last| last < self.leader)
    }
}

/// The process that was started last.
fn last_process() -> Option<Pid> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next_back()?.parse().ok().map(Pid::from_raw)
}

/// Waits for the background threads.
pub(super) async fn all_killed() {
    let killed = async {
        while IN_BACKGROUND.load(Ordering::SeqCst) > 0 {
            time::sleep(LOOK_EVERY).await;
        }
    };
    let _ = time::timeout(GONE_MAX, killed).await;
}
