//! Measures jobs per second.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use punctual::{Context, Draft, Punctual, RunningWorker, Worker};
use serde_json::{Map, Value, json};
use tokio::time;

use crate::{OnProgress, Settings, StoreFactory, check, object, payload, percentile, usage::Usage};

/// Jobs per bulk enqueue.
const BATCH: usize = 1_000;

pub(crate) async fn noop_worker(punctual: &Punctual, concurrency: usize) -> Result<RunningWorker> {
    let worker = Worker::builder(punctual.clone())
        .handler("noop", |_: Context| async { Ok(None) })
        .concurrency(concurrency)
        .retention(None);
    Ok(worker.start().await?)
}

pub(crate) fn batch(from: usize, to: usize) -> Vec<Draft> {
    (from..to).map(|number| Draft::new("noop", &payload(number))).collect()
}

/// Bulk enqueue; then one worker drains the queue.
pub(crate) async fn lifecycle(
    stores: &StoreFactory,
    settings: &Settings,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let punctual = stores.fresh("lifecycle").await?;
    let (server, dispatcher) = (stores.server_cpu_s(), stores.dispatcher_cpu_s().await);
    let start = Instant::now();
    bulk_enqueue(&punctual, jobs, on_progress).await?;
    let enqueue = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let worker = noop_worker(&punctual, settings.concurrency).await?;
    worker.until_empty().await;
    let drain = start.elapsed().as_secs_f64();
    worker.stop().await;
    let peak = Usage::now().peak_memory_mib;
    let us_per_job = |after: Option<f64>, before| {
        after.zip(before).map(|(after, before): (f64, f64)| (after - before) * 1e6 / jobs as f64)
    };
    let server_us = us_per_job(stores.server_cpu_s(), server);
    let dispatcher_us = us_per_job(stores.dispatcher_cpu_s().await, dispatcher);
    check::all_succeeded(&punctual, jobs).await?;
    let rate = |seconds: f64| (jobs as f64 / seconds).round();
    let mut fields = object(json!({
        "enqueue_per_s": rate(enqueue),
        "drain_per_s": rate(drain),
        "lifecycle_per_s": rate(enqueue + drain),
        "peak_memory_mib": peak,
    }));
    for (field, micros) in [("server_cpu_us_per_job", server_us), ("redis_cpu_us_per_job", dispatcher_us)] {
        if let Some(micros) = micros {
            fields.insert(field.into(), micros.into());
        }
    }
    Ok(fields)
}

/// Enqueues in batches from two tasks, so that one batch is prepared while another is stored.
pub(crate) async fn bulk_enqueue(punctual: &Punctual, jobs: usize, on_progress: OnProgress<'_>) -> Result<()> {
    const PRODUCERS: usize = 2;
    let produce = |producer: usize| {
        let punctual = punctual.clone();
        async move {
            for from in (producer * BATCH..jobs).step_by(PRODUCERS * BATCH) {
                punctual.enqueue_all(batch(from, (from + BATCH).min(jobs))).await?;
            }
            anyhow::Ok(())
        }
    };
    let producers: Vec<_> = (0..PRODUCERS).map(|producer| tokio::spawn(produce(producer))).collect();
    for (done, producer) in producers.into_iter().enumerate() {
        producer.await??;
        on_progress("enqueue", ((done + 1) * jobs / PRODUCERS) as u64, jobs as u64);
    }
    Ok(())
}

/// Concurrent enqueue and work at the highest sustainable rate: two enqueuers that pause whenever the backlog is long.
pub(crate) async fn steady(
    stores: &StoreFactory,
    settings: &Settings,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    const BACKLOG_MAX: u64 = 5_000;
    const STEADY_BATCH: usize = 500;
    let punctual = stores.fresh("steady").await?;
    let (enqueued, finished) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let lateness = Arc::new(std::sync::Mutex::new(Vec::<f64>::new()));
    let (handled, late) = (finished.clone(), lateness.clone());
    let worker = Worker::builder(punctual.clone())
        .handler("noop", move |ctx: Context| {
            let (handled, late) = (handled.clone(), late.clone());
            async move {
                let number = handled.fetch_add(1, Ordering::Relaxed);
                // Every hundredth sample is enough for a percentile.
                if number.is_multiple_of(100) {
                    let waited = ctx.punctual().store().now().since(ctx.claim().job.created_at);
                    late.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(waited.as_secs_f64() * 1e3);
                }
                Ok(None)
            }
        })
        .concurrency(settings.concurrency)
        .retention(None)
        .start()
        .await?;
    let start = Instant::now();
    let end = start + Duration::from_secs(settings.seconds);
    let mut enqueuers = Vec::new();
    for _ in 0..2 {
        let (punctual, enqueued, finished) = (punctual.clone(), enqueued.clone(), finished.clone());
        enqueuers.push(tokio::spawn(async move {
            while Instant::now() < end {
                let backlog = enqueued.load(Ordering::Relaxed).saturating_sub(finished.load(Ordering::Relaxed));
                if backlog > BACKLOG_MAX {
                    time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
                let from = enqueued.fetch_add(STEADY_BATCH as u64, Ordering::Relaxed) as usize;
                punctual.enqueue_all(batch(from, from + STEADY_BATCH)).await?;
            }
            anyhow::Ok(())
        }));
    }
    while Instant::now() < end {
        time::sleep(Duration::from_millis(200)).await;
        on_progress("seconds", start.elapsed().as_secs(), settings.seconds);
    }
    for enqueuer in enqueuers {
        enqueuer.await??;
    }
    worker.until_empty().await;
    let seconds = start.elapsed().as_secs_f64();
    worker.stop().await;
    let (done, peak) = (enqueued.load(Ordering::Relaxed), Usage::now().peak_memory_mib);
    check::all_succeeded(&punctual, done as usize).await?;
    let mut late = lateness.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    late.sort_by(f64::total_cmp);
    Ok(object(json!({
        "per_s": (done as f64 / seconds).round(),
        "run_again": finished.load(Ordering::Relaxed) - done,
        "pickup_ms_p50": percentile(&late, 0.50),
        "pickup_ms_p99": percentile(&late, 0.99),
        "seconds": seconds,
        "peak_memory_mib": peak,
    })))
}

/// Enqueue of single jobs, from 1 task and from 64.
pub(crate) async fn single(stores: &StoreFactory, jobs: usize) -> Result<Map<String, Value>> {
    let alone = rate_of_tasks(stores, 1, (jobs / 5).max(1)).await?;
    let crowd = rate_of_tasks(stores, 64, jobs.max(64)).await?;
    Ok(object(json!({"per_s_1": alone, "per_s_64": crowd})))
}

async fn rate_of_tasks(stores: &StoreFactory, tasks: usize, jobs: usize) -> Result<f64> {
    let punctual = stores.fresh(&format!("single-{tasks}")).await?;
    let start = Instant::now();
    let mut running = Vec::new();
    for task in 0..tasks {
        let punctual = punctual.clone();
        running.push(tokio::spawn(async move {
            for number in (task..jobs).step_by(tasks) {
                punctual.enqueue(Draft::new("noop", &payload(number))).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in running {
        task.await??;
    }
    let rate = jobs as f64 / start.elapsed().as_secs_f64();
    let worker = noop_worker(&punctual, 1_000).await?;
    worker.until_empty().await;
    worker.stop().await;
    check::all_succeeded(&punctual, jobs).await?;
    Ok(rate.round())
}
