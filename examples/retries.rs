//! Fail and be retried, fail permanently, retry at a given time, or snooze without a failure.
//!
//! `cargo run -p examples --example retries`

use std::time::Duration;

use punctual::{Context, Draft, Failure, Job, Punctual, RetryPolicy, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
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

impl Job for Charge {
    const NAME: &'static str = "charge";
    const MAX_ATTEMPTS: u32 = 3;
    type State = ();
    type Output = ();

    fn retry() -> RetryPolicy {
        RetryPolicy::exponential(Duration::from_millis(100)).cap(Duration::from_secs(60))
    }

    async fn run(self, ctx: Context, _: ()) -> Result<(), Failure> {
        let first_run = ctx.claim().job.run == 1;
        match self {
            Self::Flaky if ctx.attempt() < 3 => Err(Failure::new("connection reset")),
            Self::Refused => Err(Failure::permanent("the card is reported stolen")),
            Self::Busy if first_run => Err(Failure::retry_after(Duration::from_millis(300), "429 Too Many Requests")),
            Self::Early if first_run => Err(Failure::snooze(Duration::from_millis(200))),
            _ => Ok(()),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (_folder, url) = examples::temporary_store()?;
    let punctual = Punctual::connect(&url).await?;
    let worker = Worker::builder(punctual.clone()).register::<Charge>(()).start().await?;

    for (what, charge) in
        [("flaky", Charge::Flaky), ("refused", Charge::Refused), ("busy", Charge::Busy), ("early", Charge::Early)]
    {
        let job = punctual.enqueue(Draft::from(charge).tag(what)).await?;
        let done = punctual.wait(job.id, Duration::from_secs(30)).await?;
        let why = done.error.map(|fault| format!(", last error: {fault}")).unwrap_or_default();
        println!("{what}: {} after {} attempts in {} runs{why}", done.status, done.attempt, done.run);
    }

    worker.stop().await;
    Ok(())
}
