//! Checks for alert conditions. Any worker can do this; the one that holds the lock does, and the revision of the state
//! prevents duplicates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use punctual_client::admin::is_live;
use punctual_core::{
    Error, Filter, Job, Json, Page, Schedule, ScheduleId, ScheduleSave, ScheduleSpec, Spec, Status, Store, StoreResult,
    Timestamp, WorkerRecord, schedule::ALERT_STATE_SCHEDULE,
};
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::{
    ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertQueue,
    tracker::{AlertTracker, Condition, Counts, Found, JOBS_NAMED, SHOWS_WITHIN},
};

/// The lock under which one of all workers checks. It only avoids duplicate work: the revision of the state ensures
/// correctness.
const LOCK: &str = "punctual.alerts";
/// Number of consecutive checks that another worker's lock may prevent: the lock may have been taken with a wrong
/// clock.
const DENIED_MAX: u32 = 12;
/// Maximum number of queues, and of job names without a worker, per check.
const CHECKED_MAX: usize = 200;
/// Maximum length of an error in an alert.
const ERROR_MAX_CHARS: usize = 300;
/// The statuses of jobs that wait for their scheduled time or for a worker.
const WAITING: [Status; 3] = [Status::Queued, Status::Scheduled, Status::Retrying];

/// Checks periodically until `done`.
pub(crate) async fn watch_on(alert_queue: Arc<AlertQueue>, owner: String, done: CancellationToken) {
    let (period, mut denied) = (alert_queue.alerts.check_interval, 0);
    loop {
        let may_check = match alert_queue.store().lock(LOCK.to_owned(), owner.clone(), 3 * period).await {
            Ok(None) if denied < DENIED_MAX => false,
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, "cannot acquire the lock for alerts");
                false
            }
        };
        denied = if may_check { 0 } else { denied + 1 };
        if may_check && let Err(error) = check_once(&alert_queue).await {
            tracing::warn!(%error, "cannot check for alerts; retrying");
        }
        if done.run_until_cancelled(time::sleep(period)).await.is_none() {
            return;
        }
    }
}

/// Checks once and returns the new alerts: stored when this returns, unless another worker was faster.
pub(crate) async fn check_once(alert_queue: &AlertQueue) -> Result<Vec<Alert>, Error> {
    let (store, known) = (alert_queue.store(), alert_queue.store().schedule(ALERT_STATE_SCHEDULE.to_owned()).await?);
    let now = store.now();
    let mut tracker = known.as_ref().map_or_else(|| AlertTracker::beginning(now), |known| read_tracker(known, now));
    let before = known.as_ref().map(|_| tracker.clone());
    count_deaths(store, &mut tracker, now).await?;
    let mut alerts = tracker.due_death_alerts(alert_queue.alerts.timing, now);
    alerts.extend(tracker.due_condition_alerts(
        &conditions(alert_queue, &tracker, now).await?,
        alert_queue.alerts.timing,
        now,
    ));
    if before.as_ref() == Some(&tracker) {
        return Ok(Vec::new());
    }
    let alerts: Vec<Alert> = alerts.into_iter().map(|alert| alert_queue.complete(alert)).collect();
    let is_new = known.is_none();
    let jobs = alert_queue.jobs(&alerts)?;
    let schedule = stored_tracker(alert_queue, known, &tracker, now)?;
    if store.save_schedules(vec![ScheduleSave { schedule, is_new, jobs, done: None }]).await? != [true] {
        return Ok(Vec::new());
    }
    alerts.iter().for_each(Alert::log);
    Ok(alerts)
}

/// The stored state. A state that cannot be read is reset.
fn read_tracker(known: &Schedule, now: Timestamp) -> AlertTracker {
    known.spec.job.payload.read().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the state of alerts; it is reset");
        AlertTracker::beginning(now)
    })
}

