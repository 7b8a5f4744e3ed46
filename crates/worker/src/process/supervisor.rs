//! Starts and restarts worker processes.

use std::{fmt, sync::Arc, time::Duration};

use punctual_client::Punctual;
use punctual_core::{Invalid, StoreError, StoreResult, WorkerId, check};
use tokio::{
    process::Command,
    task::{JoinSet, spawn_blocking},
    time,
};

use super::{
    child::{self, ChildExit, ChildRun},
    fleet::{Fleet, LogLine, MakeCommand},
};
use crate::{Stats, maintenance, program::kill_programs_of};

/// A process that sends no message for this time is killed.
const SILENCE: Duration = Duration::from_secs(10);
/// Initial and maximum pause before a process is restarted.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// The pause is reset after a process has lived for this time.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// Maximum number of consecutive failed starts of a process.
const STARTS_MAX_COUNT: u32 = 5;
/// How long to retry if the store fails while the jobs of a dead worker are released. After that, their leases expire.
const RELEASE_MAX: Duration = Duration::from_secs(10);
/// When the release is repeated.
const RELEASE_AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Settings of a supervisor: the command of its worker processes, and their number.
///
/// Each process is a program that opens its [link](super::Supervised) and works. The link is its standard input.
pub struct Supervisor {
    punctual: Punctual,
    command: MakeCommand,
    workers: usize,
    silence: Duration,
    log_line: LogLine,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("workers", &self.workers).finish()
    }
}

impl Supervisor {
    /// Runs `workers` worker processes on this store, each started by `command`. In addition, one process is started
    /// for suspects, and more as needed: jobs that were running when their process died run there, each alone in its
    /// process, so that another crash affects no other jobs.
    pub fn new(punctual: Punctual, workers: usize, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let log_line: LogLine = Arc::new(|line| tracing::info!(target: "punctual::child", "{line}"));
        Self { punctual, command: Box::new(command), workers, silence: SILENCE, log_line }
    }

    /// A process that sends no message for this time is killed; 10 s by default.
    #[must_use]
    pub const fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Called with each line that a process writes to its standard error; by default the line is logged.
    #[must_use]
    pub fn on_log_line(mut self, log_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log_line = Arc::new(log_line);
        self
    }

    /// Starts the processes.
    pub fn start(self) -> Result<RunningSupervisor, Invalid> {
        let Self { punctual, command, workers, silence, log_line } = self;
        check::range("workers", workers, 1..=1_000)?;
        let fleet = Arc::new(Fleet::new(punctual, (command, log_line), silence, workers));
        let mut tasks = JoinSet::new();
        for slot in 0..fleet.slots_count() {
            tasks.spawn(run_slot(Arc::clone(&fleet), slot));
        }
        Ok(RunningSupervisor { fleet, tasks })
    }
}

/// Keeps a process running in one slot.
async fn run_slot(fleet: Arc<Fleet>, slot: usize) {
    let (mut pause, mut failed_starts) = (BACKOFF.0, 0);
    while fleet.draining.run_until_cancelled(fleet.until_wanted(slot)).await.is_some() {
        let ChildRun { worker, end, lasted } = child::run(&fleet, slot).await;
        if fleet.has_failed() {
            // The jobs cannot be released, and another process on the same disk would fail, too.
            return;
        }
        if let Some(worker) = worker {
            release_jobs_of_dead(&fleet, worker, &end).await;
        }
        if fleet.draining.is_cancelled() {
            return;
        }
        failed_starts = if worker.is_some() { 0 } else { failed_starts + 1 };
        // If a process was able to start before, another one will be once the cause of the failure is gone.
        let has_worked = fleet.has_worked(worker.is_some());
        if failed_starts >= STARTS_MAX_COUNT && !has_worked {
            tracing::error!(slot, reason = %end, "gave up a worker process that cannot start");
            fleet.give_up(slot, end.to_string());
            return;
        }
        // Processes for suspects are expected to die.
        let expected = fleet.is_for_suspects(slot) && worker.is_some();
        if expected || lasted >= STABLE_AFTER || matches!(end, ChildExit::InOrder) {
            pause = BACKOFF.0;
        }
        if fleet.is_for_suspects(slot) && matches!(end, ChildExit::InOrder) {
            tracing::debug!(slot, "ended an idle worker process for suspects");
            continue;
        }
        let restart_ms = pause.as_millis() as u64;
        tracing::warn!(slot, worker = ?worker.map(|id| id.to_string()), reason = %end, restart_ms, "worker process ended");
        let _ = fleet.draining.run_until_cancelled(time::sleep(pause)).await;
        pause = (2 * pause).min(BACKOFF.1);
    }
}

