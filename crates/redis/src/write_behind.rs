//! Write-behind of executions: a job may start before the primary store knows. The start is recorded soon after, or
//! together with the end if the execution ends before that.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use punctual_core::{
    AttemptId, Claim, Ending, Settled, Settlement, StoreError, StoreResult,
    dispatch::{GRACE, PrimaryStore, Start},
};
use tokio::{
    sync::{Notify, watch},
    time::{self, Instant},
};

use crate::{keys::Namespace, locks::Locks, repairs::Repairs, scripts::Queue, server::Server};

/// How long an execution may last before its start is recorded on its own.
const RECORD_AFTER: Duration = Duration::from_millis(100);
/// Maximum number of executions that one statement records.
const STATEMENT_MAX_STARTS: usize = 1_000;
/// How long an abandoned or refused execution is remembered.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Retry interval while the primary store cannot be reached.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// An execution that the primary store does not know yet.
#[derive(Debug, Clone)]
pub(crate) struct Unrecorded {
    pub(crate) start: Start,
    /// The token of the claim that started it.
    pub(crate) token: Arc<str>,
    pub(crate) since: Instant,
}

impl Unrecorded {
    pub(crate) fn attempt(&self) -> AttemptId {
        AttemptId { job: self.start.hint.job, run: Start::RUN }
    }
}

/// Records executions in the primary store.
pub(crate) struct WriteBehind {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    repairs: Repairs,
    /// The servers on which jobs are locked until they are recorded, if `lock_jobs` is set.
    job_locks: Option<Locks>,
    state: Mutex<State>,
    filled: Notify,
    /// Only one task records at any time.
    recording: tokio::sync::Mutex<()>,
    /// Notified when an execution was lost: refused by the primary store, or given up.
    pub(crate) lost: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<AttemptId, Unrecorded>,
    /// Executions that were sent to the primary store and have no answer yet, each with its start time.
    recording: HashMap<AttemptId, Instant>,
    /// Executions that the primary store refused, each with its start time. They stay until their worker certainly
    /// knows.
    refused: HashMap<AttemptId, Instant>,
    /// Executions that were given up because they could not be recorded in time. If the worker ends one nevertheless
    /// and no other worker has claimed the job, that end counts.
    given_up: HashMap<AttemptId, Unrecorded>,
}

impl State {
    /// The primary store has answered for these executions, or cannot be reached.
    fn answered(&mut self, batch: &[Unrecorded]) {
        for one in batch {
            self.recording.remove(&one.attempt());
        }
    }

    /// The start time of an execution that the primary store may not know.
    fn unrecorded_since(&self, attempt: AttemptId) -> Option<Instant> {
        let Self { waiting, given_up, recording, refused } = self;
        let unrecorded = waiting.get(&attempt).or_else(|| given_up.get(&attempt)).map(|one| one.since);
        unrecorded.or_else(|| recording.get(&attempt).or_else(|| refused.get(&attempt)).copied())
    }
}

