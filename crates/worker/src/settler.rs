//! Records what handlers say and how they end: in batches, in order, until it is stored or found stale.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use punctual_core::{AttemptId, Ending, ProgressReport, Settled, Settlement, StoreError, StoreResult};
use tokio::time::{self, Instant};

use crate::{
    outbox::{Ended, Inbox, OutboxMessage},
    shared::Shared,
};

/// Letters that one batch holds.
const BATCH_MAX_LETTERS: usize = 1_000;
/// How often it is tried to release a slot.
const RELEASES_MAX_COUNT: usize = 3;
/// Batches of settlements under way at once: while one waits for the disk, the next is written.
const SETTLES_MAX_COUNT: usize = 2;
/// How long one is tried that the store refuses by itself.
const REFUSED_PATIENCE: Duration = Duration::from_secs(60);
/// The first and the longest pause after an error of the store.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Settles until every sender is gone.
pub(crate) async fn run(shared: Arc<Shared>, mut inbox: Inbox) {
    let mut letters = Vec::with_capacity(BATCH_MAX_LETTERS);
    let mut under_way = FuturesUnordered::new();
    // What was refused together: one of them may be the cause. Each is tried by itself, and holds up no other.
    let mut alone = FuturesUnordered::new();
    loop {
        tokio::select! {
            count = inbox.0.recv_many(&mut letters, BATCH_MAX_LETTERS), if under_way.len() < SETTLES_MAX_COUNT => {
                if count == 0 {
                    break;
                }
                let (ended, gone) = after_notes(&shared, &mut letters).await;
                if !ended.is_empty() || !gone.is_empty() {
                    under_way.push(store(&shared, ended, gone));
                }
            }
            Some(refused) = under_way.next() => alone.extend(refused.into_iter().map(|one| settle_alone(&shared, one))),
            Some(()) = alone.next() => {}
        }
    }
    while let Some(refused) = under_way.next().await {
        alone.extend(refused.into_iter().map(|one| settle_alone(&shared, one)));
    }
    while alone.next().await.is_some() {}
}

/// Stores the notes among the letters first, since progress counts only while the job is held. What is left: executions
/// that have ended, and those that were given up and are gone.
async fn after_notes(shared: &Shared, letters: &mut Vec<OutboxMessage>) -> (Vec<Ended>, Vec<AttemptId>) {
    let (mut notes, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for letter in letters.drain(..) {
        match letter {
            OutboxMessage::ProgressReport(note) => notes.push(note),
            OutboxMessage::Settle(one) => ended.push(one),
            OutboxMessage::Gone(attempt) => gone.push(attempt),
        }
    }
    if !notes.is_empty() {
        store_notes(shared, notes).await;
    }
    (ended, gone)
}

/// Returns what the store refuses to settle together.
async fn store(shared: &Shared, ended: Vec<Ended>, gone: Vec<AttemptId>) -> Vec<Ended> {
    tokio::join!(settle_together(shared, ended), release_slots(shared, gone)).0
}

/// Executions of cancelled jobs occupy no slot any more. That is tried a few times only: their leases end before long.
async fn release_slots(shared: &Shared, gone: Vec<AttemptId>) {
    let mut pause = BACKOFF.0;
    for _ in 0..RELEASES_MAX_COUNT {
        if gone.is_empty() {
            return;
        }
        match shared.store().release_slots(shared.id, gone.clone()).await {
            Ok(()) => break,
            Err(error) => {
                tracing::warn!(worker = %shared.id, jobs = gone.len(), %error, "cannot say that the handlers of cancelled jobs are gone");
                time::sleep(pause).await;
                pause *= 4;
            }
        }
    }
    shared.released(&gone);
}

/// Notes are tried again a few times only: they must not hold up the settlements behind them.
async fn store_notes(shared: &Shared, notes: Vec<ProgressReport>) {
    let mut pause = BACKOFF.0;
    for _ in 0..3 {
        match shared.store().report_progress(notes.clone()).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(worker = %shared.id, %error, "cannot store what handlers logged");
                time::sleep(pause).await;
                pause *= 4;
            }
        }
    }
}

