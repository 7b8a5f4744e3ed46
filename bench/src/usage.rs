//! What this process has used, and how steady the machine was meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// CPU and memory, from the kernel's books.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_s: f64,
    pub(crate) peak_memory_mib: f64,
    /// Time that the machine's other guests took from its processors.
    pub(crate) stolen_s: f64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let ticks: u64 = stat(std::process::id()).into_iter().flatten().skip(11).take(2).sum();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        let machine = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        // The first line sums up all processors; the eighth figure in it is what was stolen.
        let stolen = machine.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
        Self {
            cpu_s: ticks as f64 / 100.0,
            peak_memory_mib: kib.unwrap_or_default() / 1024.0,
            stolen_s: stolen.unwrap_or_default() / 100.0,
        }
    }
}

/// The processor time that a server on this machine has used, with all its processes. `main` is the process that
/// started them.
pub(crate) fn server_cpu_s(main: u32) -> f64 {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Fields after the name: the parent is the 2nd, own time the 12th and 13th, that of children that have ended the
    // next two.
    let ticks = |fields: &[u64], many| fields.iter().skip(11).take(many).sum::<u64>();
    let used = |pid: u32| {
        let fields = stat(pid)?;
        match (pid == main, fields.get(1) == Some(&u64::from(main))) {
            (true, _) => Some(ticks(&fields, 4)),
            (_, true) => Some(ticks(&fields, 2)),
            _ => None,
        }
    };
    pids.filter_map(used).sum::<u64>() as f64 / 100.0
}

/// The process that started `pid`, if both run on this machine and are the same program.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let parent = u32::try_from(*stat(pid)?.get(1)?).ok()?;
    (name(pid)? == name(parent)?).then_some(parent)
}

/// The numbers in the kernel's line about a process, after its name; 0 where there is none.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = line.rsplit_once(')')?;
    Some(rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect())
}

/// A thread that only sleeps and wakes, two hundred times a second: how late the machine itself is.
pub(crate) struct Metronome {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<f64>>,
}

impl Metronome {
    const BEAT: Duration = Duration::from_millis(5);

    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let (mut beat, mut millis) = (Instant::now(), Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                beat += Self::BEAT;
                thread::sleep(beat.saturating_duration_since(Instant::now()));
                millis.push(beat.elapsed().as_secs_f64() * 1e3);
            }
            millis
        });
        Self { stop, thread }
    }

    /// How late each beat was, in milliseconds, sorted.
    pub(crate) fn stop(self) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut millis = self.thread.join().unwrap_or_default();
        millis.sort_by(f64::total_cmp);
        millis
    }
}
