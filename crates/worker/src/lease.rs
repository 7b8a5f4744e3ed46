//! Renews the leases of all running jobs in one call, and detects those that are lost or expired.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use punctual_core::{AttemptId, Heartbeat, StoreResult};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// Delay between a hint and the check of running jobs, so that a cancelled job is stopped soon.
const CHECK_PERIOD: Duration = Duration::from_millis(250);

/// Maximum time between two heartbeats of a worker.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(10);

/// Maximum number of concurrent renewals. An older one without an answer may still receive one.
const RENEWALS_MAX_COUNT: usize = 4;

/// Renews leases until `done`.
pub(crate) async fn keep(shared: Arc<Shared>, done: CancellationToken) {
    let period = renewal_period(&shared);
    let mut hints = shared.store().watch();
    let (mut renewals, mut next_renewal) = (Renewals::default(), Instant::now());
    loop {
        if Instant::now() >= next_renewal {
            next_renewal = Instant::now() + period;
            renewals.begin(&shared);
        }
        tokio::select! {
            () = done.cancelled() => return,
            () = time::sleep_until(next_renewal) => {}
            () = hints.changed() => {
                // Under load many hints arrive at once; one check serves them all.
                let pause = time::sleep(CHECK_PERIOD.min(period));
                tokio::select! {
                    () = done.cancelled() => return,
                    // The next renewal does not wait for a slow check.
                    () = pause => drop(time::timeout_at(next_renewal, check(&shared)).await),
                }
            }
        }
    }
}

/// The interval of renewals. A worker without heartbeats is considered dead after a while, whatever its leases.
fn renewal_period(shared: &Shared) -> Duration {
    (shared.config.lease / 3).min(HEARTBEAT_PERIOD)
}

/// Stops executions whose leases have expired by this worker's own clock, until `done`. This needs no answer of the
/// store, which may never arrive.
pub(crate) async fn expire_on(shared: Arc<Shared>, done: CancellationToken) {
    let (period, ahead) = (renewal_period(&shared), reconfirmation_period(&shared));
    loop {
        reconfirm(&shared, ahead).await;
        let now = Instant::now();
        let next = shared.expire(now, now + period);
        tokio::select! {
            () = done.cancelled() => return,
            () = time::sleep_until((next - ahead).max(now + ahead / 4).min(next)) => {}
            () = shared.short_lease.notified() => {}
        }
    }
}

/// How long before its end a lease is confirmed by a read, if its renewal may wait for the lock of another program;
/// zero if it cannot.
fn reconfirmation_period(shared: &Shared) -> Duration {
    (shared.store().renewal_grace() / 2).min(shared.config.lease / 4)
}

/// If a renewal waits until another program releases its lock, all other writes wait, too. A read does not wait; if it
/// shows that the jobs are still this worker's, their leases are confirmed for a short time.
async fn reconfirm(shared: &Shared, ahead: Duration) {
    let sent_at = Instant::now();
    let attempts = shared.attempts_expiring_until(sent_at + ahead);
    if ahead.is_zero() || attempts.is_empty() {
        return;
    }
    if let Ok(answer) = time::timeout(ahead / 2, shared.store().check_leases(shared.id, attempts.clone())).await {
        confirm_held(shared, &attempts, &answer, sent_at + 2 * ahead);
        lose_missing(shared, attempts, answer, "check");
    }
}

/// Renewals in progress, oldest first. Each is a task of its own, so that one without an answer does not delay the
/// next.
#[derive(Default)]
struct Renewals {
    tasks: JoinSet<()>,
    begun: VecDeque<(Instant, AbortHandle)>,
}

impl Renewals {
    fn begin(&mut self, shared: &Arc<Shared>) {
        while self.tasks.try_join_next().is_some() {}
        self.begun.retain(|(_, task)| !task.is_finished());
        if let Some((since, _)) = self.begun.front() {
            let waited_ms = since.elapsed().as_millis() as u64;
            tracing::warn!(worker = %shared.id, waited_ms, "the store does not answer a renewal of leases");
        }
        if self.begun.len() >= RENEWALS_MAX_COUNT
            && let Some((_, oldest)) = self.begun.pop_front()
        {
            oldest.abort();
        }
        let renew = renew(Arc::clone(shared));
        self.begun.push_back((Instant::now(), self.tasks.spawn(renew)));
    }
}

async fn renew(shared: Arc<Shared>) {
    tokio::join!(extend(&shared), heartbeat(&shared));
}

async fn extend(shared: &Shared) {
    let (attempts, lease) = (shared.kept_attempts(), shared.config.lease);
    if attempts.is_empty() {
        return;
    }
    // The store extends the lease when it executes the call, which is later.
    let lease_until = Instant::now() + lease;
    let answer = shared.store().extend(shared.id, lease, attempts.clone()).await;
    confirm_held(shared, &attempts, &answer, lease_until);
    lose_missing(shared, attempts, answer, "extend");
}

fn confirm_held(shared: &Shared, attempts: &[AttemptId], answer: &StoreResult<Vec<bool>>, lease_until: Instant) {
    let held = attempts.iter().zip(answer.iter().flatten()).filter(|(_, held)| **held);
    held.for_each(|(attempt, _)| shared.confirm(*attempt, lease_until));
}

async fn check(shared: &Shared) {
    // Jobs that have ended need not be stopped.
    let attempts = shared.unended_attempts();
    if attempts.is_empty() {
        return;
    }
    let answer = shared.store().check_leases(shared.id, attempts.clone()).await;
    lose_missing(shared, attempts, answer, "check");
}

fn lose_missing(shared: &Shared, attempts: Vec<AttemptId>, answer: StoreResult<Vec<bool>>, what: &str) {
    match answer {
        Ok(held) => {
            attempts.into_iter().zip(held).filter(|(_, held)| !held).for_each(|(attempt, _)| shared.lose(attempt))
        }
        // The leases survive two failed extensions; after that their executions are given up.
        Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot {what} leases"),
    }
}

/// Sends a heartbeat of this worker to the store.
pub(crate) async fn heartbeat(shared: &Shared) {
    let heartbeat = Heartbeat {
        id: shared.id,
        host: gethostname::gethostname().to_string_lossy().into_owned(),
        pid: std::process::id(),
        queues: shared.config.queues.clone(),
        names: shared.registry.names(),
        concurrency: u32::try_from(shared.config.concurrency).unwrap_or(u32::MAX),
        running: u32::try_from(shared.load.borrow().unsettled).unwrap_or(u32::MAX),
        registered_by: None,
    };
    let sent_at = Instant::now();
    match shared.store().heartbeat(heartbeat).await {
        Ok(()) => shared.confirm_alive(sent_at),
        Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot send the heartbeat"),
    }
}
