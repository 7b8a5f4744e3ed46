//! Measures the cost of limits: claims without limits, from a limited queue, and with a hundred thousand waiting keys.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use punctual::{
    Draft, Punctual,
    core::{ClaimRequest, Limits, Outcome, Rate, WorkerId, settle},
};
use serde_json::{Map, Value, json};

use crate::{OnProgress, StoreFactory, object, payload};

/// The number of jobs per claim.
const CLAIM: usize = 100;
/// Number of alternating turns. They alternate so that drift in the machine's speed affects all cases equally.
const TURNS: usize = 10;
/// The number of claims per turn.
const ROUNDS: usize = 10;
/// A limit that is never reached.
const PLENTY: u32 = 1_000_000;

/// A kind of limit.
struct Case {
    name: &'static str,
    limits: Limits,
    /// The concurrency key of job `number`.
    key: fn(usize) -> Option<String>,
    /// Whether jobs of one key, none of which may start, are queued before all others.
    held_back: bool,
}

const fn no_key(_: usize) -> Option<String> {
    None
}

fn own_key(number: usize) -> Option<String> {
    Some(format!("key-{number}"))
}

fn one_of_thousand(number: usize) -> Option<String> {
    Some(format!("key-{}", number % 1_000))
}

fn cases() -> Vec<Case> {
    let rate = Some(Rate { count: PLENTY, period: Duration::from_secs(60) });
    let case = |name, limits, key| Case { name, limits, key, held_back: false };
    vec![
        case("plain", Limits::default(), no_key),
        case("concurrency", Limits { concurrency: Some(PLENTY), ..Limits::default() }, no_key),
        case("rate", Limits { rate, ..Limits::default() }, no_key),
        case("keys", Limits::default(), own_key),
        case("1000_keys", Limits::default(), one_of_thousand),
        case("key_rates", Limits { key_rate: rate, ..Limits::default() }, own_key),
        case("fair", Limits { fair: true, ..Limits::default() }, own_key),
        Case { held_back: true, ..case("behind_a_full_key", Limits::default(), own_key) },
    ]
}

struct Measured {
    case: Case,
    punctual: Punctual,
    worker: WorkerId,
    claims: Duration,
    cycles: Duration,
}

/// Measures the rate of claims, and of claim, settle and enqueue together, with `jobs` jobs waiting, each with its own
/// key in cases with keys.
pub(crate) async fn limits(
    stores: &StoreFactory,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let mut all = Vec::new();
    for case in cases() {
        let punctual = stores.fresh(case.name).await?;
        punctual.admin("bench").set_queue_limits("default", case.limits.clone()).await?;
        let worker = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
        let mut one = Measured { case, punctual, worker, claims: Duration::ZERO, cycles: Duration::ZERO };
        one.fill(jobs, on_progress).await?;
        all.push(one);
    }
    // The warm-up: turns are not measured until every key has been considered once.
    let warm_up = 1 + jobs / (1_000 * ROUNDS);
    for turn in 0..warm_up + TURNS {
        for one in &mut all {
            let (claims, cycles) = one.turn().await?;
            // Workers do this periodically, too.
            one.punctual.store().maintain().await?;
            if turn >= warm_up {
                one.claims += claims;
                one.cycles += cycles;
            }
        }
        on_progress("measure", turn as u64, (warm_up + TURNS) as u64);
    }
    let jobs_measured = (CLAIM * ROUNDS * TURNS) as f64;
    let mut fields = object(json!({ "claim_size": CLAIM }));
    for one in &all {
        let name = one.case.name;
        let mut add = |what: &str, value: f64| fields.insert(format!("{what}_{name}"), json!(value));
        let ratio = |plain: Duration, own: Duration| (100.0 * plain.as_secs_f64() / own.as_secs_f64()).round() / 100.0;
        add("claims_per_s", (jobs_measured / one.claims.as_secs_f64()).round());
        add("ratio_claims", ratio(all[0].claims, one.claims));
        add("ratio_cycles", ratio(all[0].cycles, one.cycles));
    }
    Ok(fields)
}

impl Measured {
    fn draft(&self, number: usize) -> Draft {
        let draft = Draft::new("noop", &payload(number));
        match (self.case.key)(number) {
            Some(key) => draft.concurrency_key(key),
            None => draft,
        }
    }

    async fn fill(&mut self, jobs: usize, on_progress: OnProgress<'_>) -> Result<()> {
        const BATCH: usize = 5_000;
        if self.case.held_back {
            let full = || Draft::new("noop", &payload(0)).concurrency_key("full").priority(9);
            self.punctual.enqueue(full()).await?;
            ensure!(self.claim(1).await? == 1, "nothing to hold");
            for _ in (0..jobs).step_by(BATCH) {
                self.punctual.enqueue_all((0..BATCH).map(|_| full())).await?;
            }
        }
        for start in (0..jobs).step_by(BATCH) {
            let drafts: Vec<Draft> = (start..(start + BATCH).min(jobs)).map(|number| self.draft(number)).collect();
            self.punctual.enqueue_all(drafts).await?;
            on_progress("fill", start as u64, jobs as u64);
        }
        Ok(())
    }

    fn request(&self, limit: usize) -> ClaimRequest {
        ClaimRequest { names: vec!["noop".into()], ..ClaimRequest::new(self.worker, limit, Duration::from_secs(3_600)) }
    }

    async fn claim(&self, limit: usize) -> Result<usize> {
        Ok(self.punctual.store().claim(self.request(limit)).await?.claims.len())
    }

    /// The duration of the claims, and of claims, settles and enqueues together.
    async fn turn(&self) -> Result<(Duration, Duration)> {
        let (mut claiming, start) = (Duration::ZERO, Instant::now());
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let claims = self.punctual.store().claim(self.request(CLAIM)).await?.claims;
            claiming += began.elapsed();
            let got = claims.len();
            ensure!(got == CLAIM, "{}: a claim of {CLAIM} got {got}: the run is invalid", self.case.name);
            let done = claims.iter().map(|claim| settle(claim, Outcome::Succeeded { result: None }, 0.5)).collect();
            self.punctual.store().settle(done).await?;
            // Enqueues as many jobs as were claimed, with the same keys.
            let again = claims.into_iter().map(|claim| {
                let draft = Draft::raw("noop", claim.job.spec.payload);
                match claim.job.spec.options.concurrency_key {
                    Some(key) => draft.concurrency_key(key),
                    None => draft,
                }
            });
            self.punctual.enqueue_all(again).await?;
        }
        Ok((claiming, start.elapsed()))
    }
}
