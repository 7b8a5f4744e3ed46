//! What a handler knows of its job, and how it speaks of itself.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use punctual_core::{
    Claim, Error, JobId, LogLevel, LogLine, Note, Progress, StoreError,
    job::cut_bytes,
    limits::{self, LOG_LINE_MAX_BYTES, LOG_MAX_LINES},
};
use tokio_util::sync::CancellationToken;

use crate::Punctual;

/// Where a handler's notes go; the worker brings it.
pub trait NoteSink: Send + Sync {
    /// Takes a note on its way to the store.
    fn take(&self, note: Note);
}

/// Given to a handler with its payload. Cheap to clone.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    punctual: Punctual,
    claim: Claim,
    signal: CancellationToken,
    notes: Arc<dyn NoteSink>,
    lines: Lines,
}

/// Numbers the lines of one attempt's log, and stops at the limit with a line that says so.
#[derive(Debug, Default)]
pub struct Lines {
    written: AtomicU32,
    /// Two lines of one attempt must reach the sink in the order of their numbers.
    order: Mutex<()>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.0.claim.attempt_id()).finish()
    }
}

impl Context {
    /// The context of one execution.
    pub fn new(punctual: Punctual, claim: Claim, signal: CancellationToken, notes: Arc<dyn NoteSink>) -> Self {
        Self(Arc::new(Inner { punctual, claim, signal, notes, lines: Lines::default() }))
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.0.claim.job.id
    }

    /// The claim: the whole job as it stood when this execution began, and who runs it.
    pub fn claim(&self) -> &Claim {
        &self.0.claim
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
        self.0.signal.clone()
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.signal.is_cancelled()
    }

    /// The way to enqueue further jobs.
    pub fn punctual(&self) -> &Punctual {
        &self.0.punctual
    }

    /// Says how far the work has come, 0 to 100, with a few words.
    pub fn progress(&self, percent: f32, message: impl Into<String>) {
        let message: String =
            message.into().replace('\0', "\u{fffd}").chars().take(limits::PROGRESS_MAX_CHARS).collect();
        let percent = if percent.is_finite() { percent.clamp(0.0, 100.0) } else { 0.0 };
        let progress = Progress { percent, message: (!message.is_empty()).then_some(message) };
        self.note(Some(progress), Vec::new());
    }

    /// Adds a line to the attempt's log. Each attempt keeps [`LOG_MAX_LINES`].
    pub fn log(&self, level: LogLevel, message: impl Into<String>) {
        let _in_order = self.0.lines.order.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.0.lines.written.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let message = match (number as usize).cmp(&LOG_MAX_LINES) {
            std::cmp::Ordering::Less => cut_bytes(message.into(), LOG_LINE_MAX_BYTES),
            std::cmp::Ordering::Equal => format!("the log is full: {LOG_MAX_LINES} lines; what follows is not kept"),
            std::cmp::Ordering::Greater => return,
        };
        let (run, at) = (self.0.claim.job.run, self.0.punctual.store().now());
        self.note(None, vec![(number, LogLine { run, at, level, message })]);
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

    /// Holds the job for `lease` from now, beyond what the worker does by itself. Fails when the lease is lost.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = lease.clamp(limits::LEASE_MIN, limits::LEASE_MAX);
        let Claim { worker, .. } = self.0.claim;
        let held = self.0.punctual.store().extend(worker, lease, vec![self.0.claim.attempt_id()]).await?;
        if held == [true] {
            return Ok(());
        }
        self.0.signal.cancel();
        Err(StoreError::Other(format!("the lease of {} is lost", self.0.claim.attempt_id())).into())
    }

    fn note(&self, progress: Option<Progress>, lines: Vec<(u32, LogLine)>) {
        let (attempt, worker) = (self.0.claim.attempt_id(), self.0.claim.worker);
        self.0.notes.take(Note { attempt, worker, progress, lines });
    }
}
