//! Reports and lists over a long history.

use std::time::{Duration, Instant};

use anyhow::Result;
use punctual::{
    Draft, Filter, JobId, ManualClock, Page, Punctual, Status,
    core::{ClaimRequest, Clock as _, Fault, Outcome, Retry, SystemClock, WorkerId, settle},
};
use serde_json::{Map, Value, json};

use crate::{OnProgress, Place, object, payload};

const DAYS: u64 = 90;
const NAMES: usize = 20;
const BATCH: usize = 5_000;

/// `jobs` jobs over ninety days, one in a hundred dead, and a hundred thousand still pending; then every report.
pub(crate) async fn report(place: &Place, jobs: usize, on_progress: OnProgress<'_>) -> Result<Map<String, Value>> {
    let now = SystemClock.now();
    let clock = ManualClock::at(now.before(Duration::from_secs(DAYS * 24 * 3_600)));
    let punctual = place.fresh_at("report", clock.clone()).await?;
    let step = Duration::from_secs(DAYS * 24 * 3_600).mul_f64(BATCH as f64 / jobs.max(BATCH) as f64);
    let mut last = None;
    for start in (0..jobs).step_by(BATCH) {
        last = Some(history(&punctual, start, (start + BATCH).min(jobs)).await?);
        clock.advance(step);
        punctual.store().tend().await?;
        on_progress("history", start as u64, jobs as u64);
    }
    clock.set(now);
    for start in (0..(jobs / 100).max(1)).step_by(BATCH) {
        let draft = |number: usize| {
            Draft::new(format!("name-{}", number % NAMES), &payload(number)).user(format!("user-{}", number % 500))
        };
        punctual.enqueue_all((start..start + BATCH.min(jobs)).map(draft)).await?;
    }
    measure(&punctual, last).await
}

/// Jobs that were enqueued, run and settled.
async fn history(punctual: &Punctual, from: usize, to: usize) -> Result<JobId> {
    let draft = |number: usize| {
        Draft::new(format!("name-{}", number % NAMES), &payload(number))
            .user(format!("user-{}", number % 500))
            .max_attempts(1)
    };
    let ids = punctual.enqueue_all((from..to).map(draft)).await?;
    let worker = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
    loop {
        let request = ClaimRequest {
            worker,
            queues: vec![],
            in_order: false,
            names: vec![],
            limit: 1_000,
            lease: Duration::from_secs(60),
            ahead: Duration::ZERO,
            wait: Duration::ZERO,
        };
        let claims = punctual.store().claim(request).await?.claims;
        if claims.is_empty() {
            return Ok(ids[0].id);
        }
        let outcome = || match fastrand::u8(0..100) {
            0 => Outcome::Failed { fault: Fault::new("no"), retry: Retry::Never },
            _ => Outcome::Succeeded { result: None },
        };
        punctual.store().settle(claims.iter().map(|claim| settle(claim, outcome(), 0.5)).collect()).await?;
    }
}

async fn measure(punctual: &Punctual, some_job: Option<JobId>) -> Result<Map<String, Value>> {
    let (admin, now) = (punctual.admin("bench"), punctual.store().now());
    let day = Duration::from_secs(24 * 3_600);
    let (yesterday, week) = (now.before(day), now.before(7 * day));
    let page = || Page::first(50);
    let mut ms = Map::new();
    macro_rules! time {
        ($name:literal, $query:expr) => {{
            // The best of three: the first one reads from the disk what an operator's second look finds in memory.
            let mut best = f64::INFINITY;
            let mut first = 0.0;
            for round in 0..3 {
                let start = Instant::now();
                $query.await?;
                let took = start.elapsed().as_secs_f64() * 1e3;
                best = best.min(took);
                if round == 0 {
                    first = took;
                }
            }
            ms.insert($name.into(), json!((best * 100.0).round() / 100.0));
            ms.insert(concat!($name, "_first").into(), json!((first * 100.0).round() / 100.0));
        }};
    }
    time!("overview", admin.overview());
    time!("failures_yesterday", admin.failures(yesterday, now));
    time!("failures_90_days", admin.failures(now.before(90 * day), now));
    time!("stuck", admin.stuck(Duration::from_secs(3_600)));
    time!("pending_by_user", admin.pending());
    time!("success_rates_week", admin.success_rates(week, now));
    time!("durations_week", admin.durations(week, now));
    time!("list_newest", admin.jobs(Filter::default(), page()));
    time!("list_dead", admin.jobs(Filter::status(Status::Dead), page()));
    time!("list_succeeded", admin.jobs(Filter::status(Status::Succeeded), page()));
    time!("list_queued", admin.jobs(Filter::status(Status::Queued), page()));
    time!("list_name", admin.jobs(Filter { name: Some("name-7".into()), ..Filter::default() }, page()));
    time!("list_user", admin.jobs(Filter { user_id: Some("user-7".into()), ..Filter::default() }, page()));
    time!(
        "list_dead_of_name",
        admin.jobs(Filter { name: Some("name-7".into()), ..Filter::status(Status::Dead) }, page())
    );
    if let Some(id) = some_job {
        time!("job", admin.job(id));
    }
    Ok(object(json!({"ms": ms})))
}
