//! Fail and be retried, fail permanently, retry at a given time, or snooze without a failure.
//!
//! `cargo run -p examples --example retries`

use std::{
    io::{self, ErrorKind},
    time::Duration,
};

use punctual::{Context, Draft, Failure, Job, Punctual, RetryPolicy, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(max_attempts = 3, retry = RetryPolicy::exponential(Duration::from_millis(100)).cap(Duration::from_secs(60)))]
enum Charge {
    /// The bank is unavailable for two attempts.
    Flaky,
    /// The card is stolen: a retry would not help.
    Refused,
    /// The bank responds with the time of the next attempt.
    Busy,
    /// The order is not packed yet: a snooze is not a failure and costs no attempt.
    Early,
}

async fn charge(job: Charge, ctx: Context) -> Result<(), Failure> {
    let first_run = ctx.claim().job.run == 1;
    match job {
        // Any other error is retried by the job's policy, too.
        Charge::Flaky if ctx.attempt() < 3 => Err(io::Error::from(ErrorKind::ConnectionReset).into()),
        Charge::Refused => Err(Failure::permanent("the card is reported stolen")),
        Charge::Busy if first_run => Err(Failure::retry_after(Duration::from_millis(300), "429 Too Many Requests")),
        Charge::Early if first_run => Err(Failure::snooze(Duration::from_millis(200))),
        _ => Ok(()),
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let worker = Worker::builder(punctual.clone()).register(charge).start().await?;

    for (what, job) in
        [("flaky", Charge::Flaky), ("refused", Charge::Refused), ("busy", Charge::Busy), ("early", Charge::Early)]
    {
        let enqueued = punctual.enqueue(Draft::from(job).tag(what)).await?;
        let done = punctual.wait(enqueued.id, Duration::from_secs(30)).await?;
        let why = done.error.map(|fault| format!(", last error: {fault}")).unwrap_or_default();
        println!("{what}: {} after {} attempts in {} runs{why}", done.status, done.attempt, done.run);
    }

    worker.stop().await;
    Ok(())
}
