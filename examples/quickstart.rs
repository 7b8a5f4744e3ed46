//! Define a job, start a worker, enqueue, wait for the result.
//!
//! `cargo run -p examples --example quickstart`

use std::time::Duration;

use punctual::{Context, Failure, Job, Punctual, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct SendEmail {
    to: String,
    subject: String,
}

impl Job for SendEmail {
    const NAME: &'static str = "send-email";
    const QUEUE: &'static str = "mail";
    type State = ();
    type Output = String;

    async fn run(self, ctx: Context, _: ()) -> Result<String, Failure> {
        ctx.info(format!("sending `{}` to {}, attempt {}", self.subject, self.to, ctx.attempt()));
        Ok(format!("message for {}", self.to))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let worker = Worker::builder(punctual.clone()).register::<SendEmail>(()).concurrency(8).start().await?;

    let job = punctual.enqueue(SendEmail { to: "ada@example.com".into(), subject: "Hello".into() }).await?;
    let done = punctual.wait(job.id, Duration::from_secs(30)).await?;
    println!("{} {}: {}", done.id, done.status, done.result.map(|json| json.as_str().to_owned()).unwrap_or_default());
    assert_eq!(done.status.as_str(), "succeeded");

    worker.stop().await;
    Ok(())
}
