//! Test your own jobs: a clock that the test sets, and a worker that runs jobs when called.
//!
//! `cargo run -p examples --example testing`

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use punctual::{
    Context, Draft, Job, ManualClock, Punctual, RetryPolicy, Status, Worker,
    sqlite::{Options, SqliteStore},
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Job)]
#[job(retry = RetryPolicy::fixed(Duration::from_secs(3_600)).jitter(0.0))]
struct Remind {
    user: String,
}

async fn remind(job: Remind, ctx: Context, sent: Arc<AtomicU32>) -> anyhow::Result<()> {
    anyhow::ensure!(ctx.attempt() > 1, "{} cannot be reached", job.user);
    sent.fetch_add(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let clock = ManualClock::at("2026-03-01T12:00:00Z".parse()?);
    let options = Options::new(folder.path().join("test.db")).clock(clock.clone());
    let punctual = Punctual::new(Arc::new(SqliteStore::open(options).await?));
    let sent = Arc::new(AtomicU32::new(0));
    let worker = Worker::builder(punctual.clone()).state(sent.clone()).register(remind).manual()?;

    let job = punctual.enqueue(Draft::from(Remind { user: "ada".into() }).delay(Duration::from_secs(60))).await?.id;
    assert!(worker.run_all().await?.is_empty(), "not before its time");

    clock.advance(Duration::from_secs(60));
    assert_eq!(worker.run_all().await?[0].status, Status::Retrying);

    clock.advance(Duration::from_secs(3_600));
    assert_eq!(worker.run_all().await?[0].status, Status::Succeeded);
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    println!("{job} failed once, was tried again an hour later, and succeeded; no time has passed");
    Ok(())
}
