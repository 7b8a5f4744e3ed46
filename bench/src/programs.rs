//! Measures programs as handlers: throughput, and latency from enqueue to the end of the job.

use std::time::{Duration, Instant};

use anyhow::Result;
use punctual::{Draft, Program, Punctual, RunningWorker, Worker};
use serde_json::{Map, Value, json};
use tokio::time;

use crate::{OnProgress, StoreFactory, check, object, payload, percentile};

/// Number of concurrent jobs.
const CONCURRENCY: usize = 8;
/// Number of jobs, run one after the other, for latency.
const SAMPLES: usize = 200;

/// Measures one process per job, and a pool; in both, the program is a shell that does as little as possible.
pub(crate) async fn programs(
    stores: &StoreFactory,
    jobs: usize,
    on_progress: OnProgress<'_>,
) -> Result<Map<String, Value>> {
    let once = Program::shell("read -r payload; echo 1");
    let answer = r#"while read -r job; do echo '{"punctual":"done","result":1}'; done"#;
    let pool = Program { pool: Some(CONCURRENCY), ..Program::shell(answer) };
    Ok(object(json!({
        "once": measure(stores, ProgramCase { name: "once", program: once, jobs }, on_progress).await?,
        "pool": measure(stores, ProgramCase { name: "pool", program: pool, jobs: 10 * jobs }, on_progress).await?,
        "at_once": CONCURRENCY,
    })))
}

/// A program, and the number of jobs that it runs.
struct ProgramCase {
    name: &'static str,
    program: Program,
    jobs: usize,
}

async fn measure(stores: &StoreFactory, case: ProgramCase, on_progress: OnProgress<'_>) -> Result<Value> {
    let ProgramCase { name, program, jobs } = case;
    let punctual = stores.fresh(name).await?;
    let worker = Worker::builder(punctual.clone())
        .handler(name, program.handler()?)
        .concurrency(CONCURRENCY)
        .retention(None)
        .start()
        .await?;
    let mut millis = latencies(&punctual, &worker, name, on_progress).await?;
    punctual.enqueue_all((0..jobs).map(|number| Draft::new(name, &payload(number)))).await?;
    let began = Instant::now();
    worker.until_empty().await;
    let per_s = jobs as f64 / began.elapsed().as_secs_f64();
    worker.stop().await;
    check::all_succeeded(&punctual, jobs + SAMPLES).await?;
    millis.sort_by(f64::total_cmp);
    Ok(json!({"per_s": per_s, "ms_p50": percentile(&millis, 0.5), "ms_p99": percentile(&millis, 0.99)}))
}

/// Latencies from enqueue until the job's end is stored, on an idle machine.
async fn latencies(
    punctual: &Punctual,
    worker: &RunningWorker,
    name: &'static str,
    on_progress: OnProgress<'_>,
) -> Result<Vec<f64>> {
    let mut millis = Vec::with_capacity(SAMPLES);
    for number in 0..SAMPLES {
        worker.until_empty().await;
        time::sleep(Duration::from_millis(2)).await;
        let requested = Instant::now();
        let job = punctual.enqueue(Draft::new(name, &payload(number))).await?;
        punctual.wait(job.id, Duration::from_secs(60)).await?;
        millis.push(requested.elapsed().as_secs_f64() * 1e3);
        on_progress("samples", number as u64, SAMPLES as u64);
    }
    Ok(millis)
}
