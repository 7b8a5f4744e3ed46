//! Measures whether a claim costs the same with ten thousand rows and with ten million.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use punctual::{
    Draft, Punctual,
    core::{ClaimRequest, Outcome, WorkerId, settle},
};
use serde_json::{Map, Value, json};

use crate::{OnProgress, StoreFactory, object, payload};

const SMALL: usize = 10_000;
/// The number of jobs per claim.
const CLAIM: usize = 100;
/// Number of alternating turns. They alternate so that drift in the machine's speed affects both measurements equally.
const TURNS: usize = 20;
/// The number of claims per turn.
const ROUNDS: usize = 20;

/// The ratio of the claim rate with `jobs` queued jobs, and with `jobs` scheduled ones, to that with few jobs.
pub(crate) async fn backlog(
    stores: &StoreFactory,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let (few, many) = (stores.fresh("few-queued").await?, stores.fresh("many-queued").await?);
    fill(&few, SMALL, None, on_progress).await?;
    fill(&many, jobs, None, on_progress).await?;
    let (few_queued, many_queued) = claim_rates(&few, &many).await?;

    let (few, many) = (stores.fresh("few-scheduled").await?, stores.fresh("many-scheduled").await?);
    let later = Some(Duration::from_secs(7 * 24 * 3_600));
    for (punctual, jobs) in [(&few, SMALL), (&many, jobs)] {
        fill(punctual, jobs, later, on_progress).await?;
        fill(punctual, CLAIM, None, on_progress).await?;
    }
    let (few_scheduled, many_scheduled) = claim_rates(&few, &many).await?;
    Ok(object(json!({
        "ratio_queued": many_queued / few_queued,
        "ratio_scheduled": many_scheduled / few_scheduled,
        "claims_per_s_10k_queued": few_queued.round(),
        "claims_per_s_all_queued": many_queued.round(),
        "claims_per_s_10k_scheduled": few_scheduled.round(),
        "claims_per_s_all_scheduled": many_scheduled.round(),
    })))
}

async fn fill(punctual: &Punctual, jobs: usize, delay: Option<Duration>, on_progress: OnProgress<'_>) -> Result<()> {
    const BATCH: usize = 5_000;
    for start in (0..jobs).step_by(BATCH) {
        let draft = |number| {
            let draft = Draft::new("noop", &payload(number));
            match delay {
                Some(delay) => draft.delay(delay + Duration::from_millis(number as u64 % 1_000_000)),
                None => draft,
            }
        };
        punctual.enqueue_all((start..(start + BATCH).min(jobs)).map(draft)).await?;
        on_progress("fill", start as u64, jobs as u64);
    }
    Ok(())
}

/// Jobs claimed per second from each of two stores, in alternating turns.
async fn claim_rates(first: &Punctual, second: &Punctual) -> Result<(f64, f64)> {
    let (mut spent_on_first, mut spent_on_second) = (Duration::ZERO, Duration::ZERO);
    // One turn of each is not measured: it warms up both stores.
    claim_turn(first).await?;
    claim_turn(second).await?;
    for _ in 0..TURNS {
        spent_on_first += claim_turn(first).await?;
        spent_on_second += claim_turn(second).await?;
    }
    let rate = |spent: Duration| (CLAIM * ROUNDS * TURNS) as f64 / spent.as_secs_f64();
    Ok((rate(spent_on_first), rate(spent_on_second)))
}

/// The duration of one turn of claims.
async fn claim_turn(punctual: &Punctual) -> Result<Duration> {
    let worker = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
    let mut spent = Duration::ZERO;
    for _ in 0..ROUNDS {
        let request = ClaimRequest {
            names: vec!["noop".into()],
            // Only the first claim waits: the queue may have to be activated in Redis first.
            wait: Duration::from_secs(10),
            ..ClaimRequest::new(worker, CLAIM, Duration::from_secs(3_600))
        };
        let start = Instant::now();
        let claims = punctual.store().claim(request).await?.claims;
        spent += start.elapsed();
        ensure!(claims.len() == CLAIM, "a claim of {CLAIM} got {}: the run is invalid", claims.len());
        let done = claims.iter().map(|claim| settle(claim, Outcome::Succeeded { result: None }, 0.5)).collect();
        punctual.store().settle(done).await?;
        // Enqueues as many jobs as were claimed, so that the backlog keeps its size.
        punctual.enqueue_all((0..CLAIM).map(|number| Draft::new("noop", &payload(number)))).await?;
    }
    Ok(spent)
}
