//! Stores logs, progress and outcomes: in batches, in order, with retries until they are stored or found stale.

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

/// Maximum number of messages per batch.
const BATCH_MAX_MESSAGES: usize = 1_000;
/// Maximum number of attempts to release a slot.
const RELEASES_MAX_COUNT: usize = 3;
/// Maximum number of concurrent settlement batches: while one waits for the disk, the next is written.
const SETTLES_MAX_COUNT: usize = 2;
/// How long to retry a settlement that the store refuses on its own.
const REFUSED_RETRY_MAX: Duration = Duration::from_secs(60);
/// Initial and maximum pause after an error of the store.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Settles until every sender is dropped.
pub(crate) async fn run(shared: Arc<Shared>, mut inbox: Inbox) {
    let mut messages = Vec::with_capacity(BATCH_MAX_MESSAGES);
    let mut in_progress = FuturesUnordered::new();
    // Settlements of a refused batch, one of which may be the cause. Each is retried on its own and does not delay
    // others.
    let mut single = FuturesUnordered::new();
    loop {
        tokio::select! {
            count = inbox.0.recv_many(&mut messages, BATCH_MAX_MESSAGES), if in_progress.len() < SETTLES_MAX_COUNT => {
                if count == 0 {
                    break;
                }
                let (ended, gone) = after_reports(&shared, &mut messages).await;
                if !ended.is_empty() || !gone.is_empty() {
                    in_progress.push(store(&shared, ended, gone));
                }
            }
            Some(refused) = in_progress.next() => single.extend(refused.into_iter().map(|one| settle_alone(&shared, one))),
            Some(()) = single.next() => {}
        }
    }
    while let Some(refused) = in_progress.next().await {
        single.extend(refused.into_iter().map(|one| settle_alone(&shared, one)));
    }
    while single.next().await.is_some() {}
}

/// Stores the reports among the messages first, since progress is accepted only while the job is held. Returns the
/// other messages: executions that have ended, and those that were given up and whose handlers are gone.
async fn after_reports(shared: &Shared, messages: &mut Vec<OutboxMessage>) -> (Vec<Ended>, Vec<AttemptId>) {
    let (mut reports, mut ended, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for message in messages.drain(..) {
        match message {
            OutboxMessage::ProgressReport(report) => reports.push(report),
            OutboxMessage::Settle(one) => ended.push(one),
            OutboxMessage::Gone(attempt) => gone.push(attempt),
        }
    }
    if !reports.is_empty() {
        store_reports(shared, reports).await;
    }
    (ended, gone)
}

/// Returns the settlements of a batch that the store refuses.
async fn store(shared: &Shared, ended: Vec<Ended>, gone: Vec<AttemptId>) -> Vec<Ended> {
    tokio::join!(settle_together(shared, ended), release_slots(shared, gone)).0
}

/// Releases the slots of cancelled jobs whose handlers are gone. Retried only a few times: their leases expire soon.
async fn release_slots(shared: &Shared, gone: Vec<AttemptId>) {
    let mut pause = BACKOFF.0;
    for _ in 0..RELEASES_MAX_COUNT {
        if gone.is_empty() {
            return;
        }
        match shared.store().release_slots(shared.id, gone.clone()).await {
            Ok(()) => break,
            Err(error) => {
                tracing::warn!(worker = %shared.id, jobs = gone.len(), %error, "cannot release the slots of cancelled jobs");
                time::sleep(pause).await;
                pause *= 4;
            }
        }
    }
    shared.released(&gone);
}

/// Stores reports. Retried only a few times: they must not delay the settlements behind them.
async fn store_reports(shared: &Shared, reports: Vec<ProgressReport>) {
    let mut pause = BACKOFF.0;
    for _ in 0..3 {
        match shared.store().report_progress(reports.clone()).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(worker = %shared.id, %error, "cannot store progress and logs");
                time::sleep(pause).await;
                pause *= 4;
            }
        }
    }
}

