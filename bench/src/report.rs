//! Measures reports and lists over a long history.

use std::time::{Duration, Instant};

use anyhow::Result;
use punctual::{
    Draft, Filter, JobId, ManualClock, Page, Punctual, Status,
    core::{ClaimRequest, Clock as _, JobError, Outcome, Retry, SystemClock, WorkerId, settle},
};
use punctual_server::Server;
use serde_json::{Map, Value, json};

use crate::{OnProgress, StoreFactory, http, object, payload};

const DAYS: u64 = 90;
const NAMES: usize = 20;
const BATCH: usize = 5_000;

/// Stores `jobs` jobs over ninety days, one percent of them dead, and another one percent still pending; then measures
/// every report and every page.
pub(crate) async fn report(
    stores: &StoreFactory,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let now = SystemClock.now();
    let clock = ManualClock::at(now.before(Duration::from_secs(DAYS * 24 * 3_600)));
    let punctual = stores.fresh_at("report", clock.clone()).await?;
    let step = Duration::from_secs(DAYS * 24 * 3_600).mul_f64(BATCH as f64 / jobs.max(BATCH) as f64);
    let mut last = None;
    for start in (0..jobs).step_by(BATCH) {
        last = Some(history(&punctual, start, (start + BATCH).min(jobs)).await?);
        clock.advance(step);
        punctual.store().maintain().await?;
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

/// Stores jobs that were enqueued, executed and settled.
async fn history(punctual: &Punctual, from: usize, to: usize) -> Result<JobId> {
    let draft = |number: usize| {
        Draft::new(format!("name-{}", number % NAMES), &payload(number))
            .user(format!("user-{}", number % 500))
            .max_attempts(1)
    };
    let ids = punctual.enqueue_all((from..to).map(draft)).await?;
    let worker = WorkerId::from_bits(punctual.ids().next(punctual.store().now()));
    loop {
        let request = ClaimRequest::new(worker, 1_000, Duration::from_secs(60));
        let claims = punctual.store().claim(request).await?.claims;
        if claims.is_empty() {
            return Ok(ids[0].id);
        }
        let outcome = || match fastrand::u8(0..100) {
            0 => Outcome::Failed { fault: JobError::new("no"), retry: Retry::Never },
            _ => Outcome::Succeeded { result: None },
        };
        punctual.store().settle(claims.iter().map(|claim| settle(claim, outcome(), 0.5)).collect()).await?;
    }
}

async fn measure(punctual: &Punctual, some_job: Option<JobId>) -> Result<Map<String, Value>> {
    let mut ms = Times::default();
    query_all(punctual, some_job, &mut ms).await?;
    let mut pages_ms = Times::default();
    open_pages(punctual, some_job, &mut pages_ms).await?;
    Ok(object(json!({"ms": ms.0, "pages_ms": pages_ms.0})))
}

/// The queries, with the milliseconds of the first and of the fastest run: the first one reads from disk what later
/// ones find in memory.
#[derive(Default)]
struct Times(Map<String, Value>);

impl Times {
    async fn take<T>(&mut self, name: &str, question: impl AsyncFn() -> Result<T>) -> Result<()> {
        let mut took = Vec::with_capacity(3);
        for _ in 0..3 {
            let start = Instant::now();
            question().await?;
            took.push((start.elapsed().as_secs_f64() * 1e5).round() / 1e2);
        }
        let best = took.iter().copied().fold(f64::INFINITY, f64::min);
        self.0.insert(name.into(), json!(best));
        self.0.insert(format!("{name}_first"), json!(took[0]));
        Ok(())
    }
}

/// Runs every report, and lists with every filter.
async fn query_all(punctual: &Punctual, some_job: Option<JobId>, ms: &mut Times) -> Result<()> {
    let (admin, now) = (&punctual.admin("bench"), punctual.store().now());
    let day = Duration::from_secs(24 * 3_600);
    let (yesterday, week, quarter) = (now.before(day), now.before(7 * day), now.before(90 * day));
    ms.take("overview", async || Ok(admin.overview().await?)).await?;
    ms.take("failures_yesterday", async || Ok(admin.failures(yesterday, now).await?)).await?;
    ms.take("failures_90_days", async || Ok(admin.failures(quarter, now).await?)).await?;
    ms.take("stuck", async || Ok(admin.stuck(Duration::from_secs(3_600)).await?)).await?;
    ms.take("pending_by_user", async || Ok(admin.pending().await?)).await?;
    ms.take("success_rates_week", async || Ok(admin.success_rates(week, now).await?)).await?;
    ms.take("durations_week", async || Ok(admin.durations(week, now).await?)).await?;
    let name = || Some("name-7".to_owned());
    let lists = [
        ("list_newest", Filter::default()),
        ("list_dead", Filter::status(Status::Dead)),
        ("list_succeeded", Filter::status(Status::Succeeded)),
        ("list_queued", Filter::status(Status::Queued)),
        ("list_name", Filter { name: name(), ..Filter::default() }),
        ("list_user", Filter { user_id: Some("user-7".into()), ..Filter::default() }),
        ("list_dead_of_name", Filter { name: name(), ..Filter::status(Status::Dead) }),
    ];
    for (list, filter) in &lists {
        ms.take(list, async || Ok(admin.jobs(filter.clone(), Page::first(50)).await?)).await?;
    }
    if let Some(id) = some_job {
        ms.take("job", async || Ok(admin.job(id).await?)).await?;
    }
    Ok(())
}

/// Requests the pages of the dashboard, like a browser.
async fn open_pages(punctual: &Punctual, some_job: Option<JobId>, ms: &mut Times) -> Result<()> {
    let server = Server::new(punctual.clone()).start(([127, 0, 0, 1], 0).into()).await?;
    let client = http::client()?;
    let mut pages: Vec<String> = [
        "/",
        "/jobs",
        "/jobs?status=dead",
        "/jobs?status=succeeded",
        "/jobs?status=queued&user=user-7",
        "/jobs?name=name-7",
        "/jobs?q=name-7",
        "/jobs?q=nowhere",
        "/jobs?status=dead&name=name-7&bulk=retry",
        "/jobs?status=dead&bulk=retry",
        "/queues",
        "/queues/default",
        "/workflows",
        "/schedules",
        "/workers",
        "/locks",
        "/reports",
        "/notifications",
    ]
    .map(str::to_owned)
    .into();
    pages.extend(some_job.map(|id| format!("/jobs/{id}")));
    for page in pages {
        let (name, url) = (page.split("job_").next().unwrap_or(&page), format!("{}{page}", server.url()));
        let get = async || Ok(client.get(&url).send().await?.error_for_status()?.bytes().await?);
        ms.take(name, get).await?;
    }
    server.stop(Duration::from_secs(1)).await;
    Ok(())
}
