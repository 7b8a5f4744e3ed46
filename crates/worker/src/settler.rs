//! Records what handlers say and how they end: in batches, in order, until it is stored or found stale.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use punctual_core::{AttemptId, Ending, Note, Settled, Settlement};
use tokio::time;

use crate::{
    mailbox::{Ended, Inbox, Letter},
    shared::Shared,
};

/// Letters that one batch holds.
const BATCH_MAX_LETTERS: usize = 1_000;
/// How often it is tried to release a slot.
const RELEASES_MAX_COUNT: usize = 3;
/// Batches of settlements under way at once: while one waits for the disk, the next is written.
const SETTLES_MAX_COUNT: usize = 2;
/// The first and the longest pause after an error of the store.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Settles until every sender is gone.
pub(crate) async fn run(shared: Arc<Shared>, mut inbox: Inbox) {
    let mut letters = Vec::with_capacity(BATCH_MAX_LETTERS);
    let mut under_way = FuturesUnordered::new();
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
            Some(()) = under_way.next() => {}
        }
    }
    while under_way.next().await.is_some() {}
}

/// Stores the notes among the letters first, since progress counts only while the job is held. What is left: executions that have ended, and those that were
/// given up and are gone.
async fn after_notes(shared: &Shared, letters: &mut Vec<Letter>) -> (Vec<Ended>, Vec<AttemptId>) {
    let (mut notes, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for letter in letters.drain(..) {
        match letter {
            Letter::Note(note) => notes.push(note),
            Letter::Settle(one) => ended.push(one),
            Letter::Gone(attempt) => gone.push(attempt),
        }
    }
    if !notes.is_empty() {
        store_notes(shared, notes).await;
    }
    (ended, gone)
}

async fn store(shared: &Shared, ended: Vec<Ended>, gone: Vec<AttemptId>) {
    tokio::join!(store_settlements(shared, ended), release_slots(shared, gone));
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
async fn store_notes(shared: &Shared, notes: Vec<Note>) {
    let mut pause = BACKOFF.0;
    for _ in 0..3 {
        match shared.store().note(notes.clone()).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(worker = %shared.id, %error, "cannot store what handlers logged");
                time::sleep(pause).await;
                pause *= 4;
            }
        }
    }
}

/// Settlements are tried until they are stored. The leases are kept meanwhile, and the fence makes repeating harmless.
async fn store_settlements(shared: &Shared, ended: Vec<Ended>) {
    if ended.is_empty() {
        return;
    }
    let mut pause = BACKOFF.0;
    let (settlements, completed): (Vec<_>, Vec<_>) =
        ended.into_iter().map(|one| (one.settlement, one.completed)).unzip();
    let answers = loop {
        match shared.store().settle(settlements.clone()).await {
            Ok(answers) => break answers,
            Err(error) if error.is_final() => {
                tracing::error!(%error, jobs = settlements.len(), "jobs cannot be settled any more; their leases will run out");
                break Vec::new();
            }
            // It would be the same each time, and the others of the batch would wait for it for good.
            Err(error) if !error.is_transient() && settlements.len() > 1 => {
                for (settlement, completed) in settlements.into_iter().zip(completed) {
                    Box::pin(store_settlements(shared, vec![Ended { settlement, completed }])).await;
                }
                return;
            }
            Err(error) if !error.is_transient() => {
                tracing::error!(worker = %shared.id, %error, "cannot settle a job; its lease will run out");
                break Vec::new();
            }
            Err(error) => {
                let (jobs, retry_ms) = (settlements.len(), pause.as_millis() as u64);
                tracing::warn!(worker = %shared.id, jobs, %error, retry_ms, "cannot settle");
                time::sleep(pause).await;
                pause = (2 * pause).min(BACKOFF.1);
            }
        }
    };
    for ((settlement, completed), answer) in settlements.iter().zip(completed).zip(answers) {
        count(shared, settlement, completed, answer);
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
