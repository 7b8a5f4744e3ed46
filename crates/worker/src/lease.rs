//! Keeps the leases of all running jobs alive in one call, and notices those that are lost or over.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use punctual_core::{AttemptId, Heartbeat, StoreResult};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// How long after a hint running jobs are compared with the store, so that a cancelled one is told soon.
const CHECK_PERIOD: Duration = Duration::from_millis(250);

/// How often a worker gives a sign of life at least.
const BEAT_PERIOD: Duration = Duration::from_secs(10);

/// Renewals under way at once. An older one that has no answer yet may still get one.
const RENEWALS_MAX_COUNT: usize = 4;

/// Keeps leases until `done`.
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
                // Many hints come at once under load; one look answers them all.
                let pause = time::sleep(CHECK_PERIOD.min(period));
                tokio::select! {
                    () = done.cancelled() => return,
                    // The next renewal does not wait for a slow look.
                    () = pause => drop(time::timeout_at(next_renewal, check(&shared)).await),
                }
            }
        }
    }
}

/// Workers that give no sign of life for long are taken for dead, whatever their leases.
fn renewal_period(shared: &Shared) -> Duration {
    (shared.config.lease / 3).min(BEAT_PERIOD)
}

/// Has executions stop whose leases are over by this worker's own clock, until `done`. That depends on no answer of the
/// store: one may never come.
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

/// How long before its end a lease is confirmed by a read, where its renewal may wait for another program's lock; zero
/// where it cannot.
fn reconfirmation_period(shared: &Shared) -> Duration {
    (shared.store().renewal_grace() / 2).min(shared.config.lease / 4)
}

/// Where a renewal waits for another program to release its lock, all others wait for it too. A read, which waits for
/// none of them, says whether the jobs are still this worker's; then it goes on for a little.
async fn reconfirm(shared: &Shared, ahead: Duration) {
    let asked_at = Instant::now();
    let attempts = shared.attempts_expiring_until(asked_at + ahead);
    if ahead.is_zero() || attempts.is_empty() {
        return;
    }
    if let Ok(answer) = time::timeout(ahead / 2, shared.store().check_leases(shared.id, attempts.clone())).await {
        confirm_held(shared, &attempts, &answer, asked_at + 2 * ahead);
        lose_missing(shared, attempts, answer, "check");
    }
}

/// Renewals of leases that are under way, oldest first. Each is a task of its own, so that one without an answer does
/// not hold up the next.
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
    tokio::join!(extend(&shared), beat(&shared));
}

async fn extend(shared: &Shared) {
    let (attempts, lease) = (shared.kept_attempts(), shared.config.lease);
    if attempts.is_empty() {
        return;
    }
    // The store counts the lease from when it does this, which is later.
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
    // Those that have ended cannot be told to stop any more.
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
        // The leases outlive two missed extensions; then their executions are given up.
        Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot {what} leases"),
    }
}

/// Tells the register that this worker is there.
pub(crate) async fn beat(shared: &Shared) {
    let beat = Heartbeat {
        id: shared.id,
        host: gethostname::gethostname().to_string_lossy().into_owned(),
        pid: std::process::id(),
        queues: shared.config.queues.clone(),
        names: shared.registry.names(),
        concurrency: u32::try_from(shared.config.concurrency).unwrap_or(u32::MAX),
        running: u32::try_from(shared.load.borrow().unsettled).unwrap_or(u32::MAX),
        registered_by: None,
    };
    let given_at = Instant::now();
    match shared.store().heartbeat(beat).await {
        Ok(()) => shared.confirm_alive(given_at),
        Err(error) => tracing::warn!(worker = %shared.id, %error, "cannot register"),
    }
}
