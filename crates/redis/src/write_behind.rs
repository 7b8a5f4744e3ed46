//! Executions of which the primary store does not know yet. They are recorded soon; with their end in one go, if they
//! end before.

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

/// How long an execution may last before it is recorded by itself.
const RECORD_AFTER: Duration = Duration::from_millis(100);
/// Executions that one statement records.
const STATEMENT_MAX_STARTS: usize = 1_000;
/// How long an execution that was given up is remembered.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// How soon to try again when the primary store cannot be reached.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// An execution of which the primary store does not know.
#[derive(Debug, Clone)]
pub(crate) struct Unrecorded {
    pub(crate) start: Start,
    /// The token of the claim that brought it.
    pub(crate) token: Arc<str>,
    pub(crate) since: Instant,
}

impl Unrecorded {
    pub(crate) fn attempt(&self) -> AttemptId {
        AttemptId { job: self.start.hint.job, run: Start::RUN }
    }
}

/// Records executions.
pub(crate) struct WriteBehind {
    primary: Arc<dyn PrimaryStore>,
    server: Server,
    namespace: Namespace,
    repairs: Repairs,
    /// Where jobs are locked until they are recorded, if they are.
    job_locks: Option<Locks>,
    state: Mutex<State>,
    filled: Notify,
    /// One records for all.
    recording: tokio::sync::Mutex<()>,
    /// Somebody has lost an execution.
    pub(crate) lost: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<AttemptId, Unrecorded>,
    /// Those that the primary store has been told of and that it has not answered for, with the time since when they
    /// last.
    recording: HashMap<AttemptId, Instant>,
    /// Those that the primary store has refused, likewise. They stay until their worker has certainly heard of it.
    refused: HashMap<AttemptId, Instant>,
    /// Those that were given up because they could not be recorded in time. If their worker has ended them all the
    /// same, and nobody has taken their jobs, that counts.
    given_up: HashMap<AttemptId, Unrecorded>,
}

impl State {
    /// The primary store has answered for these, or cannot be reached.
    fn answered(&mut self, batch: &[Unrecorded]) {
        for one in batch {
            self.recording.remove(&one.attempt());
        }
    }

    /// Since when an execution lasts of which the primary store does not know for certain.
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

    /// Executions begin.
    pub(crate) fn add(&self, begun: Vec<Unrecorded>) {
        self.state().waiting.extend(begun.into_iter().map(|one| (one.attempt(), one)));
        self.filled.notify_one();
    }

    /// They are not to begin after all.
    pub(crate) fn remove(&self, attempts: impl IntoIterator<Item = AttemptId>) -> Vec<Unrecorded> {
        let mut state = self.state();
        attempts.into_iter().filter_map(|attempt| state.waiting.remove(&attempt)).collect()
    }

    /// Until when an execution may last that is not recorded; nothing once it is.
    pub(crate) fn unrecorded_until(&self, attempt: AttemptId) -> Option<Instant> {
        self.state().unrecorded_since(attempt).map(|since| since + GRACE)
    }

    /// The primary store has handed out these itself: what was known of older executions of the same runs does not
    /// count any more.
    pub(crate) fn claimed(&self, claims: &[Claim]) {
        let mut state = self.state();
        for attempt in claims.iter().map(Claim::attempt_id) {
            state.given_up.remove(&attempt);
            state.refused.remove(&attempt);
        }
    }

    /// Takes executions to record them: a settlement that comes meanwhile waits.
    fn begin_recording(&self, batch: &[Unrecorded]) -> Vec<Unrecorded> {
        let mut state = self.state();
        let taken: Vec<Unrecorded> = batch.iter().filter_map(|one| state.waiting.remove(&one.attempt())).collect();
        state.recording.extend(taken.iter().map(|one| (one.attempt(), one.since)));
        taken
    }

    /// Records what lasts, for as long as anybody needs it.
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

    /// Records all that has begun until now, so that who asks the primary store next hears of it.
    pub(crate) async fn flush(self: &Arc<Self>) {
        if self.state().waiting.is_empty() {
            // What is being recorded was begun before, too.
            return drop(self.recording.lock().await);
        }
        // On a task of its own: what is half done must not be dropped. Whoever asks next will hear if the primary store
        // cannot be reached.
        let recorder = Arc::clone(self);
        let _ = tokio::spawn(async move { recorder.record(Duration::ZERO).await }).await;
    }

    /// Records these executions, if the primary store does not know of them: their worker may end them by way of
    /// another process.
    pub(crate) async fn record_now(self: &Arc<Self>, attempts: Vec<AttemptId>) -> StoreResult<()> {
        let recorder = Arc::clone(self);
        let record = async move {
            let _one = recorder.recording.lock().await;
            let batch = attempts.iter().filter_map(|one| recorder.state().waiting.get(one).cloned()).collect();
            recorder.record_batch(batch).await
        };
        // On a task of its own: what is half done must not be dropped.
        tokio::spawn(record).await.map_err(|_| StoreError::Closed)?
    }

    /// Records executions that have lasted for so long.
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

    /// Executions that could not be recorded in time: others may have them now.
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

    /// Lets go of what the primary store knows of now.
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
                // They are put back when nobody says anything of them, and found to be known then.
                tracing::debug!(%error, "cannot let go of jobs in Redis");
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

    /// Ends executions, whether the primary store knows of them or not.
    pub(crate) async fn settle(&self, settlements: Vec<Settlement>) -> StoreResult<Vec<Settled>> {
        let unrecorded = self.take(&settlements).await;
        if unrecorded.is_empty() {
            return self.primary.settle(settlements).await;
        }
        let settled = self.settle_unrecorded(&settlements, &unrecorded).await;
        if settled.is_err() {
            // They are settled again once the primary store can be reached.
            self.add(unrecorded.into_values().collect());
            return settled;
        }
        let known: Vec<Unrecorded> = unrecorded.into_values().collect();
        self.release(&known).await;
        settled
    }

    /// Takes the executions that are to be settled and not recorded.
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
        // The others may be being recorded.
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
        // Of several of the same execution the first counts, whatever it is.
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
        // What could not be recorded in one go is recorded step by step.
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