impl WriteBehind {
    pub(crate) fn new(
        primary: Arc<dyn PrimaryStore>,
        server: Server,
        namespace: Namespace,
        job_locks: Option<Locks>,
    ) -> Self {
        Self {
            repairs: Repairs::new(server.clone(), namespace.clone()),
            primary,
            server,
            namespace,
            job_locks,
            state: Mutex::default(),
            filled: Notify::new(),
            recording: tokio::sync::Mutex::default(),
            lost: watch::Sender::new(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds executions that begin.
    pub(crate) fn add(&self, begun: Vec<Unrecorded>) {
        self.state().waiting.extend(begun.into_iter().map(|one| (one.attempt(), one)));
        self.filled.notify_one();
    }

    /// Removes executions that will not begin after all, and returns them.
    pub(crate) fn remove(&self, attempts: impl IntoIterator<Item = AttemptId>) -> Vec<Unrecorded> {
        let mut state = self.state();
        attempts.into_iter().filter_map(|attempt| state.waiting.remove(&attempt)).collect()
    }

    /// Until when an unrecorded execution may last; `None` once it is recorded.
    pub(crate) fn unrecorded_until(&self, attempt: AttemptId) -> Option<Instant> {
        self.state().unrecorded_since(attempt).map(|since| since + GRACE)
    }

    /// The primary store handed out these claims itself: the state of older executions with the same run number no
    /// longer applies.
    pub(crate) fn claimed(&self, claims: &[Claim]) {
        let mut state = self.state();
        for attempt in claims.iter().map(Claim::attempt_id) {
            state.given_up.remove(&attempt);
            state.refused.remove(&attempt);
        }
    }

    /// Marks executions as being recorded: a settlement that arrives meanwhile waits.
    fn begin_recording(&self, batch: &[Unrecorded]) -> Vec<Unrecorded> {
        let mut state = self.state();
        let taken: Vec<Unrecorded> = batch.iter().filter_map(|one| state.waiting.remove(&one.attempt())).collect();
        state.recording.extend(taken.iter().map(|one| (one.attempt(), one.since)));
        taken
    }

    /// Records executions that have lasted long enough, until the task is aborted.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let oldest = self.state().waiting.values().map(|one| one.since).min();
            match oldest.map(|since| since + RECORD_AFTER) {
                None => self.filled.notified().await,
                Some(at) if at > Instant::now() => time::sleep_until(at).await,
                Some(_) => {
                    if self.record(RECORD_AFTER).await.is_err() {
                        time::sleep(RETRY_AFTER).await;
                    }
                }
            }
        }
    }

    /// Records all executions that have begun until now, so that the next query of the primary store includes them.
    pub(crate) async fn flush(self: &Arc<Self>) {
        if self.state().waiting.is_empty() {
            // Executions that are being recorded began before this call, too.
            return drop(self.recording.lock().await);
        }
        // On a task of its own: dropping the caller must not cancel half-done work. If the primary store cannot be
        // reached, the next operation reports it.
        let write_behind = Arc::clone(self);
        let _ = tokio::spawn(async move { write_behind.record(Duration::ZERO).await }).await;
    }

    /// Records these executions if the primary store does not know them: their worker may settle them through another
    /// process.
    pub(crate) async fn record_now(self: &Arc<Self>, attempts: Vec<AttemptId>) -> StoreResult<()> {
        let write_behind = Arc::clone(self);
        let record = async move {
            let _one = write_behind.recording.lock().await;
            let batch = attempts.iter().filter_map(|one| write_behind.state().waiting.get(one).cloned()).collect();
            write_behind.record_batch(batch).await
        };
        // On a task of its own: dropping the caller must not cancel half-done work.
        tokio::spawn(record).await.map_err(|_| StoreError::Closed)?
    }

    /// Records executions that have lasted at least `lasted`.
    async fn record(&self, lasted: Duration) -> StoreResult<()> {
        let _one = self.recording.lock().await;
        loop {
            let mut batch: Vec<Unrecorded> =
                self.state().waiting.values().filter(|one| one.since.elapsed() >= lasted).cloned().collect();
            if batch.is_empty() {
                return Ok(());
            }
            batch.truncate(STATEMENT_MAX_STARTS);
            self.record_batch(batch).await?;
        }
    }

    async fn record_batch(&self, batch: Vec<Unrecorded>) -> StoreResult<()> {
        let (late, batch): (Vec<_>, Vec<_>) = batch.into_iter().partition(|one| one.since.elapsed() >= GRACE);
        self.give_up(late).await;
        let batch = self.begin_recording(&batch);
        if batch.is_empty() {
            return Ok(());
        }
        let answers = match self.primary.begin(batch.iter().map(|one| one.start.clone()).collect()).await {
            Ok(answers) => answers,
            Err(error) => {
                let mut state = self.state();
                state.answered(&batch);
                state.waiting.extend(batch.into_iter().map(|one| (one.attempt(), one)));
                self.filled.notify_one();
                return Err(error);
            }
        };
        let refused: Vec<&Unrecorded> =
            batch.iter().zip(&answers).filter(|(_, right)| !**right).map(|(one, _)| one).collect();
        {
            let mut state = self.state();
            state.answered(&batch);
            state.refused.retain(|_, since| since.elapsed() < FORGOTTEN_AFTER);
            state.refused.extend(refused.iter().map(|one| (one.attempt(), one.since)));
        }
        if !refused.is_empty() {
            let warn = |one: &&Unrecorded| tracing::warn!(job = %one.start.hint.job, "the job changed as it was handed out; its execution does not count");
            refused.iter().for_each(warn);
            self.lost.send_replace(());
            self.repairs.count("executions refused by the primary store", refused.len()).await;
        }
        self.release(&batch).await;
        Ok(())
    }

    /// Gives up executions that could not be recorded in time: other workers may have claimed their jobs by now.
    async fn give_up(&self, late: Vec<Unrecorded>) {
        if late.is_empty() {
            return;
        }
        tracing::warn!(jobs = late.len(), "executions could not be recorded in time and are given up");
        let jobs = late.len();
        {
            let mut state = self.state();
            state.given_up.retain(|_, one| one.since.elapsed() < FORGOTTEN_AFTER);
            for one in late {
                state.waiting.remove(&one.attempt());
                state.given_up.insert(one.attempt(), one);
            }
        }
        self.lost.send_replace(());
        self.repairs.count("executions given up that could not be recorded in time", jobs).await;
    }

    /// Releases jobs in Redis that the primary store knows now.
    pub(crate) async fn release(&self, known: &[Unrecorded]) {
        let mut queues: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for one in known {
            let of_queue = queues.entry(one.start.hint.lane.queue.as_str()).or_default();
            of_queue.push((one.start.hint.job, &*one.token));
        }
        self.unlock(known).await;
        for (name, jobs) in queues {
            let queue = Queue { server: &self.server, namespace: &self.namespace, name, epoch: 0 };
            if let Err(error) = queue.release(&jobs, false).await {
                // The jobs are put back when the claim expires, and are found to be recorded then.
                tracing::debug!(%error, "cannot release jobs in Redis");
            }
        }
    }

    /// Frees the locks of jobs.
    async fn unlock(&self, jobs: &[Unrecorded]) {
        let Some(locks) = &self.job_locks else { return };
        for of_claim in jobs.chunk_by(|one, other| one.token == other.token) {
            let keys: Vec<String> = of_claim.iter().map(|one| self.namespace.job_lock(one.start.hint.job)).collect();
            locks.release(&keys, &of_claim[0].token).await;
        }
    }

    /// Settles executions, whether the primary store knows them or not.
    pub(crate) async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        let unrecorded = self.take(&settlements).await;
        if unrecorded.is_empty() {
            return self.primary.settle(settlements).await;
        }
        let settled = self.settle_unrecorded(&settlements, &unrecorded).await;
        if settled.is_err() {
            // The worker settles them again once the primary store can be reached.
            self.add(unrecorded.into_values().collect());
            return settled;
        }
        let known: Vec<Unrecorded> = unrecorded.into_values().collect();
        self.release(&known).await;
        settled
    }

