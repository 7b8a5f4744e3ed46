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

/// How long to wait for killed processes to end. The kernel may take longer.
const GONE_MAX: Duration = Duration::from_secs(2);
/// How often to check whether they have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// For this time after the start of a program, process ids cannot have wrapped around to its own.
const NO_WRAP_FOR: Duration = Duration::from_secs(1);

/// Number of programs whose descendants are being killed by background threads.
static IN_BACKGROUND: AtomicUsize = AtomicUsize::new(0);

/// The descendants of a program's process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descendants {
    pub(super) mark: Mark,
    pub(super) leader: Pid,
    pub(super) started_at: Instant,
}

impl Descendants {
    /// Kills all processes with the mark, and waits until they have ended.
    pub(super) async fn kill_all(self) {
        let _ = spawn_blocking(move || self.kill_all_now()).await;
    }

    /// Kills all processes with the mark, on a background thread.
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
            thread::sleep(CHECK_INTERVAL);
        }
    }

    /// Kills the processes that exist now; returns their number.
    fn kill_marked(self) -> usize {
        let checks_all = self.checks_all();
        let may_descend = |process: &Pid| *process > self.leader || checks_all && *process != self.leader;
        let marked =
            memory_watchdog::processes().filter(may_descend).filter(|process| Mark::of(*process) == Some(self.mark));
        marked.filter(|process| !is_zombie(*process) && kill(*process, Signal::SIGKILL).is_ok()).count()
    }

    /// Process ids increase until they wrap around: soon after its start, all descendants of a program have higher ids
    /// than the program itself, and lower ids need not be checked.
    fn checks_all(self) -> bool {
        self.started_at.elapsed() > NO_WRAP_FOR || last_process().is_none_or(|last| last < self.leader)
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
            time::sleep(CHECK_INTERVAL).await;
        }
    };
    let _ = time::timeout(GONE_MAX, killed).await;
}