/// The state as a stored schedule without a time: a schedule has a revision and is stored in one transaction with jobs.
fn stored_tracker(
    alert_queue: &AlertQueue,
    known: Option<Schedule>,
    tracker: &AlertTracker,
    now: Timestamp,
) -> Result<Schedule, Error> {
    let unwritable = |error: serde_json::Error| punctual_core::StoreError::Other(error.to_string());
    let payload = Json::of(tracker).map_err(unwritable)?;
    let mut spec = ScheduleSpec::new(ALERT_STATE_SCHEDULE, "@yearly", Spec::new(ALERT_JOB, payload));
    spec.description = Some("State of alerts. It never runs.".to_owned());
    spec.ends_at = Some(Timestamp::MIN);
    let first = || Schedule {
        id: ScheduleId::from_bits(alert_queue.punctual.ids().next(now)),
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
    Ok(Schedule { updated_at: now, spec: spec.clone(), ..known.unwrap_or_else(first) })
}

/// Adds deaths that are not counted yet to the state.
async fn count_deaths(store: &dyn Store, tracker: &mut AlertTracker, now: Timestamp) -> StoreResult<()> {
    let (since, until) = (tracker.since, tracker.until);
    // Read first, so that a death that becomes visible meanwhile is not taken for counted.
    let recent = deaths(store, now.before(SHOWS_WITHIN), now).await?;
    let (before, after) = (deaths(store, since, until).await?, deaths(store, until, now).await?);
    let mut found = BTreeMap::new();
    for (name, count) in tracker.uncounted(&before, after) {
        found.insert(name.clone(), read_deaths(store, &name, count, tracker).await?);
    }
    tracker.count(found, recent, now);
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
async fn read_deaths(store: &dyn Store, name: &str, count: u64, tracker: &AlertTracker) -> StoreResult<Found> {
    let filter = Filter { name: Some(name.to_owned()), since: Some(tracker.since), ..Filter::status(Status::Dead) };
    // Latest first.
    let latest = store.list(filter, Page::first(JOBS_NAMED.min(count.max(1) as usize))).await?.jobs;
    let error = latest.first().and_then(|job| job.error.as_ref());
    let first = latest.last().and_then(|job| job.finished_at).filter(|_| count as usize == latest.len());
    Ok(Found {
        count,
        since: Some(first.unwrap_or(tracker.until)),
        jobs: latest.iter().rev().map(|job| job.id).collect(),
        queues: latest.iter().map(|job| job.spec.queue.clone()).collect(),
        error: error.map(|error| error.to_string().chars().take(ERROR_MAX_CHARS).collect()),
    })
}

/// Number of queued jobs, by queue and job name; includes the names of all waiting jobs.
type Lanes = BTreeMap<String, BTreeMap<String, u64>>;

/// The current conditions of queues.
async fn conditions(alert_queue: &AlertQueue, tracker: &AlertTracker, now: Timestamp) -> StoreResult<Vec<Condition>> {
    let (store, mut lanes) = (alert_queue.store(), Lanes::new());
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
    queues.sort_by_key(|queue| !tracker.has_condition(queue));
    queues.truncate(CHECKED_MAX);
    let mut conditions = unserved(store, &lanes, &queues, now).await?;
    conditions.extend(late(alert_queue, &lanes, &queues, now).await?);
    Ok(conditions)
}

/// Queues with due jobs that no live worker can run.
async fn unserved(store: &dyn Store, lanes: &Lanes, queues: &[&String], now: Timestamp) -> StoreResult<Vec<Condition>> {
    let workers = store.workers().await?;
    let live: Vec<&WorkerRecord> = workers.iter().filter(|worker| is_live(worker, now)).collect();
    let mut unserved_names: Vec<(&String, &String, u64)> = Vec::new();
    for queue in queues {
        let unserved = lanes[*queue].iter().filter(|(name, _)| !live.iter().any(|worker| worker.runs(queue, name)));
        unserved_names.extend(unserved.map(|(name, queued)| (*queue, name, *queued)));
    }
    unserved_names.truncate(CHECKED_MAX);
    let mut conditions: BTreeMap<&String, Condition> = BTreeMap::new();
    for (queue, name, queued) in unserved_names {
        let filter = Filter { queue: Some(queue.clone()), name: Some(name.clone()), ..waiting_since(now) };
        let Some(job) = first(store, filter).await? else { continue };
        let condition = conditions.entry(queue).or_insert_with(|| of_queue(AlertKind::NoWorkers, &job));
        condition.count += queued.max(1);
        condition.names.push(name.clone());
        if job.run_at < condition.oldest.1 {
            condition.oldest = (job.id, job.run_at);
        }
    }
    Ok(conditions.into_values().collect())
}

/// Queues whose oldest job exceeds its maximum delay.
async fn late(
    alert_queue: &AlertQueue,
    lanes: &Lanes,
    queues: &[&String],
    now: Timestamp,
) -> StoreResult<Vec<Condition>> {
    let (store, mut conditions) = (alert_queue.store(), Vec::new());
    // Usually no queue is late, which one query shows.
    if first(store, waiting_since(now.before(alert_queue.alerts.least_limit()))).await?.is_none() {
        return Ok(conditions);
    }
    for queue in queues {
        let limit = alert_queue.alerts.limit_of(queue);
        let filter = Filter { queue: Some((*queue).clone()), ..waiting_since(now.before(limit)) };
        let Some(job) = first(store, filter).await? else { continue };
        let count = lanes[*queue].values().sum::<u64>().max(1);
        conditions.push(Condition { count, limit: Some(limit), ..of_queue(AlertKind::Late, &job) });
    }
    Ok(conditions)
}

fn of_queue(kind: AlertKind, oldest: &Job) -> Condition {
    let queue = oldest.spec.queue.clone();
    Condition { kind, queue, count: 0, names: Vec::new(), oldest: (oldest.id, oldest.run_at), limit: None }
}

/// Selects jobs that should have started before this instant, longest due first.
fn waiting_since(before: Timestamp) -> Filter {
    Filter { statuses: WAITING.to_vec(), until: Some(before), ..Filter::default() }
}

async fn first(store: &dyn Store, filter: Filter) -> StoreResult<Option<Job>> {
    Ok(store.list(filter, Page::first(1)).await?.jobs.into_iter().next())
}
