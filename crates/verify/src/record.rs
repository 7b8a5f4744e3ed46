//! The record that worker processes write outside the store: the start and end of each execution, by a clock that all
//! processes of the machine share.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use punctual::JobId;

/// Microseconds of the machine's monotonic clock.
pub(crate) fn now_us() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000 + time.tv_nsec() as u64 / 1_000)
}

/// The path of the record in a folder.
pub(crate) fn file(folder: &Path) -> PathBuf {
    folder.join("executions")
}

/// Writes to the record. Each line is one write in append mode, so that lines of different processes are not mixed.
#[derive(Debug)]
pub(crate) struct Recorder(Mutex<File>);

impl Recorder {
    pub(crate) fn open(folder: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(file(folder));
        Ok(Self(Mutex::new(file.context("cannot open the record of executions")?)))
    }

    /// Records the start of an execution.
    pub(crate) fn start(&self, job: JobId, run: u32) {
        self.write("start", job, run);
    }

    /// Records the end of an execution.
    pub(crate) fn end(&self, job: JobId, run: u32) {
        self.write("end", job, run);
    }

    fn write(&self, what: &str, job: JobId, run: u32) {
        let line = format!("{what} {job} {run} {} {}\n", std::process::id(), now_us());
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_all(line.as_bytes()).is_err() {
            // Without a record, nothing can be judged: abort, so that running executions count as lost.
            std::process::abort();
        }
    }
}

/// One execution of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) job: JobId,
    pub(crate) run: u32,
    /// The process id of the worker.
    pub(crate) process: u32,
    pub(crate) start: u64,
    /// `None` if the process was killed before the end.
    pub(crate) end: Option<u64>,
}

/// Reads the executions of a record, in the order of their starts.
pub(crate) fn read(folder: &Path) -> Result<Vec<Execution>> {
    let text = std::fs::read_to_string(file(folder)).context("cannot read the record of executions")?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Execution> {
    let mut executions: Vec<Execution> = Vec::new();
    let mut open: HashMap<(JobId, u32, u32), usize> = HashMap::new();
    for line in text.lines() {
        let Some((what, job, run, process, at)) = fields(line) else { continue };
        if what == "start" {
            open.insert((job, run, process), executions.len());
            executions.push(Execution { job, run, process, start: at, end: None });
        } else if let Some(index) = open.remove(&(job, run, process)) {
            executions[index].end = Some(at);
        }
    }
    executions.sort_by_key(|execution| execution.start);
    executions
}

fn fields(line: &str) -> Option<(&str, JobId, u32, u32, u64)> {
    let mut fields = line.split(' ');
    let what = fields.next()?;
    let job = fields.next()?.parse().ok()?;
    let mut numbers = fields.map_while(|field| field.parse::<u64>().ok());
    let (run, process, at) = (numbers.next()?, numbers.next()?, numbers.next()?);
    Some((what, job, run.try_into().ok()?, process.try_into().ok()?, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_and_ends_of_one_execution_belong_together() {
        let job = JobId::from_bits(7);
        let text = format!("start {job} 1 10 100\nstart {job} 2 11 300\nend {job} 1 10 200\nstart {job}");
        let execution = |run, process, start, end| Execution { job, run, process, start, end };
        assert_eq!(parse(&text), [execution(1, 10, 100, Some(200)), execution(2, 11, 300, None)]);
    }
}
