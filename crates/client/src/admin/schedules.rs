//! Operations on schedules.

use std::time::Duration;

use punctual_core::{
    Error, Filter, Invalid, JobId, Misfire, NewJob, Overlap, Page, Schedule, ScheduleEvent, ScheduleId, ScheduleSave,
    ScheduleSpec, StoreError, Timestamp, check, limits, redact, schedule::ALERT_STATE_SCHEDULE,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Admin, JobView};
use crate::{Punctual, Recurring};

/// Number of times that a change is retried because another process changed the schedule meanwhile.
const TRIES: usize = 20;
/// Maximum number of jobs per transaction of a backfill, and of payload bytes unless a single job has more.
const BACKFILL_PAGE: (usize, usize) = (500, 16 << 20);
/// Number of jobs in a schedule's detail.
const RECENT_JOBS: usize = 10;
/// Number of events in a schedule's detail.
const RECENT_EVENTS: usize = 20;

/// A schedule without the raw payload of its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleView {
    /// Its id.
    pub id: ScheduleId,
    /// Its name.
    pub name: String,
    /// Its cron expression.
    pub cron: String,
    /// The cron expression in words.
    pub cron_description: String,
    /// The time zone of the cron expression.
    pub zone: String,
    /// Whether it is enabled; otherwise it is paused, or has a problem.
    pub enabled: bool,
    /// Why Punctual disabled it; `None` if it was paused by an operator or is enabled.
    pub problem: Option<String>,
    /// The time of the last occurrence that was enqueued.
    pub last_run_at: Option<Timestamp>,
    /// The time of the next occurrence; `None` if there is none, or the schedule is disabled.
    pub next_run_at: Option<Timestamp>,
    /// The job of the last occurrence.
    pub last_job: Option<JobId>,
    /// Misfire policy: how missed occurrences are handled.
    pub misfire: Misfire,
    /// Overlap policy: what an occurrence does while the job of the previous one is unfinished.
    pub overlap: Overlap,
    /// Maximum delay of each occurrence, in milliseconds.
    pub jitter_ms: u64,
    /// Start of the schedule: no occurrence before.
    pub starts_at: Option<Timestamp>,
    /// End of the schedule: no occurrence from then on.
    pub ends_at: Option<Timestamp>,
    /// Description.
    pub description: Option<String>,
    /// The program or file that defines it; `None` if it was created by hand.
    pub owner: Option<String>,
    /// Job name.
    pub job: String,
    /// Queue of its jobs.
    pub queue: String,
    /// Priority of its jobs.
    pub priority: u8,
    /// Maximum attempts of its jobs.
    pub max_attempts: u32,
    /// Timeout per attempt, in milliseconds.
    pub timeout_ms: u64,
    /// The payload of its jobs with secrets redacted.
    pub payload_preview: Value,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed, triggered or backfilled; its occurrences are not changes.
    pub updated_at: Timestamp,
    /// The actor of the last change; `punctual` if Punctual disabled or corrected it.
    pub updated_by: String,
}

impl ScheduleView {
    /// Creates the view of a schedule.
    pub fn of(schedule: &Schedule) -> Self {
        let (spec, job) = (&schedule.spec, &schedule.spec.job);
        Self {
            id: schedule.id,
            name: spec.name.clone(),
            cron: spec.cron.clone(),
            cron_description: spec.timing().map_or_else(|problem| problem.to_string(), |timing| timing.describe()),
            zone: spec.zone.clone(),
            enabled: schedule.enabled,
            problem: schedule.problem.clone(),
            last_run_at: schedule.last_run_at,
            next_run_at: schedule.next_run_at.filter(|_| schedule.enabled),
            last_job: schedule.last_job,
            misfire: spec.misfire,
            overlap: spec.overlap,
            jitter_ms: spec.jitter.as_millis() as u64,
            starts_at: spec.starts_at,
            ends_at: spec.ends_at,
            description: spec.description.clone(),
            owner: spec.owner.clone(),
            job: job.name.clone(),
            queue: job.queue.clone(),
            priority: job.priority,
            max_attempts: job.max_attempts,
            timeout_ms: job.timeout.as_millis() as u64,
            payload_preview: redact::preview(&job.payload, &job.options.redact_keys),
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
            updated_by: schedule.updated_by.clone(),
        }
    }
}

