//! Jobs with dependencies: two jobs return numbers, a third one adds them, and a callback runs at the end.
//!
//! `cargo run -p examples --example workflow`

use std::time::Duration;

use punctual::{Context, Draft, Failure, Job, Punctual, Worker, Workflow};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
struct Number(u64);

async fn number(job: Number, _: Context) -> Result<u64, Failure> {
    Ok(job.0)
}

#[derive(Serialize, Deserialize, Job)]
#[job(parent_results)]
struct Sum;

async fn sum(_: Sum, ctx: Context) -> Result<u64, Failure> {
    Ok(ctx.parent_result::<u64>("left")? + ctx.parent_result::<u64>("right")?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let worker = Worker::builder(punctual.clone())
        .register(number)
        .register(sum)
        .handler("notify", |ctx: Context| async move {
            println!("{}", ctx.claim().job.spec.payload.as_str());
            Ok(None)
        })
        .start()
        .await?;
    let mut workflow = Workflow::new("addition");
    workflow.job("left", Number(40));
    workflow.job("right", Number(2));
    workflow.job("sum", Sum).after(["left", "right"]);
    workflow.on_complete(Draft::new("notify", &"all jobs have ended"));
    let id = punctual.submit(workflow).await?;
    let done = punctual.wait_workflow(id, Duration::from_secs(30)).await?;
    println!("{} is {}: {:?}", done.name, done.status(), punctual.admin("example").workflow(id).await?.result);
    worker.stop().await;
    Ok(())
}
