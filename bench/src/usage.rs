//! What this process has used.

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
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in brackets may hold spaces; user and system time are the 14th and 15th field, in hundredths.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: f64 =
            after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        let machine = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        // The first line sums up all processors; the eighth figure in it is what was stolen.
        let stolen = machine.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse::<f64>().ok());
        Self {
            cpu_s: ticks / 100.0,
            peak_memory_mib: kib.unwrap_or_default() / 1024.0,
            stolen_s: stolen.unwrap_or_default() / 100.0,
        }
    }
}
