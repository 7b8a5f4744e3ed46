//! Enqueues the occurrences of schedules. Any worker can do this; the one that holds the lock does.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use punctual_core::{
    Change, JobId, Overlap, Schedule, ScheduleSave, Store, StoreError, StoreResult, Timestamp, Verb,
    schedule::{AHEAD, Due, due, evaluation_time},
};
use tokio::{
    task,
    time::{self, Instant},
};
use tokio_util::sync::CancellationToken;

use crate::{alerts::AlertQueue, shared::Shared};

/// The lock under which one of all workers does it. It only avoids duplicate work: the revisions of the schedules
/// ensure correctness.
const LOCK: &str = "punctual.schedules.tick";
/// How long a worker that dies during a tick blocks the others.
const LOCK_TTL: Duration = Duration::from_secs(2);
/// How long a schedule is overdue before a worker ignores the lock of another one, which may have been taken with a
/// wrong clock.
const OVERDUE_MAX: Duration = Duration::from_secs(10);
/// Maximum time between two checks: a schedule may have been added meanwhile.
const CHECK_PERIOD: Duration = Duration::from_millis(500);
/// Time until the next check if another worker holds the lock.
const LOCKED_PERIOD: Duration = Duration::from_millis(50);
/// Number of schedules per page.
const PAGE_SCHEDULES: usize = 500;
/// Maximum number of jobs per transaction, unless a single schedule has more to catch up with.
const PAGE_JOBS: usize = 500;
/// Maximum number of payload bytes per transaction, unless a single job has more.
const PAGE_BYTES: usize = 16 << 20;
/// Interval of the search for schedules that a wrong clock has moved far ahead, and the lock for it.
const REPAIR: (Duration, &str) = (Duration::from_secs(600), "punctual.schedules.repair");
/// Tolerance for schedules that are ahead of their next time, since clocks of several machines differ.
const REPAIR_SLACK: Duration = Duration::from_secs(5);

/// The result of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ticked {
    pub(crate) occurrences: usize,
    pub(crate) misfires: usize,
    /// The next time at which a schedule must be checked, if known.
    next: Option<Timestamp>,
    /// Whether another worker held the lock.
    locked_by_other: bool,
}

