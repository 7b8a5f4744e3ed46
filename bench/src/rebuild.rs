//! Measures how long it takes to reload all jobs into Redis after it has lost them, while enqueues continue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use punctual::{
    Context, Punctual, Worker,
    postgres::sqlx::{self, AssertSqlSafe, PgConnection},
};
use serde_json::{Map, Value, json};
use tokio::time;

use crate::{OnProgress, StoreFactory, check, object, throughput};

/// The size of each enqueue during the reload, and the pause between enqueues.
const MEANWHILE: (usize, Duration) = (100, Duration::from_millis(20));

/// Empties Redis with `jobs` jobs queued, while one slow worker and one enqueuer continue.
pub(crate) async fn rebuild(
    stores: &StoreFactory,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let needs = "`rebuild` needs a Redis to empty: name one with --dispatch redis://…";
    let mut server = stores.server().await?.context(needs)?;
    let punctual = stores.fresh("rebuild").await?;
    let schema = stores.schema("rebuild").context(needs)?;
    let epochs = format!("select epoch, loaded from {schema}.punctual_dispatch_queues where queue = 'default'");
    throughput::bulk_enqueue(&punctual, jobs, on_progress).await?;
    let done = Arc::new(AtomicU64::new(0));
    let worker = slow_worker(&punctual, &done).await?;
    let (before, _) = epoch(&mut server, &epochs).await?;
    let memory = stores.dispatcher_memory_mib().await.context(needs)?;
    let stop = Arc::new(AtomicBool::new(false));
    let enqueuer = tokio::spawn(enqueue_on(punctual.clone(), jobs, stop.clone()));
    stores.empty_dispatcher().await?;
    let (start, had) = (Instant::now(), done.load(Ordering::Relaxed));
    let (mut first, mut all) = (None, None);
    while first.is_none() || all.is_none() {
        time::sleep(Duration::from_millis(10)).await;
        let (epoch, loaded) = epoch(&mut server, &epochs).await?;
        if epoch > before && loaded {
            all.get_or_insert_with(|| start.elapsed());
        }
        // Jobs that the worker had claimed when Redis was emptied are done by then.
        if epoch > before && done.load(Ordering::Relaxed) > had + 1 {
            first.get_or_insert_with(|| start.elapsed());
        }
    }
    stop.store(true, Ordering::Relaxed);
    let jobs = jobs + enqueuer.await??;
    worker.stop().await;
    let drain = Instant::now();
    let left = jobs as u64 - done.load(Ordering::Relaxed);
    let worker = throughput::noop_worker(&punctual, 3_000).await?;
    worker.until_empty().await;
    let drain = drain.elapsed().as_secs_f64();
    worker.stop().await;
    check::all_succeeded(&punctual, jobs).await?;
    Ok(object(json!({
        "first_job_s": first.map(|time| time.as_secs_f64()),
        "all_known_s": all.map(|time| time.as_secs_f64()),
        "drain_per_s": (left as f64 / drain).round(),
        "redis_memory_mib": memory.round(),
    })))
}

/// Starts a slow worker, so that the backlog remains.
async fn slow_worker(punctual: &Punctual, done: &Arc<AtomicU64>) -> Result<punctual::RunningWorker> {
    let done = done.clone();
    let handler = move |_: Context| {
        let done = done.clone();
        async move {
            time::sleep(Duration::from_millis(10)).await;
            done.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }
    };
    let worker = Worker::builder(punctual.clone()).handler("noop", handler).concurrency(1).retention(None);
    Ok(worker.start().await?)
}

/// Enqueues until it is stopped; returns the number of jobs.
async fn enqueue_on(punctual: Punctual, from: usize, stop: Arc<AtomicBool>) -> Result<usize> {
    let (count, pause) = MEANWHILE;
    let mut to = from;
    while !stop.load(Ordering::Relaxed) {
        punctual.enqueue_all(throughput::batch(to, to + count)).await?;
        to += count;
        time::sleep(pause).await;
    }
    Ok(to - from)
}

/// The queue's epoch, and whether Redis knows all its jobs.
async fn epoch(server: &mut PgConnection, query: &str) -> Result<(i64, bool)> {
    let row: Option<(i64, bool)> = sqlx::query_as(AssertSqlSafe(query.to_owned())).fetch_optional(server).await?;
    Ok(row.unwrap_or_default())
}
