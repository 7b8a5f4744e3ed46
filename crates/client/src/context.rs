//! What a handler knows of its job, and how it speaks of itself.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use punctual_core::{
    AttemptId, Claim, Error, Invalid, JobId, Json, LogLevel, LogLine, NewNotification, Occurrence, Progress,
    ProgressReport, Settled, StoreError, Trace, limits, redact,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::{Failure, ParentResult, Punctual, log_book::LogBook, parents, trace};

/// Where a handler's notes go; the worker brings it.
pub trait NoteSink: Send + Sync {
    /// Takes a note on its way to the store; says whether there was room for it.
    fn take(&self, note: ProgressReport) -> bool;

    /// The handler has extended the lease of its attempt, until then by this process's clock.
    fn extended(&self, _attempt: AttemptId, _lease_until: Instant) {}
}

/// Given to a handler with its payload. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    punctual: Punctual,
    claim: Claim,
    /// Made for whoever asks for it; most handlers end before anybody tells them to.
    signal: OnceLock<CancellationToken>,
    /// Whether the work should stop.
    stopped: AtomicBool,
    /// Whether it should have stopped already: the lease is over.
    lease_over: AtomicBool,
    notes: Arc<dyn NoteSink>,
    /// Locked until a line is in the sink, which so gets them in order.
    log: Mutex<Log>,
    progress: Mutex<ProgressPace>,
    /// Whether the handler has ended the job in a transaction of its own.
    completed: AtomicBool,
    /// What the job's parents returned, if it is handed over.
    parents: OnceLock<Vec<ParentResult>>,
}

/// How often an execution may say how far it has come: whoever says it all the time would crowd out the others.
struct ProgressPace {
    /// How many times it may at once.
    left: f64,
    since: Instant,
    /// What it said last and may not say yet.
    held: Option<Progress>,
}

impl ProgressPace {
    const AT_ONCE: f64 = 20.0;
    const PER_S: f64 = 10.0;

    fn new() -> Self {
        Self { left: Self::AT_ONCE, since: Instant::now(), held: None }
    }

    fn may_say(&mut self) -> bool {
        let passed = self.since.elapsed().as_secs_f64();
        (self.left, self.since) = ((self.left + passed * Self::PER_S).min(Self::AT_ONCE), Instant::now());
        let may = self.left >= 1.0;
        if may {
            (self.left, self.held) = (self.left - 1.0, None);
        }
        may
    }
}

struct Log {
    /// Lines below this level are not kept.
    level: LogLevel,
    book: LogBook,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.0.claim.attempt_id()).finish()
    }
}

impl Context {
    /// The context of one execution.
    pub fn new(punctual: Punctual, claim: Claim, notes: Arc<dyn NoteSink>) -> Self {
        let log = Log { level: claim.job.spec.options.log_level.unwrap_or_default(), book: LogBook::default() };
        Self(Arc::new(Inner {
            punctual: punctual.continuing(Trace::of(&claim.job.spec.options)),
            claim,
            signal: OnceLock::new(),
            stopped: AtomicBool::new(false),
            lease_over: AtomicBool::new(false),
            notes,
            log: Mutex::new(log),
            progress: Mutex::new(ProgressPace::new()),
            completed: AtomicBool::new(false),
            parents: OnceLock::new(),
        }))
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.0.claim.job.id
    }

    /// The claim: the whole job as it stood when this execution began, and who runs it.
    pub fn claim(&self) -> &Claim {
        &self.0.claim
    }

    /// Which occurrence of which schedule this is, if it is one. Its time tells which day's report to write, however
    /// late it runs.
    pub fn occurrence(&self) -> Option<&Occurrence> {
        self.0.claim.job.spec.options.occurrence.as_ref()
    }

    /// What the jobs returned that this one waited for, by their ids. Empty unless the job is
    /// [handed them](crate::Draft::parent_results), which is so by default if its definition
    /// [asks for them](crate::Job::PARENT_RESULTS).
    pub fn parent_results(&self) -> &[ParentResult] {
        self.0.parents.get().map_or(&[], Vec::as_slice)
    }

