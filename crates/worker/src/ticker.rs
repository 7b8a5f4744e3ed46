//! Enqueues the occurrences of schedules. Every worker looks; whichever holds the lock does it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use punctual_core::{
    Change, JobId, Overlap, Schedule, ScheduleSave, Store, StoreResult, Timestamp, Verb,
    schedule::{Due, due, look_at},
};
use tokio::{task, time};
use tokio_util::sync::CancellationToken;

use crate::shared::Shared;

/// The lock under which one worker of all does it. Not needed for truth, which lies in the schedules' revisions, but for peace.
const LOCK: &str = "punctual.schedules.tick";
/// For how long a worker that vanishes in the middle keeps the others from it.
const LOCK_TTL: Duration = Duration::from_secs(2);
/// How often to look at least: somebody may have brought a schedule.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// How soon to look again when somebody else holds the lock.
const BUSY_PERIOD: Duration = Duration::from_millis(50);
/// Schedules that one look takes.
const PAGE_SCHEDULES: usize = 500;
/// Jobs that one transaction brings, unless a single schedule has more to catch up with.
const PAGE_JOBS: usize = 500;

/// What a tick did, and when to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ticked {
    pub(crate) occurrences: usize,
    pub(crate) misfires: usize,
    /// The soonest that something is to be looked at; nothing if nothing is known.
    next: Option<Timestamp>,
    /// Whether somebody else was at it.
    elsewhere: bool,
}

