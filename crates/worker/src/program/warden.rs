//! Looks at the memory that programs use, and kills those that use more than they may.

use std::{
    collections::HashMap,
    fs, io,
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Who is watched, and the thread that watches while anybody is.
#[derive(Default)]
struct Warden {
    watched: Mutex<HashMap<Pid, Watched>>,
    filled: Condvar,
}

struct Watched {
    max_bytes: u64,
    excess: Arc<OnceLock<String>>,
}

static WARDEN: LazyLock<&'static Warden> = LazyLock::new(|| {
    let warden: &'static Warden = Box::leak(Box::default());
    let started = thread::Builder::new().name("punctual-warden".into()).spawn(move || warden.look_on());
    if let Err(error) = started {
        tracing::error!(%error, "cannot start a thread; limits of programs are not enforced");
    }
    warden
});

/// Watches the group that a process leads from now on. What it uses more of than it may is told in `excess`, and it is killed.
pub(super) fn watch(leader: Pid, max_bytes: u64, excess: &Arc<OnceLock<String>>) {
    WARDEN.watched().insert(leader, Watched { max_bytes, excess: Arc::clone(excess) });
    WARDEN.filled.notify_one();
}

/// Watches it no longer.
pub(super) fn forget(leader: Pid) {
    WARDEN.watched().remove(&leader);
}

impl Warden {
    fn watched(&self) -> MutexGuard<'_, HashMap<Pid, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_on(&self) {
        loop {
            let empty = |watched: &mut HashMap<Pid, Watched>| watched.is_empty();
            drop(self.filled.wait_while(self.watched(), empty).unwrap_or_else(PoisonError::into_inner));
            self.look();
            thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&self) {
        let used = used_by_groups();
        for (leader, Watched { max_bytes, excess }) in &*self.watched() {
            let used_bytes = used.get(leader).copied().unwrap_or_default();
            if used_bytes > *max_bytes {
                let _ = excess.set(over(*max_bytes, used_bytes));
                let _ = killpg(*leader, Signal::SIGKILL);
            }
        }
    }
}

fn over(max_bytes: u64, used_bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    let (used, max) = (used_bytes.div_ceil(MIB), max_bytes / MIB);
    format!("memory: it used {used} MiB with all that it started, at most {max} MiB are allowed")
}

/// The memory that groups of processes have of their own.
fn used_by_groups() -> HashMap<Pid, u64> {
    let mut groups = HashMap::new();
    // One that ends meanwhile uses nothing.
    for (group, memory_bytes) in processes().filter_map(|process| group_and_memory(process).ok()) {
        *groups.entry(group).or_default() += memory_bytes;
    }
    groups
}

/// All processes of the machine, as far as it tells.
pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// A process's group, and the memory that it has of its own, in shares with others, and swapped out. What comes from files, such as its program's
/// text, does not count.
fn group_and_memory(process: Pid) -> io::Result<(Pid, u64)> {
    let strange = || io::Error::from(io::ErrorKind::InvalidData);
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name stands in parentheses and may contain anything.
    let group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2)).and_then(|text| text.parse().ok());
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib = |line: &str| -> Option<u64> {
        let (name, value) = line.split_once(':')?;
        let counts = ["RssAnon", "RssShmem", "VmSwap"].contains(&name);
        counts.then(|| value.split_whitespace().next()?.parse().ok()).flatten()
    };
    let memory_kib: u64 = status.lines().filter_map(kib).sum();
    Ok((Pid::from_raw(group.ok_or_else(strange)?), memory_kib << 10))
}

/// Whether a process was given this in its environment, as far as we may look.
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
        let (group, memory) = group_and_memory(own).unwrap();
        assert_eq!(group, nix::unistd::getpgrp());
        assert!(memory > 0);
    }
}
