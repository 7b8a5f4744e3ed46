//! The server's clock, as estimated by this process.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use punctual_core::{Clock, SystemClock, Timestamp};
use sqlx::PgConnection;

use super::value::At;

/// Number of measurements, of which the fastest is used: the longer an answer takes, the less accurate it is.
const SAMPLES: usize = 5;
/// Maximum difference between this machine's two clocks before the server's time is measured again: the clock was set,
/// or the machine slept.
const APART_MAX: Duration = Duration::from_millis(100);

/// A reading of the server's clock and when it was taken. The time elapsed since then is measured with a clock that is
/// never set and that continues while the machine sleeps.
#[derive(Debug)]
pub(crate) struct ServerClock(Mutex<Reading>);

#[derive(Debug, Clone, Copy)]
struct Reading {
    server: Timestamp,
    local: Timestamp,
    at: SinceBoot,
}

impl ServerClock {
    /// Assumes that the server has the same time.
    pub(crate) fn new() -> Self {
        let local = SystemClock.now();
        Self(Mutex::new(Reading { server: local, local, at: SinceBoot::now() }))
    }

    /// Measures the server's time.
    pub(crate) async fn measure(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let mut best: Option<(Duration, Reading)> = None;
        for _ in 0..SAMPLES {
            let begun = SinceBoot::now();
            let server: At = sqlx::query_scalar("select clock_timestamp()").fetch_one(&mut *connection).await?;
            let took = begun.elapsed();
            let reading = Reading {
                server: server.0,
                local: SystemClock.now().before(took / 2),
                at: SinceBoot(begun.0 + took / 2),
            };
            if best.is_none_or(|(quickest, _)| took < quickest) {
                best = Some((took, reading));
            }
        }
        if let Some((_, reading)) = best {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reading;
        }
        Ok(())
    }

    fn reading(&self) -> Reading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's time.
    pub(crate) fn now(&self) -> Timestamp {
        let Reading { server, at, .. } = self.reading();
        server.after(at.elapsed())
    }

    /// Whether this machine slept or its clock was set, so that the server's time must be measured again.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let Reading { local, at, .. } = self.reading();
        let (shown, expected) = (SystemClock.now(), local.after(at.elapsed()));
        shown.since(expected).max(expected.since(shown)) > APART_MAX
    }
}

/// A point on the clock that counts from the start of the machine, or of the process on platforms without such a clock.
#[derive(Debug, Clone, Copy)]
struct SinceBoot(Duration);

impl SinceBoot {
    #[cfg(target_os = "linux")]
    fn now() -> Self {
        let since_boot = nix::time::ClockId::CLOCK_BOOTTIME.now().map(Duration::from);
        Self(since_boot.unwrap_or_default())
    }

    #[cfg(not(target_os = "linux"))]
    fn now() -> Self {
        static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
        Self(START.elapsed())
    }

    fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}
