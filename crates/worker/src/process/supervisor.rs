//! Keeps worker processes running.

use std::{fmt, sync::Arc, time::Duration};

use punctual_client::Punctual;
use punctual_core::{Invalid, StoreError, StoreResult, WorkerId, check};
use tokio::{
    process::Command,
    task::{JoinSet, spawn_blocking},
    time,
};

use super::{
    child::{self, End, Life},
    fleet::{Fleet, LogLine, MakeCommand},
};
use crate::{Stats, maintenance, program::kill_programs_of};

/// A process that says nothing for so long is killed.
const SILENCE: Duration = Duration::from_secs(10);
/// The first and the longest pause before a process is started again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// A process that worked for so long is started again at once.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// So many times in a row may a process fail to start.
const STARTS_MAX_COUNT: u32 = 5;
/// How long the store is tried for when a dead worker's jobs are to be given back. Their leases run out as well.
const BURIAL_MAX: Duration = Duration::from_secs(10);
/// When the jobs of a dead worker are looked for again.
const LOOK_AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Settings of a supervisor: what its processes are, and how many.
///
/// Each is a program that takes up its [link](super::Supervised) and works. It gets the link as its standard input.
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
    /// So many worker processes on that store, each started by that command. One more is started for suspects, and
    /// others as they are needed: jobs that were running when their process died run there, each alone in its process,
    /// so that they take no other jobs with them.
    pub fn new(punctual: Punctual, workers: usize, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let log_line: LogLine = Arc::new(|line| tracing::info!(target: "punctual::child", "{line}"));
        Self { punctual, command: Box::new(command), workers, silence: SILENCE, log_line }
    }

    /// How long a process may say nothing before it is killed; 10 s by default.
    #[must_use]
    pub const fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// What is done with each line that a process writes to its standard error; it is logged by default.
    #[must_use]
    pub fn on_log_line(mut self, log_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log_line = Arc::new(log_line);
        self
    }

    /// Starts them.
    pub fn start(self) -> Result<RunningSupervisor, Invalid> {
        let Self { punctual, command, workers, silence, log_line } = self;
        check::range("workers", workers, 1..=1_000)?;
        let fleet = Arc::new(Fleet::new(punctual, (command, log_line), silence, workers));
        let mut keepers = JoinSet::new();
        for slot in 0..fleet.slots_count() {
            keepers.spawn(keep(Arc::clone(&fleet), slot));
        }
        Ok(RunningSupervisor { fleet, keepers })
    }
}

/// Keeps one slot filled.
async fn keep(fleet: Arc<Fleet>, slot: usize) {
    let (mut pause, mut failed_starts) = (BACKOFF.0, 0);
    while fleet.draining.run_until_cancelled(fleet.until_wanted(slot)).await.is_some() {
        let Life { worker, end, lasted } = child::live(&fleet, slot).await;
        if fleet.has_failed() {
            // Nothing can be given back, and another process on the same disk would do no better.
            return;
        }
        if let Some(worker) = worker {
            bury(&fleet, worker, &end).await;
        }
        if fleet.draining.is_cancelled() {
            return;
        }
        failed_starts = if worker.is_some() { 0 } else { failed_starts + 1 };
        // Where one could start, another can, as soon as what is wrong is right again.
        let has_worked = fleet.has_worked(worker.is_some());
        if failed_starts >= STARTS_MAX_COUNT && !has_worked {
            tracing::error!(slot, reason = %end, "a worker process cannot start at all and is given up");
            fleet.give_up(slot, end.to_string());
            return;
        }
        // What runs suspects is there to be killed.
        let expected = fleet.is_for_suspects(slot) && worker.is_some();
        if expected || lasted >= LONG_LIFE || matches!(end, End::InOrder) {
            pause = BACKOFF.0;
        }
        if fleet.is_for_suspects(slot) && matches!(end, End::InOrder) {
            tracing::debug!(slot, "a worker process for suspects was not needed any more and has ended");
            continue;
        }
        let restart_ms = pause.as_millis() as u64;
        tracing::warn!(slot, worker = ?worker.map(|id| id.to_string()), reason = %end, restart_ms, "a worker process has ended");
        let _ = fleet.draining.run_until_cancelled(time::sleep(pause)).await;
        pause = (2 * pause).min(BACKOFF.1);
    }
}

