//! Worker processes that the verification starts, kills and suspends.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use punctual::{Context, Failure, Punctual, RunningWorker, Worker};
use tokio::io::AsyncReadExt;

use crate::record::{Recorder, now_us};

/// The lease of the worker processes: short, so that lost jobs are executed again soon.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// The job name of all jobs.
pub(crate) const JOB: &str = "verify";
/// Concurrency of each worker process.
const CONCURRENCY: usize = 20;
/// Maximum duration of a handler.
const HANDLER_MAX_MS: u64 = 100;
/// The environment variable with the folder of the record.
const FOLDER: &str = "PUNCTUAL_VERIFY_FOLDER";

/// The main function of a worker process. It ends when the process that started it ends, which holds the other end of
/// its standard input.
pub async fn work(url: &str) -> Result<()> {
    let folder = std::env::var_os(FOLDER).context("--worker is for processes that `punctual verify` starts")?;
    let recorder = Arc::new(Recorder::open(Path::new(&folder))?);
    // The server may refuse connections temporarily.
    let _worker = loop {
        match start(url, recorder.clone()).await {
            Ok(worker) => break worker,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let _ = tokio::io::stdin().read(&mut [0]).await;
    Ok(())
}

async fn start(url: &str, recorder: Arc<Recorder>) -> Result<RunningWorker, punctual::Error> {
    let punctual = Punctual::connect(url).await?;
    let worker = Worker::builder(punctual).handler(JOB, move |ctx: Context| {
        let recorder = recorder.clone();
        async move {
            let (job, run) = (ctx.id(), ctx.claim().job.run);
            recorder.start(job, run);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..HANDLER_MAX_MS))).await;
            recorder.end(job, run);
            let failures: u32 = ctx.claim().job.spec.payload.read().unwrap_or(0);
            if ctx.attempt() <= failures { Err(Failure::new("as planned")) } else { Ok(None) }
        }
    });
    worker.concurrency(CONCURRENCY).lease(LEASE).start().await
}

/// An interval in which a process did not run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interruption {
    pub(crate) process: u32,
    /// Just before the process was killed or suspended.
    pub(crate) from: u64,
    /// Just after the process was resumed; never, if it was killed.
    pub(crate) until: u64,
}

/// The worker processes of a verification.
pub(crate) struct Workers {
    program: PathBuf,
    url: String,
    folder: PathBuf,
    processes: Vec<Process>,
    pub(crate) interruptions: Vec<Interruption>,
}

impl Workers {
    pub(crate) fn start(program: &Path, url: &str, folder: &Path, count: usize) -> Result<Self> {
        let (program, url, folder) = (program.to_owned(), url.to_owned(), folder.to_owned());
        let mut workers = Self { program, url, folder, processes: Vec::new(), interruptions: Vec::new() };
        for _ in 0..count {
            workers.start_one()?;
        }
        Ok(workers)
    }

    fn start_one(&mut self) -> Result<()> {
        // The address may contain a password, and every user could read it among the arguments.
        let child = Command::new(&self.program)
            .args(["verify", "--worker"])
            .env("PUNCTUAL_STORE", &self.url)
            .env_remove("PUNCTUAL_DISPATCH")
            .env_remove("PUNCTUAL_LOCKS")
            .env_remove("PUNCTUAL_LOCK_JOBS")
            .env_remove("PUNCTUAL_STORE_FILE")
            .env_remove("PUNCTUAL_DISPATCH_FILE")
            .env_remove("PUNCTUAL_LOCKS_FILE")
            .env(FOLDER, &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.processes.push(Process(child.context("cannot start a worker process")?));
        Ok(())
    }

    /// Kills one process, and starts another.
    pub(crate) fn kill_one(&mut self, rng: &mut fastrand::Rng) -> Result<()> {
        let killed = self.processes.swap_remove(rng.usize(..self.processes.len()));
        self.interruptions.push(Interruption { process: killed.0.id(), from: now_us(), until: u64::MAX });
        drop(killed);
        self.start_one()
    }

    /// Suspends one process for a while.
    pub(crate) async fn suspend_one(&mut self, rng: &mut fastrand::Rng, pause: Duration) -> Result<()> {
        let process = &self.processes[rng.usize(..self.processes.len())];
        let from = now_us();
        process.signal(Signal::SIGSTOP)?;
        tokio::time::sleep(pause).await;
        self.interruptions.push(Interruption { process: process.0.id(), from, until: now_us() });
        process.signal(Signal::SIGCONT)
    }
}

/// Killed when dropped.
struct Process(Child);

impl Process {
    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.0.id()).context("process id out of range")?;
        kill(Pid::from_raw(pid), signal).context("cannot signal a worker process")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
