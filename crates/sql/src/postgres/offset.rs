//! The server's clock, seen from here.

use std::sync::atomic::{AtomicI64, Ordering};

use punctual_core::{Clock, SystemClock, Timestamp};
use sqlx::PgConnection;

use super::value::At;

/// Measurements of which the quickest counts: the longer an answer takes, the less it says.
const SAMPLES: usize = 5;

/// How far the server's clock is ahead of this machine's, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Offset(AtomicI64);

impl Offset {
    /// Asks the server for its time.
    pub(crate) async fn measure(&self, connection: &mut PgConnection) -> sqlx::Result<()> {
        let mut best: Option<(i64, i64)> = None;
        for _ in 0..SAMPLES {
            let before = SystemClock.now().as_micros();
            let server: At = sqlx::query_scalar("select clock_timestamp()").fetch_one(&mut *connection).await?;
            let after = SystemClock.now().as_micros();
            let sample = (after - before, server.0.as_micros() - (before + after) / 2);
            best = Some(best.map_or(sample, |best| best.min(sample)));
        }
        if let Some((_, offset)) = best {
            self.0.store(offset, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The server's time when this machine's is `local`.
    pub(crate) fn apply(&self, local: Timestamp) -> Timestamp {
        Timestamp::from_micros(local.as_micros() + self.0.load(Ordering::Relaxed))
    }
}
