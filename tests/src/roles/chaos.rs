//! A worker under load that survives failures.

use std::{
    path::Path,
    process,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use punctual::{Context, Error, Failure, Punctual, RunningWorker, Worker};

use crate::ledger::Ledger;

/// The duration of its leases.
pub const LEASE: Duration = Duration::from_secs(3);
/// A server that it needs may be unavailable when it starts.
const START_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Runs jobs until the worker gives up; then the process ends.
pub(super) async fn work(url: &str, ledger: &Path) {
    let starts = Arc::new(Ledger::open(ledger));
    let worker = loop {
        match start(url, Arc::clone(&starts)).await {
            Ok(worker) => break worker,
            Err(_) => tokio::time::sleep(START_AGAIN_AFTER).await,
        }
    };
    worker.failed().await;
    process::exit(1);
}

async fn start(url: &str, starts: Arc<Ledger>) -> Result<RunningWorker, Error> {
    let worker = Worker::builder(Punctual::connect(url).await?).handler("x", move |ctx: Context| {
        starts.write(&format!("{} {} {}\n", ctx.id(), ctx.claim().job.run, now_micros()));
        async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..200))).await;
            let fails = ctx.claim().job.spec.payload.read::<u32>().unwrap().is_multiple_of(10);
            if fails && ctx.attempt() == 1 { Err(Failure::new("as planned")) } else { Ok(None) }
        }
    });
    worker.concurrency(20).lease(LEASE).start().await
}

/// The time of the machine, which all processes share.
pub fn now_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}