/// Retries settlements until they are stored. Returns them if the store refuses them with an error that may be
/// permanent.
async fn settle_together(shared: &Shared, ended: Vec<Ended>) -> Vec<Ended> {
    if ended.is_empty() {
        return ended;
    }
    let (settlements, completed): (Vec<_>, Vec<_>) =
        ended.into_iter().map(|one| (one.settlement, one.completed)).unzip();
    match answers(shared, &settlements, |_| false).await {
        Ok(answers) => finish(shared, &settlements, &completed, answers),
        Err(error) if error.is_final() => {
            tracing::error!(%error, jobs = settlements.len(), "jobs cannot be settled any more; their leases will expire");
            finish(shared, &settlements, &completed, Vec::new());
        }
        Err(_) => {
            let ended = settlements.into_iter().zip(completed);
            return ended.map(|(settlement, completed)| Ended { settlement, completed }).collect();
        }
    }
    Vec::new()
}

/// Retries a settlement that the store refuses for a while, since the work is done; not if its row is corrupt, since
/// that error is permanent.
async fn settle_alone(shared: &Shared, ended: Ended) {
    let (settlements, given_up_at) = ([ended.settlement], Instant::now() + REFUSED_RETRY_MAX);
    let is_temporary =
        |error: &StoreError| !matches!(error, StoreError::CorruptRow { .. }) && Instant::now() < given_up_at;
    let answers = answers(shared, &settlements, is_temporary).await.unwrap_or_else(|error| {
        tracing::error!(worker = %shared.id, job = %settlements[0].attempt.job, %error, "cannot settle a job; its lease will expire");
        Vec::new()
    });
    finish(shared, &settlements, &[ended.completed], answers);
}

/// Retries until the store answers. The leases are renewed meanwhile, and the fence makes repetition harmless.
async fn answers(
    shared: &Shared,
    settlements: &[Settlement],
    is_temporary: impl Fn(&StoreError) -> bool,
) -> StoreResult<Vec<Settled>> {
    let mut pause = BACKOFF.0;
    loop {
        let error = match shared.store().settle(settlements.to_vec()).await {
            Ok(answers) => return Ok(answers),
            Err(error) => error,
        };
        if error.is_final() || !error.is_transient() && !is_temporary(&error) {
            return Err(error);
        }
        let (jobs, retry_ms) = (settlements.len(), pause.as_millis() as u64);
        tracing::warn!(worker = %shared.id, jobs, %error, retry_ms, "cannot settle jobs");
        time::sleep(pause).await;
        pause = (2 * pause).min(BACKOFF.1);
    }
}

/// Removes settled executions, or those that are given up without answers.
fn finish(shared: &Shared, settlements: &[Settlement], completed: &[bool], answers: Vec<Settled>) {
    for ((settlement, completed), answer) in settlements.iter().zip(completed).zip(answers) {
        count(shared, settlement, *completed, answer);
    }
    // Last, since callers that wait for all settlements read the counters next.
    shared.end(settlements.iter().map(|settlement| settlement.attempt));
}

fn count(shared: &Shared, settlement: &Settlement, completed: bool, answer: Settled) {
    let counters = &shared.counters;
    let (job, attempt) = (settlement.attempt.job, settlement.attempt);
    tracing::debug!(%job, %attempt, status = %settlement.ending.status(), ?answer, "settled");
    let counter = match (answer, settlement.ending) {
        (Settled::Stale, _) if completed => &counters.succeeded,
        (Settled::Stale, _) => {
            tracing::warn!(%job, %attempt, "settlement is stale: this worker no longer held the job");
            &counters.stale
        }
        (Settled::Done, Ending::Succeed) => &counters.succeeded,
        (Settled::Done, Ending::Release | Ending::Snooze { .. }) => &counters.released,
        (Settled::Done, Ending::Retry { .. } | Ending::Requeue) => {
            let error = settlement.fault.as_ref().map(ToString::to_string);
            tracing::info!(%job, %attempt, error, "failed; will be retried");
            &counters.failed
        }
        (Settled::Done, Ending::Die) => {
            let error = settlement.fault.as_ref().map(ToString::to_string);
            tracing::error!(%job, %attempt, error, "failed; the job is dead");
            &counters.died
        }
    };
    counter.fetch_add(1, Ordering::Relaxed);
}
