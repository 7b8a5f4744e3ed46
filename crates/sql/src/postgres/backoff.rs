//! Limits how often a potentially slow operation is executed.
//!
//! VACUUM removes dead rows only when no transaction can see them any more. While a transaction stays open, their index
//! entries remain, and every scan from the start of the index steps over all of them. Frequent scans therefore begin
//! where the previous one ended, and scan from the start only as often as that is cheap.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Limits an operation to a share of the time.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// The pause after an operation, as a multiple of the operation's duration.
    pause: u32,
    /// The shortest and the longest pause.
    pauses: (Duration, Duration),
    next: Mutex<Instant>,
}

impl Backoff {
    pub(crate) fn new(pause: u32, pauses: (Duration, Duration)) -> Self {
        Self { pause, pauses, next: Mutex::new(Instant::now()) }
    }

    fn next(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn, if it is time for one. Until the turn ends, no other can begin.
    pub(crate) fn begin(&self) -> Option<Turn<'_>> {
        let (mut next, now) = (self.next(), Instant::now());
        (now >= *next).then(|| {
            *next = now + self.pauses.1;
            Turn { pace: self, began: now }
        })
    }
}

/// A turn; it ends when it is dropped, also after a failure.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pace: &'a Backoff,
    began: Instant,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let pause = (self.began.elapsed() * self.pace.pause).clamp(self.pace.pauses.0, self.pace.pauses.1);
        *self.pace.next() = Instant::now() + pause;
    }
}
