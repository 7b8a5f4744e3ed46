//! Keeps the leases of all running jobs alive in one call, and notices those that are lost.

use std::{sync::Arc, time::Duration};

use punctual_core::{AttemptId, Beat, StoreResult};
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// How long after a hint running jobs are compared with the store, so that a cancelled one is told soon.
const CHECK_PERIOD: Duration = Duration::from_millis(250);

/// How often a worker gives a sign of life at least.
const BEAT_PERIOD: Duration = Duration::from_secs(10);

/// Keeps leases until `done`.
pub(crate) async fn keep(shared: Arc<Shared>, done: CancellationToken) {
    // Whoever looks at the register takes a worker that has been silent for long for dead, whatever its leases.
    let period = (shared.config.lease / 3).min(BEAT_PERIOD);
    let mut hints = shared.store().watch();
    let mut next_extension = Instant::now();
    loop {
        if Instant::now() >= next_extension {
            next_extension = Instant::now() + period;
            extend(&shared).await;
            beat(&shared).await;
        }
        tokio::select! {
            () = done.cancelled() => return,
            () = time::sleep_until(next_extension) => {}
            () = hints.changed() => {
                // Many hints come at once under load; one look answers them all.
                let pause = time::sleep(CHECK_PERIOD.min(period));
                tokio::select! {
                    () = done.cancelled() => return,
                    // The next extension does not wait for a slow look.
                    () = pause => drop(time::timeout_at(next_extension, check(&shared)).await),
                }
            }
        }
    }
}

async fn extend(shared: &Shared) {
    let attempts = shared.unsettled_attempts();
    if attempts.is_empty() {
        return;
    }
    let answer = shared.store().extend(shared.id, shared.config.lease, attempts.clone()).await;
    lose_missing(shared, attempts, answer, "extend");
}

async fn check(shared: &Shared) {
    // Those that have ended cannot be told to stop any more.
    let attempts = shared.unended_attempts();
    if attempts.is_empty() {
        return;
    }
    let answer = shared.store().held(shared.id, attempts.clone()).await;
    lose_missing(shared, attempts, answer, "check");
}

fn lose_missing(shared: &Shared, attempts: Vec<AttemptId>, answer: StoreResult<Vec<bool>>, what: &str) {
    match answer {
        Ok(held) => {
            attempts.into_iter().zip(held).filter(|(_, held)| !held).for_each(|(attempt, _)| shared.lose(attempt))
        }
        // The leases outlive two missed extensions.
        Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot {what} leases"),
    }
}

/// Tells the register that this worker is there.
pub(crate) async fn beat(shared: &Shared) {
    let beat = Beat {
        id: shared.id,
        host: gethostname::gethostname().to_string_lossy().into_owned(),
        pid: std::process::id(),
        queues: shared.config.queues.clone(),
        names: shared.registry.names(),
        concurrency: u32::try_from(shared.config.concurrency).unwrap_or(u32::MAX),
        running: u32::try_from(shared.load.borrow().unsettled).unwrap_or(u32::MAX),
    };
    if let Err(error) = shared.store().beat(beat).await {
        tracing::warn!(worker = %shared.id, %error, "cannot register");
    }
}
