//! Checks for alert conditions. Any worker can do this; the one that holds the lock does, and the revision of the state
//! prevents duplicates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use punctual_client::admin::is_live;
use punctual_core::{
    Error, Filter, Job, Json, NewJob, Page, Schedule, ScheduleId, ScheduleSave, ScheduleSpec, Spec, Status, Store,
    StoreResult, Timestamp, WorkerRecord, schedule::MEMORY_OF_ALERTS,
};
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::{
    ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertQueue,
    memory::{Counts, Found, JOBS_NAMED, Memory, SHOWS_WITHIN, Trouble},
};

/// The lock under which one of all workers checks. It only avoids duplicate work: the revision of the state ensures
/// correctness.
const LOCK: &str = "punctual.alerts";
/// Number of consecutive checks that another worker's lock may prevent: the lock may have been taken with a wrong
/// clock.
const DENIED_MAX: u32 = 12;
/// Maximum number of queues, and of job names without a worker, per check.
const EXAMINED_MAX: usize = 200;
/// Maximum length of an error in an alert.
const ERROR_MAX_CHARS: usize = 300;
/// The statuses of jobs that wait for their scheduled time or for a worker.
const WAITING: [Status; 3] = [Status::Queued, Status::Scheduled, Status::Retrying];

/// Checks periodically until `done`.
pub(crate) async fn watch_on(desk: Arc<AlertQueue>, owner: String, done: CancellationToken) {
    let (period, mut denied) = (desk.alerts.look_period, 0);
    loop {
        let turn = match desk.store().lock(LOCK.to_owned(), owner.clone(), 3 * period).await {
            Ok(None) if denied < DENIED_MAX => false,
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, "cannot take the lock for alerts");
                false
            }
        };
        denied = if turn { 0 } else { denied + 1 };
        if turn && let Err(error) = look(&desk).await {
            tracing::warn!(%error, "cannot look for what has to be told; it will be tried again");
        }
        if done.run_until_cancelled(time::sleep(period)).await.is_none() {
            return;
        }
    }
}

/// Checks once and returns the new alerts: stored when this returns, unless another worker was faster.
pub(crate) async fn look(desk: &AlertQueue) -> Result<Vec<Alert>, Error> {
    let (store, known) = (desk.store(), desk.store().schedule(MEMORY_OF_ALERTS.to_owned()).await?);
    let now = store.now();
    let mut memory = known.as_ref().map_or_else(|| Memory::beginning(now), |known| remembered(known, now));
    let before = known.as_ref().map(|_| memory.clone());
    count_deaths(store, &mut memory, now).await?;
    let mut alerts = memory.tell_died(desk.alerts.timing, now);
    alerts.extend(memory.tell_troubles(&troubles(desk, &memory, now).await?, desk.alerts.timing, now));
    if before.as_ref() == Some(&memory) {
        return Ok(Vec::new());
    }
    let alerts: Vec<Alert> = alerts.into_iter().map(|alert| desk.complete(alert)).collect();
    let save = to_save(desk, known, &memory, desk.jobs(&alerts)?, now)?;
    if store.save_schedules(vec![save]).await? != [true] {
        return Ok(Vec::new());
    }
    alerts.iter().for_each(Alert::log);
    Ok(alerts)
}

/// The stored state. A state that cannot be read is reset.
fn remembered(known: &Schedule, now: Timestamp) -> Memory {
    known.spec.job.payload.read().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read what alerts have told; they begin anew");
        Memory::beginning(now)
    })
}

/// The state as a stored schedule without a time: a schedule has a revision and is stored in one transaction with jobs.
fn to_save(
    desk: &AlertQueue,
    known: Option<Schedule>,
    memory: &Memory,
    jobs: Vec<NewJob>,
    now: Timestamp,
) -> Result<ScheduleSave, Error> {
    let unwritable = |error: serde_json::Error| punctual_core::StoreError::Other(error.to_string());
    let payload = Json::of(memory).map_err(unwritable)?;
    let mut spec = ScheduleSpec::new(MEMORY_OF_ALERTS, "@yearly", Spec::new(ALERT_JOB, payload));
    spec.description = Some("What alerts have told. It never runs.".to_owned());
    spec.ends_at = Some(Timestamp::MIN);
    let is_new = known.is_none();
    let first = || Schedule {
        id: ScheduleId::from_bits(desk.punctual.ids().next(now)),
        spec: spec.clone(),
        enabled: false,
        problem: None,
        revision: 0,
        last_run_at: None,
        next_run_at: None,
        last_job: None,
        created_at: now,
        updated_at: now,
        updated_by: "punctual".to_owned(),
    };
    let schedule = Schedule { updated_at: now, spec: spec.clone(), ..known.unwrap_or_else(first) };
    Ok(ScheduleSave { schedule, is_new, jobs, done: None })
}

/// Adds deaths that are not counted yet to the state.
async fn count_deaths(store: &dyn Store, memory: &mut Memory, now: Timestamp) -> StoreResult<()> {
    let (since, until) = (memory.since, memory.until);
    // Read first, so that a death that becomes visible meanwhile is not taken for counted.
    let recent = deaths(store, now.before(SHOWS_WITHIN), now).await?;
    let (before, after) = (deaths(store, since, until).await?, deaths(store, until, now).await?);
    let mut found = BTreeMap::new();
    for (name, count) in memory.uncounted(&before, after) {
        found.insert(name.clone(), check_queue(store, &name, count, memory).await?);
    }
    memory.count(found, recent, now);
    Ok(())
}

/// Number of deaths in a period, by job name.
async fn deaths(store: &dyn Store, since: Timestamp, until: Timestamp) -> StoreResult<Counts> {
    if until <= since {
        return Ok(Counts::new());
    }
    let deaths = store.dead_by_name(since, until).await?;
    Ok(deaths.into_iter().filter(|(name, _)| name != ALERT_JOB).collect())
}

