//! Resource usage of this process, and disturbances of the machine meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// CPU and memory usage, as reported by the kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_s: f64,
    pub(crate) peak_memory_mib: f64,
    /// Steal time: time that other guests of the machine took from its processors.
    pub(crate) stolen_s: f64,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let ticks: u64 = stat(std::process::id()).into_iter().flatten().skip(11).take(2).sum();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        let machine = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        // The first line is the sum over all processors; its eighth figure is the steal time.
        let stolen = machine.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
        Self {
            cpu_s: ticks as f64 / 100.0,
            peak_memory_mib: kib.unwrap_or_default() / 1024.0,
            stolen_s: stolen.unwrap_or_default() / 100.0,
        }
    }
}

/// The processor time of a server on this machine, with all its processes. `main` is the process that started the
/// others.
pub(crate) fn server_cpu_s(main: u32) -> f64 {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Fields after the name: the 2nd is the parent, the 12th and 13th are the process's own time, the next two are the
    // time of children that have ended.
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

/// The fields of the kernel's status line of a process, after its name; a field that is not a number is 0.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = line.rsplit_once(')')?;
    Some(rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect())
}

/// A thread that only sleeps and wakes, 200 times per second, to measure how late the machine itself is.
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
            let (mut heartbeat, mut millis) = (Instant::now(), Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                heartbeat += Self::BEAT;
                thread::sleep(heartbeat.saturating_duration_since(Instant::now()));
                millis.push(heartbeat.elapsed().as_secs_f64() * 1e3);
            }
            millis
        });
        Self { stop, thread }
    }

    /// Stops the thread; returns the lateness of each heartbeat, in milliseconds, sorted.
    pub(crate) fn stop(self) -> Vec<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut millis = self.thread.join().unwrap_or_default();
        millis.sort_by(f64::total_cmp);
        millis
    }
}
