//! The processes of the machine, as Linux shows them.

use std::fs;

use nix::unistd::Pid;

/// Number of processes with this variable, `NAME=value`, in their environment.
pub fn processes_with(variable: &str) -> usize {
    processes_whose("environ", variable).len()
}

/// Processes with this argument.
pub fn processes_called(argument: &str) -> Vec<Pid> {
    processes_whose("cmdline", argument)
}

/// Processes with this entry in one of their lists. A process that has ended meanwhile has none.
fn processes_whose(list: &str, expected: &str) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    let has_it = |pid: &Pid| {
        let entries = fs::read(format!("/proc/{pid}/{list}")).unwrap_or_default();
        entries.split(|byte| *byte == 0).any(|entry| entry == expected.as_bytes())
    };
    pids.filter(has_it).collect()
}