/// Has others take the jobs of a worker that has died, now rather than when its leases run out.
async fn bury(fleet: &Arc<Fleet>, worker: WorkerId, end: &End) {
    if matches!(end, End::InOrder) {
        return;
    }
    // Before its jobs run elsewhere, nothing of it may run.
    let killed = spawn_blocking(move || kill_programs_of(worker)).await.unwrap_or(0);
    if killed > 0 {
        tracing::warn!(%worker, processes = killed, "killed what the programs of a dead worker had left behind");
    }
    let evidence = format!("its process ended: {end}");
    let bury = async {
        while let Err(error) = give_back(fleet, worker, &evidence).await {
            tracing::warn!(%worker, %error, "cannot give back the jobs of a dead worker yet");
            time::sleep(BACKOFF.0).await;
        }
    };
    let _ = time::timeout(BURIAL_MAX, bury).await;
    tokio::spawn(look_again(Arc::clone(fleet), worker, evidence));
}

/// What the dead worker had asked for a moment before may have been done after its leases were ended.
async fn look_again(fleet: Arc<Fleet>, worker: WorkerId, evidence: String) {
    for pause in LOOK_AGAIN_AFTER {
        time::sleep(pause).await;
        if let Err(error) = give_back(&fleet, worker, &evidence).await {
            tracing::warn!(%worker, %error, "cannot look again for jobs of a dead worker; their leases will run out");
        }
    }
}

async fn give_back(fleet: &Fleet, worker: WorkerId, evidence: &str) -> StoreResult<()> {
    let store = fleet.punctual.store();
    // Leases end last: whoever sees that one has ended settles it, and only we know why.
    let jobs = maintenance::reap_dead(&**store, worker, evidence).await?;
    let leases = store.end_leases(worker).await?;
    if jobs + leases > 0 {
        tracing::warn!(%worker, jobs, leases, "gave back the jobs of a dead worker");
    }
    store.deregister(worker).await
}

/// Worker processes, and who looks after them. Dropped without [`stop`](Self::stop), it kills them.
pub struct RunningSupervisor {
    fleet: Arc<Fleet>,
    keepers: JoinSet<()>,
}

impl fmt::Debug for RunningSupervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningSupervisor").field("working", &self.working()).finish()
    }
}

impl RunningSupervisor {
    /// How many of its processes work, but for those for suspects.
    pub fn working(&self) -> usize {
        self.fleet.working()
    }

    /// What all of them have done so far, as far as they have said.
    pub fn stats(&self) -> Stats {
        self.fleet.stats()
    }

    /// What tells that, whoever has the supervisor by then.
    pub fn watch_stats(&self) -> impl Fn() -> Stats + use<> {
        let fleet = Arc::clone(&self.fleet);
        move || fleet.stats()
    }

    /// Waits until every process has been given up, and says why the last one was. Never, if one can work.
    pub async fn given_up(&mut self) -> String {
        while !self.fleet.is_given_up() && self.keepers.join_next().await.is_some() {}
        match self.fleet.why_given_up() {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Waits until the store has failed for good, here or in one of the processes, and says why. Never, on most
    /// engines.
    pub fn failed(&self) -> impl Future<Output = StoreError> + use<> {
        let fleet = Arc::clone(&self.fleet);
        async move {
            tokio::select! {
                error = fleet.failed() => error,
                error = fleet.punctual.store().failed() => error,
            }
        }
    }

    /// Stops gracefully: every process claims no more, ends what it runs, gives back the rest, and ends. Says what all
    /// have done.
    ///
    /// If `now` fires, they are killed, and their jobs given back.
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
        while self.keepers.join_next().await.is_some() {}
    }
}