/// Runs ticks until `done`.
pub(crate) async fn tick_on(shared: Arc<Shared>, alert_queue: Option<Arc<AlertQueue>>, done: CancellationToken) {
    let (owner, mut repaired_at) = (shared.id.to_string(), None);
    loop {
        if repaired_at.is_none_or(|at: Instant| at.elapsed() >= REPAIR.0) {
            repaired_at = Some(Instant::now());
            if let Err(error) = repair(&**shared.store(), &owner).await {
                tracing::warn!(worker = %shared.id, %error, "cannot search for schedules that are too far ahead");
            }
        }
        let ticked = match tick(&**shared.store(), &owner, alert_queue.as_deref()).await {
            Ok(ticked) => ticked,
            Err(error) => {
                tracing::warn!(worker = %shared.id, %error, "cannot enqueue the occurrences of schedules; retrying");
                Ticked::default()
            }
        };
        shared.counters.occurrences.fetch_add(ticked.occurrences as u64, Ordering::Relaxed);
        shared.counters.misfires.fetch_add(ticked.misfires as u64, Ordering::Relaxed);
        let pause = match ticked.next {
            _ if ticked.locked_by_other => LOCKED_PERIOD,
            Some(at) => at.since(shared.store().now()).min(CHECK_PERIOD),
            None => CHECK_PERIOD,
        };
        if done.run_until_cancelled(time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Enqueues all due occurrences, in pages, longest overdue first. Misfires are reported to `alert_queue`.
pub(crate) async fn tick(store: &dyn Store, owner: &str, alert_queue: Option<&AlertQueue>) -> StoreResult<Ticked> {
    let (mut ticked, now) = (Ticked::default(), store.now());
    let context = TickContext { store, alert_queue, now };
    let until = now.after(AHEAD);
    let first = store.upcoming(None, until, PAGE_SCHEDULES).await?;
    if !ticked.is_due(now, &first) {
        return Ok(ticked);
    }
    let overdue = first.first().and_then(|schedule| schedule.next_run_at).map_or(Duration::ZERO, |at| now.since(at));
    let mut after = None;
    // The lock is renewed for every page: all pages together may take longer than its duration.
    while store.lock(LOCK.to_owned(), owner.to_owned(), LOCK_TTL).await?.is_some() || overdue > OVERDUE_MAX {
        // Continue after the last page: its schedules have moved to later times, and reading past them takes time.
        let page = store.upcoming(after.take(), until, PAGE_SCHEDULES).await?;
        let Some(last) = page.last() else {
            store.unlock(LOCK.to_owned(), owner.to_owned()).await?;
            return Ok(ticked);
        };
        after = Some((last.next_run_at.unwrap_or(until), last.spec.name.clone()));
        ticked.is_due(now, &page);
        enqueue_page(&context, page, &mut ticked).await?;
        // Claims must not wait for the whole tick.
        task::yield_now().await;
    }
    Ok(Ticked { locked_by_other: true, ..ticked })
}

impl Ticked {
    /// Whether one of these schedules must be checked now; records the next time of the others.
    fn is_due(&mut self, now: Timestamp, upcoming: &[Schedule]) -> bool {
        let check_at = |schedule: &Schedule| Some(evaluation_time(schedule.spec.overlap, schedule.next_run_at?));
        let (due, later): (Vec<Timestamp>, Vec<Timestamp>) =
            upcoming.iter().filter_map(check_at).partition(|at| *at <= now);
        self.next = self.next.into_iter().chain(later).min();
        !due.is_empty()
    }
}

/// The store, the time and the alerts of a tick.
struct TickContext<'a> {
    store: &'a dyn Store,
    /// Receives misfires, if alerts are enabled.
    alert_queue: Option<&'a AlertQueue>,
    now: Timestamp,
}

/// A change to store, and the job to cancel afterwards.
struct Step {
    save: ScheduleSave,
    cancel: Option<JobId>,
}

/// Enqueues the due occurrences of a page of schedules.
async fn enqueue_page(context: &TickContext<'_>, page: Vec<Schedule>, ticked: &mut Ticked) -> StoreResult<()> {
    let store = context.store;
    let (mut steps, mut jobs, mut bytes): (Vec<Step>, usize, usize) = (Vec::new(), 0, 0);
    for schedule in page {
        let Some(step) = decide(context, schedule, ticked).await? else { continue };
        let of_step = step.save.jobs.iter().map(|job| job.spec.payload.as_str().len()).sum::<usize>();
        if !steps.is_empty() && (jobs + step.save.jobs.len() > PAGE_JOBS || bytes + of_step > PAGE_BYTES) {
            ticked.occurrences += enqueue(store, std::mem::take(&mut steps)).await?;
            (jobs, bytes) = (0, 0);
        }
        (jobs, bytes) = (jobs + step.save.jobs.len(), bytes + of_step);
        steps.push(step);
    }
    ticked.occurrences += enqueue(store, steps).await?;
    Ok(())
}

/// Stores schedules with their jobs, and cancels the jobs that they replace; returns the number of jobs. Schedules that
/// another worker has changed meanwhile are skipped. A schedule that the store refuses is skipped, too, so that it does
/// not block the others.
async fn enqueue(store: &dyn Store, steps: Vec<Step>) -> StoreResult<usize> {
    if steps.is_empty() {
        return Ok(0);
    }
    match enqueue_together(store, &steps).await {
        Err(StoreError::Other(_) | StoreError::CorruptRow { .. }) => {}
        done => return done,
    }
    let mut jobs = 0;
    for step in &steps {
        match enqueue_together(store, std::slice::from_ref(step)).await {
            Ok(enqueued) => jobs += enqueued,
            Err(error @ (StoreError::Other(_) | StoreError::CorruptRow { .. })) => {
                let schedule = &step.save.schedule.spec.name;
                tracing::error!(schedule, %error, "cannot enqueue the occurrences of a schedule");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(jobs)
}

async fn enqueue_together(store: &dyn Store, steps: &[Step]) -> StoreResult<usize> {
    let saved = store.save_schedules(steps.iter().map(|step| step.save.clone()).collect()).await?;
    let saved: Vec<&Step> = steps.iter().zip(saved).filter_map(|(step, saved)| saved.then_some(step)).collect();
    let cancel = |step: &&Step| {
        let reason = Some("the schedule's next occurrence is due".to_owned());
        let actor = format!("schedule {}", step.save.schedule.spec.name);
        Some(Change { job: step.cancel?, verb: Verb::Cancel, actor, reason })
    };
    let cancels: Vec<Change> = saved.iter().filter_map(cancel).collect();
    if !cancels.is_empty() {
        store.change(cancels).await?;
    }
    Ok(saved.into_iter().map(|step| step.save.jobs.len()).sum())
}

/// The change to a schedule; `None` if it is not due.
async fn decide(context: &TickContext<'_>, schedule: Schedule, ticked: &mut Ticked) -> StoreResult<Option<Step>> {
    let TickContext { store, alert_queue, now } = *context;
    if schedule.next_run_at.is_none_or(|at| evaluation_time(schedule.spec.overlap, at) > now) {
        return Ok(None);
    }
    let previous = unfinished(store, &schedule).await?;
    let decided = match due(&schedule, now, previous.is_some()) {
        Ok(Some(due)) => due,
        Ok(None) => return Ok(None),
        Err(problem) => return Ok(Some(Step { save: disabled(schedule, problem, now), cancel: None })),
    };
    let (name, mut alerts) = (&schedule.spec.name, Vec::new());
    if decided.misfired {
        ticked.misfires += 1;
        let (since, run) = (schedule.next_run_at, decided.occurrences.len());
        tracing::warn!(schedule = name, ?since, run, "schedule misfired: no worker was running when it was due");
        alerts =
            alert_queue.map(|alert_queue| alert_queue.missed(&schedule, run, ticked.misfires, now)).unwrap_or_default();
    } else if decided.skipped {
        tracing::info!(schedule = name, "skipped an occurrence: the previous one is unfinished");
    }
    let cancel = previous.filter(|_| decided.cancel_previous);
    let mut save = advanced(schedule, decided);
    save.jobs.extend(alerts);
    Ok(Some(Step { save, cancel }))
}

/// The job of the previous occurrence, if it is unfinished and the overlap policy needs it.
async fn unfinished(store: &dyn Store, schedule: &Schedule) -> StoreResult<Option<JobId>> {
    match schedule.last_job {
        Some(id) if schedule.spec.overlap != Overlap::Allow => {
            Ok(store.get(id).await?.filter(|job| job.status.is_active()).map(|job| job.id))
        }
        _ => Ok(None),
    }
}

fn advanced(mut schedule: Schedule, mut decided: Due) -> ScheduleSave {
    let most = (PAGE_BYTES / schedule.spec.job.payload.as_str().len().max(1)).max(1);
    if decided.occurrences.len() > most {
        // The other occurrences follow in a later page of this tick.
        decided.next_run_at = Some(decided.occurrences[most]);
        decided.occurrences.truncate(most);
    }
    let jobs: Vec<_> = decided.occurrences.iter().map(|at| schedule.spec.occurrence(*at)).collect();
    schedule.next_run_at = decided.next_run_at;
    schedule.last_run_at = decided.occurrences.last().copied().or(schedule.last_run_at);
    schedule.last_job = jobs.last().map(|job| job.id).or(schedule.last_job);
    ScheduleSave { schedule, is_new: false, jobs, done: None }
}

fn disabled(mut schedule: Schedule, problem: String, now: Timestamp) -> ScheduleSave {
    tracing::error!(schedule = schedule.spec.name, problem, "disabled a schedule that cannot be evaluated");
    let done = Some(format!("disabled: {problem}"));
    (schedule.updated_at, schedule.updated_by) = (now, "punctual".to_owned());
    (schedule.enabled, schedule.problem) = (false, Some(problem));
    ScheduleSave { schedule, is_new: false, jobs: Vec::new(), done }
}

/// Corrects schedules whose next occurrence a wrong clock has moved far ahead. The ids of their jobs prevent
/// occurrences from running twice.
pub(crate) async fn repair(store: &dyn Store, owner: &str) -> StoreResult<()> {
    // The lock is not released: it also records that the repair has run.
    let ttl = REPAIR.0 - Duration::from_secs(60);
    if store.lock(REPAIR.1.to_owned(), owner.to_owned(), ttl).await?.is_none() {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = store.schedules(after.take(), PAGE_SCHEDULES).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.spec.name.clone());
        let now = store.now();
        let saves: Vec<ScheduleSave> = page.into_iter().filter_map(|schedule| corrected(schedule, now)).collect();
        if !saves.is_empty() {
            store.save_schedules(saves).await?;
        }
    }
}

fn corrected(mut schedule: Schedule, now: Timestamp) -> Option<ScheduleSave> {
    let timing = schedule.spec.timing().ok().filter(|_| schedule.enabled)?;
    let latest = timing.next(now.after(AHEAD + REPAIR_SLACK)).ok()??;
    if schedule.next_run_at.is_some_and(|at| at <= latest) {
        return None;
    }
    let too_far = schedule.next_run_at.map_or_else(|| "the end".to_owned(), |at| at.to_string());
    tracing::warn!(schedule = schedule.spec.name, too_far, "corrected a schedule that a wrong clock had moved ahead");
    schedule.next_run_at = timing.next(now).ok()?;
    (schedule.updated_at, schedule.updated_by) = (now, "punctual".to_owned());
    let done = Some(format!("corrected from {too_far}"));
    Some(ScheduleSave { schedule, is_new: false, jobs: Vec::new(), done })
}
