//! Define a job, start a worker, enqueue, wait for the result.
//!
//! `cargo run -p examples --example quickstart`

use std::time::Duration;

use punctual::{Context, Job, Punctual, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(queue = "mail")]
struct SendEmail {
    to: String,
    subject: String,
}

async fn send_email(job: SendEmail, ctx: Context) -> anyhow::Result<String> {
    ctx.info(format!("sending `{}` to {}, attempt {}", job.subject, job.to, ctx.attempt()));
    Ok(format!("message for {}", job.to))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let worker = Worker::builder(punctual.clone()).register(send_email).concurrency(8).start().await?;

    let job = punctual.enqueue(SendEmail { to: "ada@example.com".into(), subject: "Hello".into() }).await?;
    let done = punctual.wait(job.id, Duration::from_secs(30)).await?;
    println!("{} {}: {}", done.id, done.status, done.result.map(|json| json.as_str().to_owned()).unwrap_or_default());
    assert_eq!(done.status.as_str(), "succeeded");

    worker.stop().await;
    Ok(())
}