/// Releases the jobs of a dead worker now, instead of when their leases expire.
async fn release_jobs_of_dead(fleet: &Arc<Fleet>, worker: WorkerId, end: &ChildExit) {
    if matches!(end, ChildExit::InOrder) {
        return;
    }
    // All processes of its programs must have ended before its jobs run elsewhere.
    let killed = spawn_blocking(move || kill_programs_of(worker)).await.unwrap_or(0);
    if killed > 0 {
        tracing::warn!(%worker, processes = killed, "killed processes left by programs of a dead worker");
    }
    let evidence = format!("its process ended: {end}");
    let release = async {
        while let Err(error) = release_jobs(fleet, worker, &evidence).await {
            tracing::warn!(%worker, %error, "cannot release the jobs of a dead worker yet; retrying");
            time::sleep(BACKOFF.0).await;
        }
    };
    let _ = time::timeout(RELEASE_MAX, release).await;
    tokio::spawn(release_again(Arc::clone(fleet), worker, evidence));
}

/// Repeats the release: requests that the worker sent just before its death may have been executed after it.
async fn release_again(fleet: Arc<Fleet>, worker: WorkerId, evidence: String) {
    for pause in RELEASE_AGAIN_AFTER {
        time::sleep(pause).await;
        if let Err(error) = release_jobs(&fleet, worker, &evidence).await {
            tracing::warn!(%worker, %error, "cannot search again for jobs of a dead worker; their leases will expire");
        }
    }
}

async fn release_jobs(fleet: &Fleet, worker: WorkerId, evidence: &str) -> StoreResult<()> {
    let store = fleet.punctual.store();
    // Leases are ended last: any worker may settle an expired lease, but only the supervisor knows why the worker died.
    let jobs = maintenance::reap_dead(&**store, worker, evidence).await?;
    let leases = store.end_leases(worker).await?;
    if jobs + leases > 0 {
        tracing::warn!(%worker, jobs, leases, "released the jobs of a dead worker");
    }
    store.deregister(worker).await
}

/// Running worker processes and the tasks that manage them. Dropping it without [`stop`](Self::stop) kills them.
pub struct RunningSupervisor {
    fleet: Arc<Fleet>,
    tasks: JoinSet<()>,
}

impl fmt::Debug for RunningSupervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningSupervisor").field("working", &self.working()).finish()
    }
}

impl RunningSupervisor {
    /// Number of working processes, not counting those for suspects.
    pub fn working(&self) -> usize {
        self.fleet.working()
    }

    /// Statistics of all processes together, as last reported.
    pub fn stats(&self) -> Stats {
        self.fleet.stats()
    }

    /// Returns a function that reads the statistics, which outlives this value.
    pub fn watch_stats(&self) -> impl Fn() -> Stats + use<> {
        let fleet = Arc::clone(&self.fleet);
        move || fleet.stats()
    }

    /// Waits until every process has been given up because none could start, and returns the last reason. Never returns
    /// if a process was able to start.
    pub async fn given_up(&mut self) -> String {
        while !self.fleet.is_given_up() && self.tasks.join_next().await.is_some() {}
        match self.fleet.why_given_up() {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Waits until the store has failed permanently, here or in one of the processes, and returns the error. Never
    /// returns with most engines.
    pub fn failed(&self) -> impl Future<Output = StoreError> + use<> {
        let fleet = Arc::clone(&self.fleet);
        async move {
            tokio::select! {
                error = fleet.failed() => error,
                error = fleet.punctual.store().failed() => error,
            }
        }
    }

    /// Stops gracefully: every process claims no more jobs, finishes those that run, releases the rest, and exits.
    /// Returns the statistics of all processes.
    ///
    /// If `now` completes, the processes are killed and their jobs released.
    pub async fn stop(mut self, now: impl Future<Output = ()>) -> Stats {
        self.fleet.draining.cancel();
        tokio::select! {
            () = self.all_ended() => {}
            () = now => {
                self.fleet.ending_now.cancel();
                self.all_ended().await;
            }
        }
        self.stats()
    }

    async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
