//! How often something is done that may take long.
//!
//! The server clears away rows that have gone only when no transaction can see them any more. While somebody keeps one
//! open, their entries stay in the indexes, and whoever reads an index from its beginning steps over all of them. So
//! what is read often begins where it ended last, and looks from the beginning only as often as that is cheap.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Lets something take a share of the time, at most.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// After it took some time, it pauses for so many times as long.
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

    /// A turn, if it is time for one. Until it ends, nobody else has one.
    pub(crate) fn begin(&self) -> Option<Turn<'_>> {
        let (mut next, now) = (self.next(), Instant::now());
        (now >= *next).then(|| {
            *next = now + self.pauses.1;
            Turn { pace: self, began: now }
        })
    }
}

/// It ends when this is dropped, also where it failed.
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