    /// What the job returned that this one waited for, by its name in the workflow or its id.
    ///
    /// ```
    /// # use punctual_client::{Context, Failure};
    /// async fn load(ctx: Context) -> Result<usize, Failure> {
    ///     let rows: Vec<String> = ctx.parent_result("extract")?;
    ///     Ok(rows.len())
    /// }
    /// ```
    pub fn parent_result<T: serde::de::DeserializeOwned>(&self, parent: &str) -> Result<T, Failure> {
        parents::read(self.parent_results(), parent)
    }

    /// Brings what the job's parents returned; the worker does, before the handler runs.
    pub async fn load_parent_results(&self) -> Result<(), Failure> {
        let results = self.0.punctual.parent_results(self.id()).await?;
        // Nobody else loads them.
        let _ = self.0.parents.set(results);
        Ok(())
    }

    /// The trace that this is a part of, for whoever does a part of the work: that of the current span, or the one that
    /// the job carries.
    pub fn trace(&self) -> Option<Trace> {
        trace::current().or_else(|| Trace::of(&self.0.claim.job.spec.options))
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.claim.job.attempt
    }

    /// Whether a failure now would be the last.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.0.claim.job.spec.max_attempts
    }

    /// The same for every execution of this job, and of no other: hand it to whatever must not do a thing twice.
    pub fn idempotency_token(&self) -> String {
        self.id().to_string()
    }

    /// Fires when the work should stop: timeout, cancellation, a lost lease, or the worker's end.
    pub fn signal(&self) -> CancellationToken {
        let signal = self.0.signal.get_or_init(CancellationToken::new);
        // Looked at after the signal is there, so that whoever stops it meanwhile is not missed.
        if self.is_cancelled() {
            signal.cancel();
        }
        signal.clone()
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Tells the handler to stop.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        if let Some(signal) = self.0.signal.get() {
            signal.cancel();
        }
    }

    /// Tells the handler to stop because its lease is over by the worker's own clock.
    pub fn stop_at_lease_end(&self) {
        self.0.lease_over.store(true, Ordering::SeqCst);
        self.stop();
    }

    /// Whether the lease is over by the worker's own clock, without an answer of the store: another worker may run the
    /// job already.
    pub fn is_lease_over(&self) -> bool {
        self.0.lease_over.load(Ordering::SeqCst)
    }

    /// The way to enqueue further jobs.
    pub fn punctual(&self) -> &Punctual {
        &self.0.punctual
    }

    /// Says how far the work has come, 0 to 100, with a few words. [Secrets](redact::text) are hidden.
    pub fn progress(&self, percent: f32, message: impl Into<String>) {
        let message = message.into().replace('\0', "\u{fffd}");
        let message = redact::text(&message, &self.0.claim.job.spec.options.redact_keys);
        let message: String = message.chars().take(limits::PROGRESS_MAX_CHARS).collect();
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        let progress = Progress { percent, message: (!message.is_empty()).then_some(message) };
        let mut pace = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if pace.may_say() {
            self.note(Some(progress), Vec::new());
        } else {
            pace.held = Some(progress);
        }
    }

    /// Adds a line to the attempt's log, unless the job wants only what is [more important](crate::Draft::log_level).
    /// Each attempt keeps [so many lines](limits::LOG_MAX_LINES) and [bytes](limits::LOG_MAX_BYTES); its last line says
    /// what was not kept. [Secrets](redact::text) are hidden.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.log_all([(level, message.into())]);
    }

    /// Adds several lines at once, which costs less than one after the other.
    pub fn log_all(&self, lines: impl IntoIterator<Item = (LogLevel, String)>) {
        let (run, at) = (self.0.claim.job.run, self.0.punctual.store().now());
        let mut log = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        let Log { level: from, book } = &mut *log;
        let own_keys = &self.0.claim.job.spec.options.redact_keys;
        let keep = |(level, message): (LogLevel, String)| {
            if level < *from {
                return None;
            }
            let (number, message) = book.add(redact::text(&message, own_keys).into_owned())?;
            Some((number, LogLine { run, at, level, message }))
        };
        let lines: Vec<(u32, LogLine)> = lines.into_iter().filter_map(keep).collect();
        let (count, bytes) = (lines.len(), lines.iter().map(|(_, line)| line.message.len()).sum());
        if count > 0 && !self.note(None, lines) {
            log.book.lose(count, bytes);
        }
    }

    /// Keeps lines of the log from this level on, unless the job itself says from which.
    pub fn log_from(&self, level: LogLevel) {
        if self.0.claim.job.spec.options.log_level.is_none() {
            self.0.log.lock().unwrap_or_else(PoisonError::into_inner).level = level;
        }
    }

    /// Says what the log has no room for, if anything, and how far the work came last; the worker does, when the
    /// handler has ended.
    pub fn end_notes(&self) {
        if let Some(progress) = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner).held.take() {
            self.note(Some(progress), Vec::new());
        }
        let log = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, message)) = log.book.last_line() {
            let (run, at) = (self.0.claim.job.run, self.0.punctual.store().now());
            self.note(None, vec![(number, LogLine { run, at, level: LogLevel::Warn, message })]);
        }
    }

    /// Logs what happens.
    pub fn info(&self, message: impl Into<String>) {
        self.log(LogLevel::Info, message);
    }

    /// Logs what should not happen.
    pub fn warn(&self, message: impl Into<String>) {
        self.log(LogLevel::Warn, message);
    }

    /// Logs what went wrong.
    pub fn error(&self, message: impl Into<String>) {
        self.log(LogLevel::Error, message);
    }

    /// Logs for whoever hunts a bug.
    pub fn debug(&self, message: impl Into<String>) {
        self.log(LogLevel::Debug, message);
    }

    /// Whether the handler has ended the job in a transaction of its own, as far as that has committed.
    pub fn is_completed(&self) -> bool {
        self.0.completed.load(Ordering::Relaxed)
    }

    pub(crate) fn note_completion(&self, settled: Settled) {
        self.0.completed.fetch_or(settled == Settled::Done, Ordering::Relaxed);
    }

    /// Holds the job for `lease` from now, beyond what the worker does by itself. Fails when the lease is lost.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = lease.clamp(limits::LEASE_MIN, limits::LEASE_MAX);
        let Claim { worker, .. } = self.0.claim;
        let asked_at = Instant::now();
        let held = self.0.punctual.store().extend(worker, lease, vec![self.0.claim.attempt_id()]).await?;
        if held == [true] {
            self.0.notes.extended(self.0.claim.attempt_id(), asked_at + lease);
            return Ok(());
        }
        self.stop();
        Err(StoreError::Other(format!("the lease of {} is lost", self.0.claim.attempt_id())).into())
    }

    /// Tells a user something. When this returns, it is durable; they get it now, or when they come back.
    pub async fn notify(&self, user: impl Into<String>, message: &impl Serialize) -> Result<(), Error> {
        self.tell(Some(user.into()), Json::of(message)).await
    }

    /// Tells everybody something, likewise.
    pub async fn broadcast(&self, message: &impl Serialize) -> Result<(), Error> {
        self.tell(None, Json::of(message)).await
    }

    async fn tell(&self, user_id: Option<String>, message: serde_json::Result<Json>) -> Result<(), Error> {
        let message = message.map_err(|error| Invalid::new("message", format!("is not JSON: {error}")))?;
        self.0.punctual.tell(NewNotification { user_id, message, job: Some(self.id()) }).await.map(drop)
    }

    fn note(&self, progress: Option<Progress>, lines: Vec<(u32, LogLine)>) -> bool {
        let (attempt, worker) = (self.0.claim.attempt_id(), self.0.claim.worker);
        self.0.notes.take(ProgressReport { attempt, worker, progress, lines })
    }
}
