//! Workers of jobs that are never to run at the same time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    future,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use punctual::{Context, Failure, Job, Punctual, Worker};
use serde::{Deserialize, Serialize};

/// Number of workers of the process.
const WORKERS: usize = 4;
const LEASE: Duration = Duration::from_secs(3);

/// A job that holds a lock on a file of its key while it runs. The system releases the lock of a process that dies.
#[derive(Debug, Serialize, Deserialize)]
pub struct Guarded {
    /// Its concurrency key.
    pub key: Option<String>,
}

impl Job for Guarded {
    const NAME: &'static str = "guarded";
    const MAX_ATTEMPTS: u32 = 1_000;

    fn concurrency_key(&self) -> Option<String> {
        self.key.clone()
    }
}

async fn guarded(job: Guarded, _: Context, ledger: PathBuf) -> Result<(), Failure> {
    let Some(key) = &job.key else { return Ok(()) };
    let file = File::create(ledger.with_extension(key)).unwrap();
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        writeln!(OpenOptions::new().create(true).append(true).open(&ledger).unwrap(), "{key} twice at once").unwrap();
    }
    tokio::task::yield_now().await;
    Ok(())
}

/// Runs jobs until the process is killed, and records those that run at the same time as another of their key.
pub(super) async fn work(url: &str, ledger: &Path) {
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let punctual = Punctual::connect(url).await.unwrap();
        let worker = Worker::builder(punctual).state(ledger.to_owned()).register(guarded).concurrency(16);
        workers.push(worker.lease(LEASE).start().await.unwrap());
    }
    future::pending::<()>().await;
}