    /// Takes the executions that are to be settled and are not recorded.
    async fn take(&self, settlements: &[Settlement]) -> HashMap<AttemptId, Unrecorded> {
        let take = || {
            let mut state = self.state();
            let State { waiting, given_up, .. } = &mut *state;
            let mut take = |settlement: &Settlement| {
                let fits = |one: &Unrecorded| one.start.worker == settlement.worker;
                let attempt = settlement.attempt;
                let of = if waiting.get(&attempt).is_some_and(fits) { &mut *waiting } else { &mut *given_up };
                of.get(&attempt).is_some_and(fits).then(|| of.remove(&attempt)).flatten()
            };
            settlements.iter().filter_map(|settlement| take(settlement).map(|one| (settlement.attempt, one))).collect()
        };
        let taken: HashMap<_, _> = take();
        if taken.len() == settlements.len() {
            return taken;
        }
        // The other executions may be being recorded: wait for that.
        drop(self.recording.lock().await);
        taken.into_iter().chain(take()).collect()
    }

    async fn settle_unrecorded(
        &self,
        settlements: &[Settlement],
        unrecorded: &HashMap<AttemptId, Unrecorded>,
    ) -> StoreResult<Vec<Settled>> {
        let simple = |one: &Settlement| one.ending == Ending::Succeed && !one.flow && !one.only_if_expired;
        let mut ends: HashMap<AttemptId, (Start, Settlement)> = HashMap::new();
        let mut seen = HashSet::new();
        // Of several settlements of the same execution, the first one counts, whatever its ending.
        for one in settlements.iter().filter(|one| seen.insert(one.attempt) && simple(one)) {
            if let Some(Unrecorded { start, .. }) = unrecorded.get(&one.attempt) {
                ends.insert(one.attempt, (start.clone(), one.clone()));
            }
        }
        let ends: Vec<(Start, Settlement)> = ends.into_values().collect();
        let mut done: HashMap<AttemptId, bool> = HashMap::new();
        if !ends.is_empty() {
            let attempts: Vec<AttemptId> = ends.iter().map(|(_, end)| end.attempt).collect();
            done =
                attempts.into_iter().zip(self.primary.finish(ends).await?).filter(|(_, finished)| *finished).collect();
        }
        // Executions that `finish` could not record in one statement are recorded step by step.
        let begun: Vec<Start> = unrecorded
            .iter()
            .filter(|(attempt, _)| !done.contains_key(attempt))
            .map(|(_, one)| one.start.clone())
            .collect();
        if !begun.is_empty() {
            self.primary.begin(begun).await?;
        }
        let left: Vec<Settlement> =
            settlements.iter().filter(|one| !done.contains_key(&one.attempt)).cloned().collect();
        let mut answers = if left.is_empty() { Vec::new() } else { self.primary.settle(left).await? }.into_iter();
        let answer = |one: &Settlement| match done.get_mut(&one.attempt) {
            // Of two settlements of the same execution, the first was applied.
            Some(unanswered) => {
                if std::mem::take(unanswered) {
                    Settled::Done
                } else {
                    Settled::Stale
                }
            }
            None => answers.next().unwrap_or(Settled::Stale),
        };
        Ok(settlements.iter().map(answer).collect())
    }
}
