//! Stop a worker: running jobs may finish; those that do not finish in time are returned to their queue at once.
//!
//! `cargo run -p examples --example graceful_shutdown`

use std::time::Duration;

use punctual::{Context, Failure, Job, Punctual, Status, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Render {
    steps: u64,
}

/// Works in steps and checks its stop signal between them.
async fn render(job: Render, ctx: Context) -> Result<(), Failure> {
    for step in 0..job.steps {
        ctx.progress(100.0 * step as f32 / job.steps as f32, "rendering");
        if ctx.signal().run_until_cancelled(tokio::time::sleep(Duration::from_millis(10))).await.is_none() {
            return Err(Failure::new("stop signal received"));
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let worker =
        Worker::builder(punctual.clone()).register(render).drain_timeout(Duration::from_secs(1)).start().await?;

    let short = punctual.enqueue(Render { steps: 5 }).await?.id;
    let long = punctual.enqueue(Render { steps: 1_000 }).await?.id;
    while worker.stats().running < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    worker.stop().await;

    let (short, long) = (punctual.job(short).await?, punctual.job(long).await?);
    println!("the short one: {}; the long one: {}, attempts spent: {}", short.status, long.status, long.attempt);
    assert_eq!(short.status, Status::Succeeded);
    assert_eq!(long.status, Status::Queued);
    assert_eq!(long.attempt, 0);
    Ok(())
}
