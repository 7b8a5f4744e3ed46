//! The context of a handler: its job, and the functions to report progress, logs and notifications.

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

/// Receives the progress reports and log lines of handlers; the worker provides it.
pub trait ProgressSink: Send + Sync {
    /// Accepts a report to be stored; returns false if there was no room for it and it was dropped.
    fn take(&self, note: ProgressReport) -> bool;

    /// The handler has extended the lease of its attempt, until this instant by this process's clock.
    fn extended(&self, _attempt: AttemptId, _lease_until: Instant) {}
}

/// The context that a handler receives. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    punctual: Punctual,
    claim: Claim,
    /// Created on first use: most handlers end without a stop signal.
    signal: OnceLock<CancellationToken>,
    /// Whether the handler received the stop signal.
    stopped: AtomicBool,
    /// Whether the lease has expired by the worker's clock.
    lease_over: AtomicBool,
    notes: Arc<dyn ProgressSink>,
    /// Locked until a line is in the sink, so that the sink receives the lines in order.
    log: Mutex<Log>,
    progress: Mutex<ProgressPace>,
    /// Whether the handler has completed the job in a transaction of its own.
    completed: AtomicBool,
    /// The results of the job's parents, if the job receives them.
    parents: OnceLock<Vec<ParentResult>>,
}

/// Rate limit for the progress reports of one execution, so that they do not crowd out those of others.
struct ProgressPace {
    /// Number of reports that may be sent now.
    left: f64,
    since: Instant,
    /// The last progress that was held back by the limit.
    held: Option<Progress>,
}

impl ProgressPace {
    const AT_ONCE: f64 = 20.0;
    const PER_S: f64 = 10.0;

    fn new() -> Self {
        Self { left: Self::AT_ONCE, since: Instant::now(), held: None }
    }

    fn may_report(&mut self) -> bool {
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
    /// Lines below this level are not stored.
    level: LogLevel,
    book: LogBook,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.0.claim.attempt_id()).finish()
    }
}

impl Context {
    /// Creates the context of one execution.
    pub fn new(punctual: Punctual, claim: Claim, notes: Arc<dyn ProgressSink>) -> Self {
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

    /// The claim: the job as it was stored when this execution was claimed, and the worker that runs it.
    pub fn claim(&self) -> &Claim {
        &self.0.claim
    }

    /// The schedule and the time of the occurrence that this job was enqueued for, if any. Use that time, not the
    /// current one, since the job may run late: to decide, for example, which day's report to write.
    pub fn occurrence(&self) -> Option<&Occurrence> {
        self.0.claim.job.spec.options.occurrence.as_ref()
    }

    /// The results of the job's parents, in the order of their ids. Empty unless the job is [handed
    /// them](crate::Draft::parent_results), which is so by default if its definition [requests
    /// them](crate::Job::PARENT_RESULTS).
    pub fn parent_results(&self) -> &[ParentResult] {
        self.0.parents.get().map_or(&[], Vec::as_slice)
    }

    /// The result of one parent, by its name in the workflow or its id.
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

    /// Loads the results of the job's parents. The worker calls this before the handler runs.
    pub async fn load_parent_results(&self) -> Result<(), Failure> {
        let results = self.0.punctual.parent_results(self.id()).await?;
        // Only this call sets them.
        let _ = self.0.parents.set(results);
        Ok(())
    }

    /// The trace to pass on to other services: that of the current span, or else the one that the job carries.
    pub fn trace(&self) -> Option<Trace> {
        trace::current().or_else(|| Trace::of(&self.0.claim.job.spec.options))
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.claim.job.attempt
    }

    /// Whether the job is dead if this attempt fails.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.0.claim.job.spec.max_attempts
    }

    /// A token that is the same for every execution of this job and different for every other job. Pass it to services
    /// that must not perform an operation twice.
    pub fn idempotency_token(&self) -> String {
        self.id().to_string()
    }

    /// A token that is cancelled when the handler should stop: timeout, cancellation of the job, a lost lease, or a
    /// worker that stops.
    pub fn signal(&self) -> CancellationToken {
        let signal = self.0.signal.get_or_init(CancellationToken::new);
        // Checked after the token was created, so that a concurrent `stop` is not missed.
        if self.is_cancelled() {
            signal.cancel();
        }
        signal.clone()
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.stopped.load(Ordering::SeqCst)
    }