/// Reads some of the dead jobs of a name.
async fn check_queue(store: &dyn Store, name: &str, count: u64, memory: &Memory) -> StoreResult<Found> {
    let filter = Filter { name: Some(name.to_owned()), since: Some(memory.since), ..Filter::status(Status::Dead) };
    // Latest first.
    let latest = store.list(filter, Page::first(JOBS_NAMED.min(count.max(1) as usize))).await?.jobs;
    let error = latest.first().and_then(|job| job.error.as_ref());
    let first = latest.last().and_then(|job| job.finished_at).filter(|_| count as usize == latest.len());
    Ok(Found {
        count,
        since: Some(first.unwrap_or(memory.until)),
        jobs: latest.iter().rev().map(|job| job.id).collect(),
        queues: latest.iter().map(|job| job.spec.queue.clone()).collect(),
        error: error.map(|error| error.to_string().chars().take(ERROR_MAX_CHARS).collect()),
    })
}

/// Number of queued jobs, by queue and job name; includes the names of all waiting jobs.
type Lanes = BTreeMap<String, BTreeMap<String, u64>>;

/// The current conditions of queues.
async fn troubles(desk: &AlertQueue, memory: &Memory, now: Timestamp) -> StoreResult<Vec<Trouble>> {
    let (store, mut lanes) = (desk.store(), Lanes::new());
    let paused = store.queues().await?.into_iter().filter(|queue| queue.settings.paused).map(|queue| queue.name);
    let paused: BTreeSet<String> = paused.chain([ALERTS_QUEUE.to_owned()]).collect();
    for count in store.counts().await? {
        if WAITING.contains(&count.status) && count.count > 0 && !paused.contains(&count.queue) {
            let queued = if count.status == Status::Queued { count.count } else { 0 };
            *lanes.entry(count.queue).or_default().entry(count.name).or_default() += queued;
        }
    }
    if lanes.is_empty() {
        return Ok(Vec::new());
    }
    // Queues with a known condition first, so that its end is noticed.
    let mut queues: Vec<&String> = lanes.keys().collect();
    queues.sort_by_key(|queue| !memory.is_troubled(queue));
    queues.truncate(EXAMINED_MAX);
    let mut troubles = unserved(store, &lanes, &queues, now).await?;
    troubles.extend(late(desk, &lanes, &queues, now).await?);
    Ok(troubles)
}

/// Queues with due jobs that no live worker can run.
async fn unserved(store: &dyn Store, lanes: &Lanes, queues: &[&String], now: Timestamp) -> StoreResult<Vec<Trouble>> {
    let workers = store.workers().await?;
    let live: Vec<&WorkerRecord> = workers.iter().filter(|worker| is_live(worker, now)).collect();
    let mut alone: Vec<(&String, &String, u64)> = Vec::new();
    for queue in queues {
        let unserved = lanes[*queue].iter().filter(|(name, _)| !live.iter().any(|worker| serves(worker, queue, name)));
        alone.extend(unserved.map(|(name, queued)| (*queue, name, *queued)));
    }
    alone.truncate(EXAMINED_MAX);
    let mut troubles: BTreeMap<&String, Trouble> = BTreeMap::new();
    for (queue, name, queued) in alone {
        let filter = Filter { queue: Some(queue.clone()), name: Some(name.clone()), ..waiting_since(now) };
        let Some(job) = first(store, filter).await? else { continue };
        let trouble = troubles.entry(queue).or_insert_with(|| of_queue(AlertKind::NoWorkers, &job));
        trouble.count += queued.max(1);
        trouble.names.push(name.clone());
        if job.run_at < trouble.oldest.1 {
            trouble.oldest = (job.id, job.run_at);
        }
    }
    Ok(troubles.into_values().collect())
}

fn serves(worker: &WorkerRecord, queue: &String, name: &String) -> bool {
    let wants = |wanted: &[String], word| wanted.is_empty() || wanted.contains(word);
    wants(&worker.heartbeat.queues, queue) && wants(&worker.heartbeat.names, name)
}

/// Queues whose oldest job exceeds its maximum delay.
async fn late(desk: &AlertQueue, lanes: &Lanes, queues: &[&String], now: Timestamp) -> StoreResult<Vec<Trouble>> {
    let (store, mut troubles) = (desk.store(), Vec::new());
    // Usually no queue is late, which one query shows.
    if first(store, waiting_since(now.before(desk.alerts.least_limit()))).await?.is_none() {
        return Ok(troubles);
    }
    for queue in queues {
        let limit = desk.alerts.limit_of(queue);
        let filter = Filter { queue: Some((*queue).clone()), ..waiting_since(now.before(limit)) };
        let Some(job) = first(store, filter).await? else { continue };
        let count = lanes[*queue].values().sum::<u64>().max(1);
        troubles.push(Trouble { count, limit: Some(limit), ..of_queue(AlertKind::Late, &job) });
    }
    Ok(troubles)
}

fn of_queue(kind: AlertKind, oldest: &Job) -> Trouble {
    let queue = oldest.spec.queue.clone();
    Trouble { kind, queue, count: 0, names: Vec::new(), oldest: (oldest.id, oldest.run_at), limit: None }
}

/// Selects jobs that should have started before this instant, longest due first.
fn waiting_since(before: Timestamp) -> Filter {
    Filter { statuses: WAITING.to_vec(), until: Some(before), ..Filter::default() }
}

async fn first(store: &dyn Store, filter: Filter) -> StoreResult<Option<Job>> {
    Ok(store.list(filter, Page::first(1)).await?.jobs.into_iter().next())
}
