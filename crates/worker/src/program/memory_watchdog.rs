//! Measures the memory of programs, and kills those that exceed their limit.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::mark::Mark;

/// Interval of the measurements.
const MEASURE_INTERVAL: Duration = Duration::from_millis(50);

/// The watched programs, and the thread that watches while there are any.
#[derive(Default)]
struct MemoryWatchdog {
    watched: Mutex<HashMap<Pid, Watched>>,
    filled: Condvar,
}

struct Watched {
    mark: Mark,
    max_bytes: u64,
    excess: Arc<OnceLock<String>>,
}

static WATCHDOG: LazyLock<&'static MemoryWatchdog> = LazyLock::new(|| {
    let watchdog: &'static MemoryWatchdog = Box::leak(Box::default());
    let started = thread::Builder::new().name("punctual-memory".into()).spawn(move || watchdog.run());
    if let Err(error) = started {
        tracing::error!(%error, "cannot start a thread; limits of programs are not enforced");
    }
    watchdog
});

/// Watches a program: the process group of its leader, and all processes with its mark. If they exceed the limit, all
/// of them are killed, and `excess` is set to a description.
pub(super) fn watch(leader: Pid, mark: Mark, max_bytes: u64, excess: &Arc<OnceLock<String>>) {
    WATCHDOG.watched().insert(leader, Watched { mark, max_bytes, excess: Arc::clone(excess) });
    WATCHDOG.filled.notify_one();
}

/// Stops watching a program.
pub(super) fn forget(leader: Pid) {
    WATCHDOG.watched().remove(&leader);
}

impl MemoryWatchdog {
    fn watched(&self) -> MutexGuard<'_, HashMap<Pid, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let empty = |watched: &mut HashMap<Pid, Watched>| watched.is_empty();
            drop(self.filled.wait_while(self.watched(), empty).unwrap_or_else(PoisonError::into_inner));
            self.measure();
            thread::sleep(MEASURE_INTERVAL);
        }
    }

    fn measure(&self) {
        let leaders: HashMap<Mark, Pid> = self.watched().iter().map(|(leader, one)| (one.mark, *leader)).collect();
        let programs = processes_of(&leaders);
        for (leader, Watched { max_bytes, excess, .. }) in &*self.watched() {
            let processes = programs.get(leader).map_or(&[][..], Vec::as_slice);
            let used_bytes: u64 = processes.iter().map(|process| memory_bytes(*process)).sum();
            if used_bytes > *max_bytes {
                let _ = excess.set(over(*max_bytes, used_bytes));
                for process in processes {
                    let _ = kill(*process, Signal::SIGKILL);
                }
            }
        }
    }
}

fn over(max_bytes: u64, used_bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    let (used, max) = (used_bytes.div_ceil(MIB), max_bytes / MIB);
    format!("memory: the program and its descendants used {used} MiB, at most {max} MiB are allowed")
}

/// The processes of each watched program, by its leader: those with its mark, and those of its group.
fn processes_of(leaders: &HashMap<Mark, Pid>) -> HashMap<Pid, Vec<Pid>> {
    let mut programs: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for process in processes() {
        let marked = Mark::of(process).and_then(|mark| leaders.get(&mark).copied());
        if let Some(leader) = marked.or_else(|| stat(process).map(|stat| stat.group)) {
            programs.entry(leader).or_default().push(process);
        }
    }
    programs
}

/// All processes of the machine that are visible.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// The fields of `/proc/<pid>/stat` that are used.
struct Stat {
    state: char,
    group: Pid,
}

/// `None` if the process has ended.
fn stat(process: Pid) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may contain any character.
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    let state = rest.next()?.chars().next()?;
    Some(Stat { state, group: Pid::from_raw(rest.nth(1)?.parse().ok()?) })
}

/// Whether a process has ended, with or without being waited for.
pub(super) fn is_zombie(process: Pid) -> bool {
    stat(process).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'))
}

/// The memory of a process: private memory, a proportional part of shared memory, and swapped memory. Mapped files,
/// such as the program's text, do not count. A process that has ended uses none.
fn memory_bytes(process: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kib = |line: &str| -> Option<u64> {
        let (name, value) = line.split_once(':')?;
        let counts = ["RssAnon", "RssShmem", "VmSwap"].contains(&name);
        counts.then(|| value.split_whitespace().next()?.parse().ok()).flatten()
    };
    status.lines().filter_map(kib).sum::<u64>() << 10
}

/// Whether a process has this variable in its environment, if we may read that.
pub(super) fn has_in_environment(process: Pid, variable: &str) -> bool {
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_found_with_its_group_and_memory() {
        let own = nix::unistd::getpid();
        assert!(processes().any(|process| process == own));
        assert_eq!(stat(own).unwrap().group, nix::unistd::getpgrp());
        assert!(memory_bytes(own) > 0 && !is_zombie(own));
    }
}