    /// Asks the handler to stop.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        if let Some(signal) = self.0.signal.get() {
            signal.cancel();
        }
    }

    /// Asks the handler to stop because its lease has expired by the worker's own clock.
    pub fn stop_at_lease_end(&self) {
        self.0.lease_over.store(true, Ordering::SeqCst);
        self.stop();
    }

    /// Whether the lease has expired by the worker's own clock, without an answer of the store: another worker may
    /// already run the job.
    pub fn is_lease_over(&self) -> bool {
        self.0.lease_over.load(Ordering::SeqCst)
    }

    /// The client, to enqueue further jobs.
    pub fn punctual(&self) -> &Punctual {
        &self.0.punctual
    }

    /// Reports progress: 0 to 100 percent, with a short message. [Secrets](redact::text) are redacted.
    pub fn progress(&self, percent: f32, message: impl Into<String>) {
        let message = message.into().replace('\0', "\u{fffd}");
        let message = redact::text(&message, &self.0.claim.job.spec.options.redact_keys);
        let message: String = message.chars().take(limits::PROGRESS_MAX_CHARS).collect();
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        let progress = Progress { percent, message: (!message.is_empty()).then_some(message) };
        let mut pace = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if pace.may_report() {
            self.note(Some(progress), Vec::new());
        } else {
            pace.held = Some(progress);
        }
    }

    /// Adds a line to the attempt's log, unless its level is below the [minimum level of the
    /// job](crate::Draft::log_level). The log of an attempt is limited in [lines](limits::LOG_MAX_LINES) and
    /// [bytes](limits::LOG_MAX_BYTES); if it is cut, its last line reports how much is missing. [Secrets](redact::text)
    /// are redacted.
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        self.log_all([(level, message.into())]);
    }

    /// Adds several lines to the log, which is cheaper than one call per line.
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

    /// Sets the minimum level of stored log lines, unless the job sets it itself.
    pub fn log_from(&self, level: LogLevel) {
        if self.0.claim.job.spec.options.log_level.is_none() {
            self.0.log.lock().unwrap_or_else(PoisonError::into_inner).level = level;
        }
    }

    /// Logs how many lines were not stored, if any, and reports the last progress that was held back. The worker calls
    /// this when the handler has ended.
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

    /// Logs a line of level info.
    pub fn info(&self, message: impl Into<String>) {
        self.log(LogLevel::Info, message);
    }

    /// Logs a line of level warn.
    pub fn warn(&self, message: impl Into<String>) {
        self.log(LogLevel::Warn, message);
    }

    /// Logs a line of level error.
    pub fn error(&self, message: impl Into<String>) {
        self.log(LogLevel::Error, message);
    }

    /// Logs a line of level debug.
    pub fn debug(&self, message: impl Into<String>) {
        self.log(LogLevel::Debug, message);
    }

    /// Whether the handler has completed the job in a transaction of its own, provided that this has committed.
    pub fn is_completed(&self) -> bool {
        self.0.completed.load(Ordering::Relaxed)
    }

    pub(crate) fn note_completion(&self, settled: Settled) {
        self.0.completed.fetch_or(settled == Settled::Done, Ordering::Relaxed);
    }

    /// Extends the lease to `lease` from now, beyond the renewals of the worker. Fails if the lease is lost.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = lease.clamp(limits::LEASE_MIN, limits::LEASE_MAX);
        let Claim { worker, .. } = self.0.claim;
        let requested_at = Instant::now();
        let held = self.0.punctual.store().extend(worker, lease, vec![self.0.claim.attempt_id()]).await?;
        if held == [true] {
            self.0.notes.extended(self.0.claim.attempt_id(), requested_at + lease);
            return Ok(());
        }
        self.stop();
        Err(StoreError::Other(format!("the lease of {} is lost", self.0.claim.attempt_id())).into())
    }

    /// Sends a notification to a user. When this returns, it is durable, also if the user is not connected.
    pub async fn notify(&self, user: impl Into<String>, message: &impl Serialize) -> Result<(), Error> {
        self.send_notification(Some(user.into()), Json::of(message)).await
    }

    /// Sends a notification to all users, with the same guarantee as [`notify`](Self::notify).
    pub async fn broadcast(&self, message: &impl Serialize) -> Result<(), Error> {
        self.send_notification(None, Json::of(message)).await
    }

    async fn send_notification(&self, user_id: Option<String>, message: serde_json::Result<Json>) -> Result<(), Error> {
        let message = message.map_err(|error| Invalid::new("message", format!("is not JSON: {error}")))?;
        self.0.punctual.send_notification(NewNotification { user_id, message, job: Some(self.id()) }).await.map(drop)
    }

    fn note(&self, progress: Option<Progress>, lines: Vec<(u32, LogLine)>) -> bool {
        let (attempt, worker) = (self.0.claim.attempt_id(), self.0.claim.worker);
        self.0.notes.take(ProgressReport { attempt, worker, progress, lines })
    }
}