/// Ticks until `done`.
pub(crate) async fn tick_on(shared: Arc<Shared>, done: CancellationToken) {
    let owner = shared.id.to_string();
    loop {
        let ticked = match tick(&**shared.store(), &owner).await {
            Ok(ticked) => ticked,
            Err(error) => {
                tracing::warn!(worker = %shared.id, %error, "cannot enqueue what schedules say; it will be tried again");
                Ticked::default()
            }
        };
        shared.counters.occurrences.fetch_add(ticked.occurrences as u64, Ordering::Relaxed);
        shared.counters.misfires.fetch_add(ticked.misfires as u64, Ordering::Relaxed);
        let pause = match ticked.next {
            _ if ticked.elsewhere => BUSY_PERIOD,
            Some(at) => at.since(shared.store().now()).min(LOOK_PERIOD),
            None => LOOK_PERIOD,
        };
        if done.run_until_cancelled(time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Enqueues all that is due by now, in pages, the longest overdue first.
pub(crate) async fn tick(store: &dyn Store, owner: &str) -> StoreResult<Ticked> {
    let mut ticked = Ticked::default();
    if !ticked.is_due(store, &store.upcoming(None, 1).await?) {
        return Ok(ticked);
    }
    let mut after = None;
    // Again for every page: all of them may take longer than the lock lasts.
    while store.lock(LOCK.to_owned(), owner.to_owned(), LOCK_TTL).await?.is_some() {
        // From where the last page ended: what was there before has moved, and to step over that takes time too.
        let page = store.upcoming(after.take(), PAGE_SCHEDULES).await?;
        after = page.last().and_then(|last| Some((last.next_run_at?, last.spec.name.clone())));
        if !ticked.is_due(store, &page) {
            store.unlock(LOCK.to_owned(), owner.to_owned()).await?;
            return Ok(ticked);
        }
        enqueue_page(store, page, &mut ticked).await?;
        // Claims are not to wait for all of it.
        task::yield_now().await;
    }
    Ok(Ticked { elsewhere: true, ..ticked })
}

impl Ticked {
    /// Whether it is time to look at one of these schedules; remembers when it is for the others.
    fn is_due(&mut self, store: &dyn Store, upcoming: &[Schedule]) -> bool {
        let now = store.now();
        let look = |schedule: &Schedule| Some(look_at(schedule.spec.overlap, schedule.next_run_at?));
        let (due, later): (Vec<Timestamp>, Vec<Timestamp>) =
            upcoming.iter().filter_map(look).partition(|at| *at <= now);
        self.next = self.next.into_iter().chain(later).min();
        !due.is_empty()
    }
}

/// Enqueues what is due of a page of schedules.
async fn enqueue_page(store: &dyn Store, page: Vec<Schedule>, ticked: &mut Ticked) -> StoreResult<()> {
    let mut saves: Vec<ScheduleSave> = Vec::new();
    for schedule in page {
        let Some(save) = decide(store, schedule, ticked).await? else { continue };
        let jobs: usize = saves.iter().map(|save| save.jobs.len()).sum();
        if jobs + save.jobs.len() > PAGE_JOBS && !saves.is_empty() {
            ticked.occurrences += enqueue(store, std::mem::take(&mut saves)).await?;
        }
        saves.push(save);
    }
    ticked.occurrences += enqueue(store, saves).await?;
    Ok(())
}

/// Stores schedules with their jobs; says how many jobs. What somebody else has stored meanwhile is his.
async fn enqueue(store: &dyn Store, saves: Vec<ScheduleSave>) -> StoreResult<usize> {
    if saves.is_empty() {
        return Ok(0);
    }
    let jobs: Vec<usize> = saves.iter().map(|save| save.jobs.len()).collect();
    let saved = store.save_schedules(saves).await?;
    Ok(saved.into_iter().zip(jobs).filter_map(|(saved, jobs)| saved.then_some(jobs)).sum())
}

/// What becomes of a schedule now; nothing if it is not its time.
async fn decide(store: &dyn Store, schedule: Schedule, ticked: &mut Ticked) -> StoreResult<Option<ScheduleSave>> {
    let now = store.now();
    let previous = unfinished(store, &schedule).await?;
    let decided = match due(&schedule, now, previous.is_some()) {
        Ok(Some(due)) => due,
        Ok(None) => return Ok(None),
        Err(problem) => return Ok(Some(disabled(schedule, problem))),
    };
    let name = &schedule.spec.name;
    if decided.misfired {
        ticked.misfires += 1;
        let (since, run) = (schedule.next_run_at, decided.occurrences.len());
        tracing::warn!(schedule = name, ?since, run, "nobody was there when a schedule was due");
    } else if decided.skipped {
        tracing::info!(schedule = name, "left out an occurrence: the one before is unfinished");
    }
    if let Some(job) = previous.filter(|_| decided.cancel_previous) {
        // Before the new one is stored: whoever takes over after a crash in between cancels nothing twice.
        let reason = Some("the schedule's next occurrence is due".to_owned());
        let change = Change { job, verb: Verb::Cancel, actor: format!("schedule {name}"), reason };
        store.change(vec![change]).await?;
    }
    Ok(Some(advanced(schedule, &decided)))
}

/// The job of the occurrence before, if it matters and is unfinished.
async fn unfinished(store: &dyn Store, schedule: &Schedule) -> StoreResult<Option<JobId>> {
    match schedule.last_job {
        Some(id) if schedule.spec.overlap != Overlap::Allow => {
            Ok(store.get(id).await?.filter(|job| !job.status.is_finished()).map(|job| job.id))
        }
        _ => Ok(None),
    }
}

fn advanced(mut schedule: Schedule, decided: &Due) -> ScheduleSave {
    let jobs: Vec<_> = decided.occurrences.iter().map(|at| schedule.spec.occurrence(*at)).collect();
    schedule.next_run_at = decided.next_run_at;
    schedule.last_run_at = decided.occurrences.last().copied().or(schedule.last_run_at);
    schedule.last_job = jobs.last().map(|job| job.id).or(schedule.last_job);
    ScheduleSave { schedule, is_new: false, jobs }
}

fn disabled(mut schedule: Schedule, problem: String) -> ScheduleSave {
    tracing::error!(schedule = schedule.spec.name, problem, "disabled a schedule that cannot be evaluated");
    (schedule.enabled, schedule.problem) = (false, Some(problem));
    ScheduleSave { schedule, is_new: false, jobs: Vec::new() }
}
