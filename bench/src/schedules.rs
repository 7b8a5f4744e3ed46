//! Measures many schedules that are due at the same instant: how fast their jobs are enqueued, and the effect on other
//! jobs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use punctual::{Context, Draft, Punctual, Recurring, Timestamp, Worker};
use serde_json::{Map, Value, json};
use tokio::{sync::mpsc, time};

use crate::{OnProgress, Settings, StoreFactory, check, object, payload, percentile};

/// Interval between enqueues of unrelated jobs meanwhile.
const PROBE_PERIOD: Duration = Duration::from_millis(20);

pub(crate) async fn schedules(
    stores: &StoreFactory,
    settings: &Settings,
    count: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let punctual = stores.fresh("schedules").await?;
    let put = Instant::now();
    // Far enough in the future that all schedules are stored before; hourly, so that they are due once.
    let due = punctual.store().now().after(Duration::from_secs(3_600));
    let recurring = |number| {
        Recurring::new(format!("s{number:06}"), "@every 1h", Draft::new("noop", &payload(number))).starts_at(due)
    };
    punctual.sync_schedules("bench", (0..count).map(recurring)).await?;
    let put_s = put.elapsed().as_secs_f64();
    let due = bring_near(&punctual, on_progress, count).await?;

    let late_ms = Arc::new(Mutex::new(Vec::<f64>::with_capacity(count)));
    let (late, (started, mut starts)) = (late_ms.clone(), mpsc::unbounded_channel());
    let worker = Worker::builder(punctual.clone())
        .handler("noop", move |ctx: Context| {
            let micros = ctx.punctual().store().now().as_micros() - ctx.claim().job.run_at.as_micros();
            late.lock().unwrap_or_else(PoisonError::into_inner).push(micros as f64 / 1e3);
            async { Ok(None) }
        })
        .handler("probe", move |_: Context| {
            let _ = started.send(Instant::now());
            async { Ok(None) }
        })
        .concurrency(settings.concurrency)
        .retention(None)
        .start()
        .await?;
    let mut probes: Vec<f64> = Vec::new();
    let mut enqueued_at = None;
    while late_ms.lock().unwrap_or_else(PoisonError::into_inner).len() < count {
        let requested = Instant::now();
        // With a higher priority than the scheduled jobs, which should wait.
        punctual.enqueue(Draft::new("probe", &payload(0)).priority(10)).await?;
        let start = starts.recv().await.context("the worker has gone")?;
        probes.push(start.duration_since(requested).as_secs_f64() * 1e3);
        let stored: u64 = punctual.store().counts().await?.iter().map(|jobs| jobs.count).sum();
        if enqueued_at.is_none() && stored >= (count + probes.len()) as u64 {
            enqueued_at = Some(punctual.store().now());
        }
        time::sleep(PROBE_PERIOD).await;
    }
    worker.until_empty().await;
    worker.stop().await;
    check::all_succeeded(&punctual, count + probes.len()).await?;
    let begin = due.before(punctual::core::schedule::AHEAD);
    let enqueue_s = enqueued_at.unwrap_or_else(|| punctual.store().now()).since(begin).as_secs_f64();
    let mut late = late_ms.lock().unwrap_or_else(PoisonError::into_inner).clone();
    late.sort_by(f64::total_cmp);
    probes.sort_by(f64::total_cmp);
    Ok(object(json!({
        "put_per_s": (count as f64 / put_s).round(),
        "enqueue_per_s": (count as f64 / enqueue_s).round(),
        "enqueue_s": enqueue_s,
        "late_ms_p50": percentile(&late, 0.50),
        "late_ms_max": percentile(&late, 1.0),
        "early": late.iter().filter(|late| **late < 0.0).count(),
        "others_pickup_ms_p50": percentile(&probes, 0.50),
        "others_pickup_ms_p99": percentile(&probes, 0.99),
        "others_pickup_ms_max": percentile(&probes, 1.0),
    })))
}

/// Makes all schedules due at the same instant, a few seconds from now; returns that instant.
async fn bring_near(punctual: &Punctual, on_progress: OnProgress<'_>, count: usize) -> Result<Timestamp> {
    let store = punctual.store();
    // The more schedules, the later: all of them have to be stored by then.
    let due = store.now().after(Duration::from_millis(2_000 + count as u64 / 4));
    let (mut after, mut done) = (None, 0);
    loop {
        let mut page = store.schedules(after, 1_000).await?;
        let Some(last) = page.last() else { return Ok(due) };
        after = Some(last.spec.name.clone());
        done += page.len() as u64;
        page.iter_mut().for_each(|schedule| schedule.next_run_at = Some(due));
        let save = |schedule| punctual::core::ScheduleSave { schedule, is_new: false, jobs: Vec::new(), done: None };
        store.save_schedules(page.into_iter().map(save).collect()).await?;
        on_progress("schedules", done, count as u64);
    }
}