/// Settlements are tried until they are stored. Returns those that the store refuses for a reason that need not pass.
async fn settle_together(shared: &Shared, ended: Vec<Ended>) -> Vec<Ended> {
    if ended.is_empty() {
        return ended;
    }
    let (settlements, completed): (Vec<_>, Vec<_>) =
        ended.into_iter().map(|one| (one.settlement, one.completed)).unzip();
    match answers(shared, &settlements, |_| false).await {
        Ok(answers) => finish(shared, &settlements, &completed, answers),
        Err(error) if error.is_final() => {
            tracing::error!(%error, jobs = settlements.len(), "jobs cannot be settled any more; their leases will run out");
            finish(shared, &settlements, &completed, Vec::new());
        }
        Err(_) => {
            let ended = settlements.into_iter().zip(completed);
            return ended.map(|(settlement, completed)| Ended { settlement, completed }).collect();
        }
    }
    Vec::new()
}

/// One that the store refuses is tried for a while, since the work is done; not if its row is corrupt, which does not
/// pass.
async fn settle_alone(shared: &Shared, ended: Ended) {
    let (settlements, given_up_at) = ([ended.settlement], Instant::now() + REFUSED_PATIENCE);
    let may_pass = |error: &StoreError| !matches!(error, StoreError::CorruptRow { .. }) && Instant::now() < given_up_at;
    let answers = answers(shared, &settlements, may_pass).await.unwrap_or_else(|error| {
        tracing::error!(worker = %shared.id, job = %settlements[0].attempt.job, %error, "cannot settle a job; its lease will run out");
        Vec::new()
    });
    finish(shared, &settlements, &[ended.completed], answers);
}

/// What the store answers, sooner or later. The leases are kept meanwhile, and the fence makes repeating harmless.
async fn answers(
    shared: &Shared,
    settlements: &[Settlement],
    may_pass: impl Fn(&StoreError) -> bool,
) -> StoreResult<Vec<Settled>> {
    let mut pause = BACKOFF.0;
    loop {
        let error = match shared.store().settle(settlements.to_vec()).await {
            Ok(answers) => return Ok(answers),
            Err(error) => error,
        };
        if error.is_final() || !error.is_transient() && !may_pass(&error) {
            return Err(error);
        }
        let (jobs, retry_ms) = (settlements.len(), pause.as_millis() as u64);
        tracing::warn!(worker = %shared.id, jobs, %error, retry_ms, "cannot settle");
        time::sleep(pause).await;
        pause = (2 * pause).min(BACKOFF.1);
    }
}

/// They are settled, or given up without answers.
fn finish(shared: &Shared, settlements: &[Settlement], completed: &[bool], answers: Vec<Settled>) {
    for ((settlement, completed), answer) in settlements.iter().zip(completed).zip(answers) {
        count(shared, settlement, *completed, answer);
    }
    // Last, since whoever waits for the worker to settle everything reads the counts next.
    shared.end(settlements.iter().map(|settlement| settlement.attempt));
}

fn count(shared: &Shared, settlement: &Settlement, completed: bool, answer: Settled) {
    let counters = &shared.counters;
    let (job, attempt) = (settlement.attempt.job, settlement.attempt);
    tracing::debug!(%job, %attempt, status = %settlement.ending.status(), ?answer, "settled");
    let counter = match (answer, settlement.ending) {
        (Settled::Stale, _) if completed => &counters.succeeded,
        (Settled::Stale, _) => {
            tracing::warn!(%job, %attempt, "settled too late: the job was no longer ours, nothing was changed");
            &counters.stale
        }
        (Settled::Done, Ending::Succeed) => &counters.succeeded,
        (Settled::Done, Ending::Release | Ending::Snooze { .. }) => &counters.released,
        (Settled::Done, Ending::Retry { .. } | Ending::Requeue) => {
            let error = settlement.fault.as_ref().map(ToString::to_string);
            tracing::info!(%job, %attempt, error, "failed, will be tried again");
            &counters.failed
        }
        (Settled::Done, Ending::Die) => {
            let error = settlement.fault.as_ref().map(ToString::to_string);
            tracing::error!(%job, %attempt, error, "failed for the last time: the job is dead");
            &counters.died
        }
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