/// A page of schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleList {
    /// The schedules, by name.
    pub schedules: Vec<ScheduleView>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// A schedule with its latest jobs, its events and its next occurrences.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleDetail {
    /// The schedule.
    pub schedule: ScheduleView,
    /// Its next occurrences, computed as if it were not paused.
    pub upcoming: Vec<Timestamp>,
    /// Its latest jobs, newest first.
    pub jobs: Vec<JobView>,
    /// What was done to it, latest first.
    pub events: Vec<ScheduleEvent>,
}

/// The result of storing a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Put {
    /// The schedule was created.
    Added,
    /// The schedule was changed.
    Changed,
    /// The schedule already had this definition.
    Unchanged,
}

impl Put {
    /// The result once `save` is stored.
    pub(crate) const fn of(save: &ScheduleSave) -> Self {
        if save.is_new { Self::Added } else { Self::Changed }
    }
}

/// The result of a backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Backfilled {
    /// The jobs that were enqueued for missing occurrences.
    pub enqueued: Vec<JobId>,
    /// Number of occurrences that already had a job.
    pub existing: usize,
}

impl Admin {
    /// Returns a page of schedules by name, starting after the name `after`.
    pub async fn schedules(&self, after: Option<String>, limit: usize) -> Result<ScheduleList, Error> {
        check::range("limit", limit, 1..=limits::PAGE_MAX_SCHEDULES)?;
        let found = self.punctual.store().schedules(after, limit).await?;
        let next = found.last().filter(|_| found.len() == limit).map(|last| last.spec.name.clone());
        let shown = found.iter().filter(|schedule| schedule.spec.name != ALERT_STATE_SCHEDULE);
        Ok(ScheduleList { schedules: shown.map(ScheduleView::of).collect(), next })
    }

