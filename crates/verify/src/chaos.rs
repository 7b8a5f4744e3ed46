//! Worker processes under load, killed and suspended at random.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use futures_util::future;
use punctual::{Draft, Error, JobId, Punctual, core::Limits};
use punctual_bench::Place;
use tokio::time;

use crate::{
    FaultCount, Guarantee, OnProgress, Settings, judge, record,
    workers::{JOB, LEASE, Workers},
};

/// How many worker processes there are.
const PROCESSES: usize = 4;
/// How many tasks enqueue.
const ENQUEUERS: usize = 2;
/// Clients wait while more jobs than this are unfinished.
const BACKLOG: u64 = 2_000;
/// How long after a transient error the store is asked again.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// The queue with a concurrency limit, and the limit.
const LIMITED: (&str, u32) = ("limited", 5);
/// How many concurrency keys there are.
const KEYS: u8 = 10;
/// How long to wait, after the last fault, without any job coming to an end.
const STALLED: Duration = Duration::from_secs(120);

/// What kind of job was acknowledged, for the judgement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// How many attempts fail.
    pub(crate) failures: u32,
    /// `max_attempts` is 1.
    pub(crate) once: bool,
    /// What may run so many times at once: a queue or a key.
    pub(crate) limit: Option<(String, u32)>,
}

/// All acknowledged jobs.
pub(crate) type Acknowledged = HashMap<JobId, Kind>;

pub(crate) struct Chaos {
    /// How many jobs were acknowledged.
    pub(crate) jobs: usize,
    pub(crate) faults: Vec<FaultCount>,
    pub(crate) guarantees: Vec<Guarantee>,
}

pub(crate) async fn run(place: &Place, settings: &Settings, on_progress: OnProgress<'_>) -> Result<Chaos> {
    let url = place.fresh_url("chaos").await?;
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
    let guarantees = judge::judge(&url, &acknowledged, &executions, &interruptions, on_progress).await?;
    drop(punctual);
    place.remove("chaos").await?;
    Ok(Chaos { jobs: acknowledged.len(), faults, guarantees })
}

/// Kills and suspends worker processes for as long as the settings say.
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

/// Enqueues batches until it is to stop, and notes what was acknowledged.
async fn enqueue(
    punctual: Punctual,
    acknowledged: Arc<Mutex<Acknowledged>>,
    stop: Arc<AtomicBool>,
) -> Result<(), Error> {
    while !stop.load(Ordering::Relaxed) {
        let (drafts, kinds): (Vec<Draft>, Vec<Kind>) = (0..fastrand::usize(1..60)).map(|_| draft()).unzip();
        let jobs = match punctual.enqueue_all(drafts).await {
            // Whether they are stored is not known, and nothing is promised of them.
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

/// A job of any kind.
fn draft() -> (Draft, Kind) {
    let once = fastrand::u8(..10) == 0;
    let failures = u32::from(!once && fastrand::u8(..10) == 0);
    let draft = Draft::new(JOB, &failures).priority(fastrand::u8(..2)).max_crashes(100);
    let draft = if once { draft.max_attempts(1) } else { draft };
    let (draft, limit) = match fastrand::u8(..10) {
        0 | 1 => (draft.delay(Duration::from_millis(fastrand::u64(..3_000))), None),
        2 => {
            let key = format!("k{}", fastrand::u8(..KEYS));
            (draft.concurrency_key(key.clone()), Some((format!("key {key}"), 1)))
        }
        3 => (draft.queue(LIMITED.0), Some((format!("queue {}", LIMITED.0), LIMITED.1))),
        _ => (draft, None),
    };
    (draft, Kind { failures, once, limit })
}

/// How many jobs have not come to an end. A server that is away for a while is waited for.
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

/// Whether the same may succeed a moment later.
fn is_transient(error: &Error) -> bool {
    matches!(error, Error::Store(error) if error.is_transient())
}

/// Waits until all jobs have come to an end.
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
