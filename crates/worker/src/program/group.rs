//! A program and all processes that it has started, ended together.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use punctual_core::WorkerId;
use tokio::{process::Child, time};

use super::{
    ProgramLimits,
    descendants::Descendants,
    mark::Mark,
    memory_watchdog::{self, is_zombie},
};

/// How often to check whether all have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A process group and the processes that have left it; killed on drop.
pub(super) struct Group {
    leader: Pid,
    /// Finds the processes that have left the group.
    descendants: Descendants,
    /// Whether these were killed since the leader ended.
    descendants_killed: AtomicBool,
    /// The limit that the program exceeded, if any.
    excess: Arc<OnceLock<String>>,
    /// Whether the leader was waited for. The id of a group that has ended may be reused.
    ended: AtomicBool,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.leader)
    }
}

impl Group {
    /// The group of a child that was started as a group leader with this mark. `None` if the child has ended and was
    /// waited for.
    pub(super) fn of(child: &Child, limits: ProgramLimits, mark: Mark) -> Option<Self> {
        let leader = Pid::from_raw(i32::try_from(child.id()?).ok()?);
        let excess = Arc::default();
        if let Some(max) = limits.memory_bytes {
            memory_watchdog::watch(leader, mark, max, &excess);
        }
        let descendants = Descendants { mark, leader, started_at: Instant::now() };
        Some(Self {
            leader,
            descendants,
            descendants_killed: AtomicBool::new(false),
            excess,
            ended: AtomicBool::new(false),
        })
    }

    /// The limit that the program exceeded, if it was killed for that.
    pub(super) fn excess(&self) -> Option<&str> {
        self.excess.get().map(String::as_str)
    }

    /// Sends a termination signal to the whole group, and kills what is left after `grace`.
    pub(super) async fn stop(&self, grace: Duration) {
        let _ = killpg(self.leader, Signal::SIGTERM);
        // An empty group cannot be signalled.
        let ended = async {
            while killpg(self.leader, None).is_ok() {
                time::sleep(CHECK_INTERVAL).await;
            }
        };
        let _ = time::timeout(grace, ended).await;
        self.kill();
        self.descendants.kill_all().await;
    }

    /// Called when the leader has ended and was waited for; kills the rest of its group.
    pub(super) fn end(&self) {
        self.kill();
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Called when the leader has ended; kills the processes that have left its group, and waits until they have ended.
    pub(super) async fn kill_descendants(&self) {
        self.descendants.kill_all().await;
        self.descendants_killed.store(true, Ordering::Relaxed);
    }

    fn kill(&self) {
        if !self.ended.load(Ordering::Relaxed) {
            let _ = killpg(self.leader, Signal::SIGKILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        memory_watchdog::forget(self.leader);
        if !self.descendants_killed.load(Ordering::Relaxed) {
            self.descendants.kill_in_background();
        }
    }
}

/// Kills the processes left behind by programs of a dead worker, in whatever group they are: they have its mark, or its
/// id in their environment.
pub(crate) fn kill_programs_of(worker: WorkerId) -> usize {
    /// A process that keeps starting others may escape one scan, but not many.
    const SCANS_MAX: usize = 20;
    let variable = format!("PUNCTUAL_WORKER_ID={worker}");
    let is_marked = |process| Mark::of(process).is_some_and(|mark| mark.is_of(worker)) && !is_zombie(process);
    let mut killed = BTreeSet::new();
    for _ in 0..SCANS_MAX {
        let left = memory_watchdog::processes()
            .filter(|one| is_marked(*one) || memory_watchdog::has_in_environment(*one, &variable));
        let left: Vec<Pid> = left.filter(|process| kill(*process, Signal::SIGKILL).is_ok()).collect();
        if left.is_empty() {
            break;
        }
        killed.extend(left);
        // A killed process takes a moment to end.
        thread::sleep(Duration::from_millis(1));
    }
    killed.len()
}
