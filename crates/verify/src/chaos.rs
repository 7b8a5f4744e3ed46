//! The chaos run: worker processes under load that are killed and suspended at random.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use futures_util::future;
use punctual::{Draft, Error, Punctual, core::Limits};
use punctual_bench::StoreFactory;
use tokio::time;

use crate::{
    FaultCount, Guarantee, OnProgress, Settings,
    jobs::{self, Acknowledged, Kind, LIMITED},
    judge::{self, Observations},
    record,
    workers::{LEASE, Workers},
};

/// Number of worker processes.
const PROCESSES: usize = 4;
/// Number of tasks that enqueue jobs.
const ENQUEUERS: usize = 2;
/// Clients pause while more jobs than this are unfinished.
const BACKLOG: u64 = 2_000;
/// Retry interval after a transient error of the store.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// Maximum time after the last fault without any job being finished.
const STALLED: Duration = Duration::from_secs(120);

pub(crate) struct Chaos {
    /// The number of acknowledged jobs.
    pub(crate) jobs: usize,
    pub(crate) faults: Vec<FaultCount>,
    pub(crate) guarantees: Vec<Guarantee>,
}

pub(crate) async fn run(stores: &StoreFactory, settings: &Settings, on_progress: OnProgress<'_>) -> Result<Chaos> {
    let url = stores.fresh_url("chaos").await?;
    let punctual = Punctual::connect(&url).await?;
    let limits = Limits { concurrency: Some(LIMITED.1), ..Limits::default() };
    punctual.admin("verify").set_queue_limits(LIMITED.0, limits).await?;
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let mut workers = Workers::start(&settings.program, &url, folder.path(), PROCESSES)?;
    let (acknowledged, stop) = (Arc::new(Mutex::new(Acknowledged::new())), Arc::new(AtomicBool::new(false)));
    let enqueuers: Vec<_> =
        (0..ENQUEUERS).map(|_| tokio::spawn(enqueue(punctual.clone(), acknowledged.clone(), stop.clone()))).collect();
    let faults = interrupt(&mut workers, settings, on_progress).await?;
    stop.store(true, Ordering::Relaxed);
    for enqueuer in future::join_all(enqueuers).await {
        enqueuer.context("an enqueuer panicked")?.context("cannot enqueue")?;
    }
    let acknowledged = std::mem::take(&mut *acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
    finish(&punctual, acknowledged.len() as u64, on_progress).await?;
    let interruptions = std::mem::take(&mut workers.interruptions);
    drop(workers);
    let executions = record::read(folder.path())?;
    let observations =
        Observations { acknowledged: &acknowledged, executions: &executions, interruptions: &interruptions };
    let guarantees = judge::judge(&url, observations, on_progress).await?;
    drop(punctual);
    stores.remove("chaos").await?;
    Ok(Chaos { jobs: acknowledged.len(), faults, guarantees })
}

/// Kills and suspends worker processes for the duration in the settings.
async fn interrupt(workers: &mut Workers, settings: &Settings, on_progress: OnProgress<'_>) -> Result<Vec<FaultCount>> {
    let (mut rng, began) = (fastrand::Rng::with_seed(settings.seed), Instant::now());
    let (mut kills, mut suspensions) = (0, 0);
    while began.elapsed() < settings.chaos {
        on_progress("chaos", began.elapsed().as_secs(), settings.chaos.as_secs());
        time::sleep(Duration::from_millis(rng.u64(200..2_000))).await;
        if rng.u8(..3) == 0 {
            let past_lease = LEASE + Duration::from_millis(rng.u64(..2_000));
            workers.suspend_one(&mut rng, past_lease).await?;
            suspensions += 1;
        } else {
            workers.kill_one(&mut rng)?;
            kills += 1;
        }
    }
    Ok(vec![
        FaultCount { fault: "worker process killed (SIGKILL)", count: kills },
        FaultCount { fault: "worker process suspended past its lease (SIGSTOP)", count: suspensions },
    ])
}

/// Enqueues batches until it is stopped, and remembers the acknowledged jobs.
async fn enqueue(
    punctual: Punctual,
    acknowledged: Arc<Mutex<Acknowledged>>,
    stop: Arc<AtomicBool>,
) -> Result<(), Error> {
    while !stop.load(Ordering::Relaxed) {
        let (drafts, kinds): (Vec<Draft>, Vec<Kind>) = (0..fastrand::usize(1..60)).map(|_| jobs::random()).unzip();
        let jobs = match punctual.enqueue_all(drafts).await {
            // Whether these jobs were stored is unknown, so nothing is guaranteed for them.
            Err(error) if is_transient(&error) => {
                time::sleep(REPEAT_AFTER).await;
                continue;
            }
            jobs => jobs?,
        };
        let ids = jobs.into_iter().map(|job| job.id);
        acknowledged.lock().unwrap_or_else(PoisonError::into_inner).extend(ids.zip(kinds));
        while !stop.load(Ordering::Relaxed) && unfinished(&punctual).await? > BACKLOG {
            time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// The number of unfinished jobs. Retries while the server is unavailable.
async fn unfinished(punctual: &Punctual) -> Result<u64, Error> {
    let since = Instant::now();
    loop {
        match punctual.admin("verify").overview().await {
            Err(error) if is_transient(&error) && since.elapsed() < STALLED => time::sleep(REPEAT_AFTER).await,
            overview => {
                return Ok(overview?.jobs.iter().filter(|(status, _)| status.is_active()).map(|(_, jobs)| jobs).sum());
            }
        }
    }
}

/// Whether the operation may succeed if it is repeated.
fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.is_transient())
}

/// Waits until all jobs are finished.
async fn finish(punctual: &Punctual, all: u64, on_progress: OnProgress<'_>) -> Result<()> {
    let (mut fewest, mut since) = (u64::MAX, Instant::now());
    loop {
        let left = unfinished(punctual).await?;
        on_progress("recovery", all.saturating_sub(left), all);
        if left == 0 {
            return Ok(());
        }
        if left < fewest {
            (fewest, since) = (left, Instant::now());
        }
        if since.elapsed() > STALLED {
            bail!("{left} of {all} jobs did not finish: none did for {} s after the last fault", STALLED.as_secs());
        }
        time::sleep(Duration::from_millis(100)).await;
    }
}
