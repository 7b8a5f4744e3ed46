//! Whether a claim costs the same with ten thousand rows and with ten million.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use punctual::{
    Draft, Punctual,
    core::{ClaimRequest, Outcome, WorkerId, settle},
};
use serde_json::{Map, Value, json};

use crate::{OnProgress, Place, object, payload};

const SMALL: usize = 10_000;
/// Claims of this size, as many as are measured each time.
const CLAIM: usize = 100;
const ROUNDS: usize = 400;

/// The claim rate among `jobs` queued jobs, and beside `jobs` scheduled ones, to that among few.
pub(crate) async fn backlog(place: &Place, jobs: usize, on_progress: OnProgress<'_>) -> Result<Map<String, Value>> {
    let queued = place.fresh("queued").await?;
    fill(&queued, 0, SMALL, None, on_progress).await?;
    let few_queued = claim_rate(&queued).await?;
    fill(&queued, SMALL, jobs, None, on_progress).await?;
    let many_queued = claim_rate(&queued).await?;

    let scheduled = place.fresh("scheduled").await?;
    let later = Some(Duration::from_secs(7 * 24 * 3_600));
    fill(&scheduled, 0, SMALL, later, on_progress).await?;
    fill(&scheduled, 0, CLAIM, None, on_progress).await?;
    let few_scheduled = claim_rate(&scheduled).await?;
    fill(&scheduled, SMALL, jobs, later, on_progress).await?;
    let many_scheduled = claim_rate(&scheduled).await?;
    Ok(object(json!({
        "ratio_queued": many_queued / few_queued,
        "ratio_scheduled": many_scheduled / few_scheduled,
        "claims_per_s_10k_queued": few_queued.round(),
        "claims_per_s_all_queued": many_queued.round(),
        "claims_per_s_10k_scheduled": few_scheduled.round(),
        "claims_per_s_all_scheduled": many_scheduled.round(),
    })))
}

async fn fill(
    punctual: &Punctual,
    from: usize,
    to: usize,
    delay: Option<Duration>,
    on_progress: OnProgress<'_>,
) -> Result<()> {
    const BATCH: usize = 5_000;
    for start in (from..to).step_by(BATCH) {
        let draft = |number| {
            let draft = Draft::new("noop", &payload(number));
            match delay {
                Some(delay) => draft.delay(delay + Duration::from_millis(number as u64 % 1_000_000)),
                None => draft,
            }
        };
        punctual.enqueue_all((start..(start + BATCH).min(to)).map(draft)).await?;
        on_progress("fill", start as u64, to as u64);
    }
    Ok(())
}

async fn claim_rate(punctual: &Punctual) -> Result<f64> {
    let worker = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
    let mut spent = Duration::ZERO;
    for _ in 0..ROUNDS {
        let request = ClaimRequest {
            worker,
            queues: Vec::new(),
            names: vec!["noop".into()],
            limit: CLAIM,
            lease: Duration::from_secs(3_600),
            wait: Duration::ZERO,
        };
        let start = Instant::now();
        let claims = punctual.store().claim(request).await?.claims;
        spent += start.elapsed();
        ensure!(claims.len() == CLAIM, "a claim of {CLAIM} got {}: this run is no result", claims.len());
        let done = claims.iter().map(|claim| settle(claim, Outcome::Succeeded { result: None }, 0.5)).collect();
        punctual.store().settle(done).await?;
        // As many come as go, so that the backlog stays what it is however long it is measured.
        punctual.enqueue_all((0..CLAIM).map(|number| Draft::new("noop", &payload(number)))).await?;
    }
    Ok((CLAIM * ROUNDS) as f64 / spent.as_secs_f64())
}
