//! A program and all that it started, ended together.

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

/// How often to look whether all have ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A group of processes, and those that have left it; killed when it goes out of scope.
pub(super) struct Group {
    leader: Pid,
    /// How those are found that have left it.
    descendants: Descendants,
    /// Whether they have been looked for since the leader ended.
    descendants_killed: AtomicBool,
    /// What it used more of than it may.
    excess: Arc<OnceLock<String>>,
    /// Whether the leader has been waited for. The number of a group that has ended may be another's.
    ended: AtomicBool,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({})", self.leader)
    }
}

impl Group {
    /// The group that a child leads, which was made to lead one, and which was given that mark. Nothing if it has ended
    /// and was waited for.
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

    /// What it used more of than it may, if it did; it was killed then.
    pub(super) fn excess(&self) -> Option<&str> {
        self.excess.get().map(String::as_str)
    }

    /// Asks all of it to end, and kills what is left after a while.
    pub(super) async fn stop(&self, grace: Duration) {
        let _ = killpg(self.leader, Signal::SIGTERM);
        // A group without members cannot be signalled.
        let ended = async {
            while killpg(self.leader, None).is_ok() {
                time::sleep(LOOK_EVERY).await;
            }
        };
        let _ = time::timeout(grace, ended).await;
        self.kill();
        self.descendants.kill_all().await;
    }

    /// The leader has just ended and was waited for; what it has left in its group ends with it.
    pub(super) fn end(&self) {
        self.kill();
        self.ended.store(true, Ordering::Relaxed);
    }

    /// The leader has ended; what has left its group ends as well, and is gone when this returns.
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

/// Kills what programs of a worker that has died have left behind, wherever they have gone: they carry its mark, or its
/// id in their environment.
pub(crate) fn kill_programs_of(worker: WorkerId) -> usize {
    /// What starts others all the time may escape a look, but not for long.
    const LOOKS_MAX: usize = 20;
    let variable = format!("PUNCTUAL_WORKER_ID={worker}");
    let is_marked = |process| Mark::of(process).is_some_and(|mark| mark.is_of(worker)) && !is_zombie(process);
    let mut killed = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let left = memory_watchdog::processes()
            .filter(|one| is_marked(*one) || memory_watchdog::has_in_environment(*one, &variable));
        let left: Vec<Pid> = left.filter(|process| kill(*process, Signal::SIGKILL).is_ok()).collect();
        if left.is_empty() {
            break;
        }
        killed.extend(left);
        // A killed process takes a moment to be gone.
        thread::sleep(Duration::from_millis(1));
    }
    killed.len()
}