    /// Returns a schedule with its next `upcoming` occurrences, its latest jobs and its events.
    pub async fn schedule(&self, name: &str, upcoming: usize) -> Result<ScheduleDetail, Error> {
        let schedule = find(&self.punctual, name).await?;
        let now = self.punctual.store().now();
        let upcoming = match schedule.spec.timing() {
            Ok(timing) => timing.upcoming(now, upcoming.min(limits::PAGE_MAX_SCHEDULES)).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let filter = Filter { schedule: Some(name.to_owned()), ..Filter::default() };
        let jobs = self.jobs(filter, Page::first(RECENT_JOBS)).await?.jobs;
        let events = self.punctual.store().schedule_events(name.to_owned(), RECENT_EVENTS).await?;
        Ok(ScheduleDetail { schedule: ScheduleView::of(&schedule), upcoming, jobs, events })
    }

    /// Creates a schedule, or replaces the one of the same name. A schedule with another owner is refused: change it
    /// where it is defined.
    pub async fn put_schedule(&self, schedule: Recurring) -> Result<Put, Error> {
        let spec = schedule.check(self.punctual.store().now())?;
        put(&self.punctual, spec, &self.actor).await
    }

    /// Pauses a schedule: no occurrence is enqueued until it is resumed. Jobs that are already enqueued still run.
    pub async fn pause_schedule(&self, name: &str) -> Result<(), Error> {
        self.edit(name, "paused", |schedule, _| {
            let runs = std::mem::replace(&mut schedule.enabled, false);
            let was_broken = schedule.problem.take().is_some();
            Ok((runs || was_broken).then(Vec::new))
        })
        .await
        .map(drop)
    }

    /// Resumes a schedule with its next occurrence from now. Occurrences missed during the pause are not enqueued; use
    /// [`backfill_schedule`](Self::backfill_schedule) for those.
    pub async fn resume_schedule(&self, name: &str) -> Result<(), Error> {
        self.edit(name, "resumed", |schedule, now| {
            if schedule.enabled {
                return Ok(None);
            }
            schedule.next_run_at = next_run(&schedule.spec, now)?;
            (schedule.enabled, schedule.problem) = (true, None);
            Ok(Some(Vec::new()))
        })
        .await
        .map(drop)
    }

    /// Enqueues a job of the schedule now, also if the schedule is paused. The time of its next occurrence does not
    /// change.
    pub async fn trigger_schedule(&self, name: &str) -> Result<JobId, Error> {
        let store = self.punctual.store();
        let last = match find(&self.punctual, name).await?.last_job {
            Some(id) => store.get(id).await?.filter(|job| job.status.is_active()).map(|job| job.id),
            None => None,
        };
        let trace = self.punctual.trace_now();
        let jobs = self
            .edit(name, "triggered", |schedule, now| {
                let id = JobId::from_bits(self.punctual.ids().next(now));
                let mut spec = schedule.spec.job_at(now);
                spec.options.created_by = Some(self.actor.clone());
                if let Some(trace) = &trace {
                    trace.write(&mut spec.options);
                }
                // The overlap policy of the next occurrence must see an unfinished job, if there is one.
                schedule.last_job = last.or(Some(id));
                Ok(Some(vec![NewJob::new(id, spec)]))
            })
            .await?;
        jobs.first().copied().ok_or_else(|| Error::NoSchedule(name.to_owned()))
    }

    /// Enqueues the occurrences from `since` up to `until`, which must be past, that have no job yet.
    pub async fn backfill_schedule(&self, name: &str, since: Timestamp, until: Timestamp) -> Result<Backfilled, Error> {
        let (spec, times) = self.occurrences(name, since, until).await?;
        let trace = self.punctual.trace_now();
        let mut filled = Backfilled { enqueued: Vec::new(), existing: 0 };
        let jobs_max = (BACKFILL_PAGE.1 / spec.job.payload.as_str().len().max(1)).clamp(1, BACKFILL_PAGE.0);
        for page in times.chunks(jobs_max) {
            let now = self.punctual.store().now();
            let job = |at: &Timestamp| {
                let mut job = spec.occurrence(*at);
                job.spec.options.created_by = Some(self.actor.clone());
                if let Some(trace) = &trace {
                    trace.write(&mut job.spec.options);
                }
                // The delay places it behind the jobs that are already waiting.
                job.delay = Some(now.since(*at));
                job
            };
            for job in self.punctual.store().enqueue(page.iter().map(job).collect()).await? {
                if job.existing { filled.existing += 1 } else { filled.enqueued.push(job.id) }
            }
        }
        let what = format!("backfilled from {since} to {until}: {} jobs", filled.enqueued.len());
        self.edit(name, &what, |_, _| Ok(Some(Vec::new()))).await?;
        Ok(filled)
    }

    /// Returns the occurrences that a backfill would check.
    pub async fn preview_backfill(
        &self,
        name: &str,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Timestamp>, Error> {
        Ok(self.occurrences(name, since, until).await?.1)
    }

    async fn occurrences(
        &self,
        name: &str,
        since: Timestamp,
        until: Timestamp,
    ) -> Result<(ScheduleSpec, Vec<Timestamp>), Error> {
        let (spec, now) = (find(&self.punctual, name).await?.spec, self.punctual.store().now());
        if until <= since {
            return Err(Invalid::new("until", format!("{until} is not after {since}")).into());
        }
        if until > now {
            return Err(
                Invalid::new("until", format!("{until} is not past; future occurrences need no backfill")).into()
            );
        }
        let (timing, mut times) = (spec.timing()?, Vec::new());
        let broken = |problem: String| Invalid::new("cron", problem);
        let mut next = timing.next(since.before(Duration::from_micros(1))).map_err(broken)?;
        while let Some(at) = next
            && at < until
        {
            if times.len() == limits::BACKFILL_MAX_JOBS {
                let problem =
                    format!("more than {} occurrences before it; backfill shorter periods", limits::BACKFILL_MAX_JOBS);
                return Err(Invalid::new("until", problem).into());
            }
            times.push(at);
            next = timing.next(at).map_err(broken)?;
        }
        Ok((spec, times))
    }

    /// Removes a schedule; its jobs stay. A schedule that a program or file defines is created again when that program
    /// next starts.
    pub async fn delete_schedule(&self, name: &str) -> Result<(), Error> {
        check::name("schedule", name, limits::NAME_MAX_CHARS)?;
        if self.punctual.store().remove_schedule(name.to_owned(), self.actor.clone()).await? {
            tracing::info!(schedule = name, actor = self.actor, "removed a schedule");
            return Ok(());
        }
        Err(Error::NoSchedule(name.to_owned()))
    }

    /// Changes a schedule and stores it together with the jobs that `change` returns, unless `change` returns `None`.
    /// Retried if another process changed the schedule meanwhile.
    async fn edit(
        &self,
        name: &str,
        what: &str,
        change: impl Fn(&mut Schedule, Timestamp) -> Result<Option<Vec<NewJob>>, Error>,
    ) -> Result<Vec<JobId>, Error> {
        let store = self.punctual.store();
        for _ in 0..TRIES {
            let (mut schedule, now) = (find(&self.punctual, name).await?, store.now());
            let Some(jobs) = change(&mut schedule, now)? else { return Ok(Vec::new()) };
            (schedule.updated_at, schedule.updated_by) = (now, self.actor.clone());
            let ids = jobs.iter().map(|job| job.id).collect();
            let save = ScheduleSave { schedule, is_new: false, jobs, done: Some(what.to_owned()) };
            if store.save_schedules(vec![save]).await? == [true] {
                return Ok(ids);
            }
        }
        Err(StoreError::Busy { waited_ms: 0 }.into())
    }
}

async fn find(punctual: &Punctual, name: &str) -> Result<Schedule, Error> {
    check::name("schedule", name, limits::NAME_MAX_CHARS)?;
    punctual.store().schedule(name.to_owned()).await?.ok_or_else(|| Error::NoSchedule(name.to_owned()))
}

fn next_run(spec: &ScheduleSpec, now: Timestamp) -> Result<Option<Timestamp>, Invalid> {
    spec.timing()?.next(now).map_err(|problem| Invalid::new("cron", problem))
}

/// Stores a checked schedule: creates it, or replaces the one of the same name if that has the same owner.
pub(crate) async fn put(punctual: &Punctual, spec: ScheduleSpec, actor: &str) -> Result<Put, Error> {
    let store = punctual.store();
    for _ in 0..TRIES {
        let (known, now) = (store.schedule(spec.name.clone()).await?, store.now());
        let request = PutRequest { spec: &spec, actor, now };
        let Some(save) = decide_put(punctual, known.as_ref(), request)? else { return Ok(Put::Unchanged) };
        let put = Put::of(&save);
        if store.save_schedules(vec![save]).await? == [true] {
            return Ok(put);
        }
    }
    Err(StoreError::Busy { waited_ms: 0 }.into())
}

/// A request to create a schedule, or to replace its definition.
pub(crate) struct PutRequest<'a> {
    pub(crate) spec: &'a ScheduleSpec,
    pub(crate) actor: &'a str,
    pub(crate) now: Timestamp,
}

/// The change that gives a schedule the requested definition; `None` if it already has it.
pub(crate) fn decide_put(
    punctual: &Punctual,
    known: Option<&Schedule>,
    PutRequest { spec, actor, now }: PutRequest<'_>,
) -> Result<Option<ScheduleSave>, Error> {
    let schedule = match known {
        Some(known) if known.spec == *spec && known.problem.is_none() => return Ok(None),
        Some(known) if known.spec.owner != spec.owner => {
            let owner = known.spec.owner.clone().unwrap_or_else(|| "hand".to_owned());
            return Err(Error::Owned { schedule: spec.name.clone(), owner });
        }
        Some(known) => changed(known, spec.clone(), actor, now)?,
        None => Schedule {
            id: ScheduleId::from_bits(punctual.ids().next(now)),
            next_run_at: next_run(spec, now)?,
            spec: spec.clone(),
            enabled: true,
            problem: None,
            revision: 0,
            last_run_at: None,
            last_job: None,
            created_at: now,
            updated_at: now,
            updated_by: actor.to_owned(),
        },
    };
    let done = if known.is_none() { "added" } else { "changed" };
    Ok(Some(ScheduleSave { schedule, is_new: known.is_none(), jobs: Vec::new(), done: Some(done.into()) }))
}

/// A schedule with a new definition. The next occurrence stays unless the times change; a pause stays unless it was
/// caused by a problem.
fn changed(known: &Schedule, spec: ScheduleSpec, actor: &str, now: Timestamp) -> Result<Schedule, Invalid> {
    let times = |spec: &ScheduleSpec| (spec.cron.clone(), spec.zone.clone(), spec.starts_at, spec.ends_at);
    let same_times = times(&known.spec) == times(&spec) && known.problem.is_none();
    // Occurrences that are already due are left to the next tick, whatever has changed.
    let overdue = known.next_run_at.filter(|at| known.enabled && *at < now);
    let from = overdue.map_or(now, |at| at.before(Duration::from_micros(1)));
    Ok(Schedule {
        next_run_at: if same_times { known.next_run_at } else { next_run(&spec, from)? },
        enabled: known.enabled || known.problem.is_some(),
        problem: None,
        spec,
        updated_at: now,
        updated_by: actor.to_owned(),
        ..known.clone()
    })
}
