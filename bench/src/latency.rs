//! Measures how soon a job starts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use punctual::{Context, Draft, Worker};
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc, time};

use crate::{OnProgress, StoreFactory, check, object, payload, percentile, usage::Metronome};

/// Latency on an idle system: from the call of enqueue to the start of the handler.
pub(crate) async fn pickup(
    stores: &StoreFactory,
    samples: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let punctual = stores.fresh("pickup").await?;
    let (started, mut starts) = mpsc::unbounded_channel();
    let worker = Worker::builder(punctual.clone())
        .handler("noop", move |_: Context| {
            let _ = started.send(Instant::now());
            async { Ok(None) }
        })
        .retention(None)
        .start()
        .await?;
    worker.until_empty().await;
    let mut millis = Vec::with_capacity(samples);
    for number in 0..samples {
        // Idle means that the previous job is settled and the claimer waits again.
        worker.until_empty().await;
        time::sleep(Duration::from_millis(2)).await;
        let requested = Instant::now();
        punctual.enqueue(Draft::new("noop", &payload(number))).await?;
        let start = starts.recv().await.context("the worker has gone")?;
        millis.push(start.duration_since(requested).as_secs_f64() * 1e3);
        on_progress("samples", number as u64, samples as u64);
    }
    worker.until_empty().await;
    worker.stop().await;
    check::all_succeeded(&punctual, samples).await?;
    millis.sort_by(f64::total_cmp);
    Ok(object(json!({
        "ms_p50": percentile(&millis, 0.50),
        "ms_p99": percentile(&millis, 0.99),
        "ms_max": percentile(&millis, 1.0),
    })))
}

/// Jobs scheduled at random milliseconds over ten seconds: how late each one starts.
pub(crate) async fn ontime(stores: &StoreFactory, jobs: usize) -> Result<Map<String, Value>> {
    const SPAN_MS: u64 = 10_000;
    let punctual = stores.fresh("ontime").await?;
    let late_micros = Arc::new(std::sync::Mutex::new(Vec::<i64>::with_capacity(jobs)));
    let late = late_micros.clone();
    let worker = Worker::builder(punctual.clone())
        .handler("noop", move |ctx: Context| {
            let late = late.clone();
            async move {
                let now = ctx.punctual().store().now();
                let micros = now.as_micros() - ctx.claim().job.scheduled_at().as_micros();
                late.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(micros);
                Ok(None)
            }
        })
        .concurrency(1_000)
        .retention(None)
        .start()
        .await?;
    // Far enough in the future that all jobs are stored before the first is due.
    let first = punctual.store().now().after(Duration::from_secs(2));
    let draft = |number| {
        let at = first.after(Duration::from_millis(fastrand::u64(0..SPAN_MS)));
        Draft::new("noop", &payload(number)).run_at(at)
    };
    punctual.enqueue_all((0..jobs.min(10_000)).map(draft)).await?;
    let metronome = Metronome::start();
    let end = Instant::now() + Duration::from_millis(SPAN_MS + 3_000);
    time::sleep_until(end.into()).await;
    let machine = metronome.stop();
    worker.until_empty().await;
    worker.stop().await;
    check::all_succeeded(&punctual, jobs.min(10_000)).await?;
    let micros = late_micros.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let mut millis: Vec<f64> = micros.iter().map(|micros| *micros as f64 / 1e3).collect();
    millis.sort_by(f64::total_cmp);
    Ok(object(json!({
        "late_ms_p50": percentile(&millis, 0.50),
        "late_ms_p99": percentile(&millis, 0.99),
        "late_ms_max": percentile(&millis, 1.0),
        "early": micros.iter().filter(|micros| **micros < 0).count(),
        "machine_late_ms_p99": percentile(&machine, 0.99),
    })))
}
