//! A mark on all processes of a program. They inherit it whatever they do: a second fork, a session of their own, an
//! empty environment.
//!
//! The mark is the soft limit of `RLIMIT_RTTIME`, which is otherwise unlimited: it applies only to processes with
//! real-time scheduling, is inherited by fork and exec, and can be read for every process. A process loses the mark
//! only if it sets this limit itself.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use nix::unistd::Pid;
use punctual_core::WorkerId;

/// Bits for the number of the program within its worker.
const NUMBER_BITS: u32 = 24;
/// Bits for a hash of the worker's id.
const WORKER_BITS: u32 = 32;
/// The highest bits of a mark: as a limit, more microseconds than is ever useful.
const TAG: u64 = 0x50;

/// The mark of one program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Mark(u64);

impl Mark {
    /// A mark that no other program on this machine has.
    pub(super) fn new(worker: WorkerId) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed) & ((1 << NUMBER_BITS) - 1);
        Self(prefix(worker) << NUMBER_BITS | number)
    }

    /// The mark of a process, if it has one.
    pub(super) fn of(process: Pid) -> Option<Self> {
        let limits = fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
        let mark: u64 = limit.split_whitespace().next()?.parse().ok()?;
        (mark >> (WORKER_BITS + NUMBER_BITS) == TAG).then_some(Self(mark))
    }

    /// Whether the mark belongs to a program of this worker.
    pub(super) fn is_of(self, worker: WorkerId) -> bool {
        self.0 >> NUMBER_BITS == prefix(worker)
    }

    /// Marks this process and all that it will start. Errors are ignored: the process then runs without a mark.
    #[cfg(target_os = "linux")]
    pub(super) fn set(self) {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_RTTIME) {
            let _ = setrlimit(Resource::RLIMIT_RTTIME, self.0, hard);
        }
    }

    /// Other systems have no such limit, and no marks.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn set(self) {}
}

fn prefix(worker: WorkerId) -> u64 {
    let bits = worker.to_bits();
    // All parts of the id are used, since some of them are a time.
    let folded = (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32;
    TAG << WORKER_BITS | u64::from(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_identifies_its_worker_and_no_other_process_has_it() {
        let (worker, other) = (WorkerId::from_bits(7 << 100 | 3), WorkerId::from_bits(8 << 100 | 3));
        let mark = Mark::new(worker);
        assert!(mark.is_of(worker) && !mark.is_of(other));
        assert_ne!(mark, Mark::new(worker));
        assert!(i64::try_from(mark.0).is_ok(), "a limit of every system");
        assert_eq!(Mark::of(nix::unistd::getpid()), None);
    }
}
