//! Sources of the current time. The domain never reads a clock; callers pass the time in.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{Timestamp, time::in_words};

/// A source of the current time.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;

    /// Whether the clock advances by itself. A manual clock of a test does not: an operation that waits in real time
    /// has not waited at all by such a clock.
    fn is_real(&self) -> bool {
        true
    }

    /// Monotonic time, which is not affected when the clock is set; nothing if it is not available. An engine that uses
    /// the machine's clock detects by it that the clock was set.
    fn steady(&self) -> Option<Steady> {
        None
    }
}

/// A reading of a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steady {
    /// The origin of the reading. Readings of different epochs cannot be compared.
    pub epoch: u128,
    /// The time since that origin.
    pub elapsed: Duration,
}

/// A clock was set: the time changed abruptly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// When the change was detected, by the clock as it was set.
    pub at: Timestamp,
    /// The change in microseconds; negative if the clock was set back.
    pub micros: i64,
}

impl ClockStep {
    /// How long the change is reported to operators.
    pub const TOLD_FOR: Duration = Duration::from_secs(24 * 3_600);

    /// Whether the change is still reported to operators.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        now.since(self.at) < Self::TOLD_FOR
    }
}

impl fmt::Display for ClockStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.micros < 0 { "back" } else { "forward" };
        let by = in_words(Duration::from_micros(self.micros.unsigned_abs()));
        write!(f, "the machine's clock was set {way} by {by}, noticed at {}", self.at)
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::MIN.after(since_epoch)
    }
}

/// A clock that does not advance until it is moved, for tests.
///
/// ```
/// use punctual_core::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
/// let clock = ManualClock::at("2026-03-01T12:00:00Z".parse().unwrap());
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now().to_string(), "2026-03-01T12:01:00.000000Z");
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    now: Arc<AtomicI64>,
    /// The sum of all changes by [`step_to`](Self::step_to), which did not let time pass.
    stepped: Arc<AtomicI64>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn at(start: Timestamp) -> Self {
        Self { now: Arc::new(AtomicI64::new(start.as_micros())), stepped: Arc::default() }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now().after(by));
    }

    /// Moves the clock to `instant`, which may lie in its past.
    pub fn set(&self, instant: Timestamp) {
        self.now.store(instant.as_micros(), Ordering::SeqCst);
    }

    /// Sets the clock to `instant`, as an operator or a time server does: no time passes.
    pub fn step_to(&self, instant: Timestamp) {
        let before = self.now.swap(instant.as_micros(), Ordering::SeqCst);
        self.stepped.fetch_add(instant.as_micros() - before, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now.load(Ordering::SeqCst))
    }

    fn is_real(&self) -> bool {
        false
    }

    fn steady(&self) -> Option<Steady> {
        let passed = self.now.load(Ordering::SeqCst) - self.stepped.load(Ordering::SeqCst);
        Some(Steady { epoch: 0, elapsed: Duration::from_micros(u64::try_from(passed).ok()?) })
    }
}
