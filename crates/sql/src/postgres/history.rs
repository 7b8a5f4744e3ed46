//! Histories of jobs: events and attempts, from the stored events and the rows of the jobs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Event, EventId, History, Job, JobId, Status, Timestamp, WorkerId,
};
use sqlx::{Row, postgres::PgRow};

use super::{
    core::Core,
    error,
    partitions::{self, Day},
    read::{refresh_days, rows_of},
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// The histories of jobs, in the order of the request; that of an unknown job is empty.
pub(crate) async fn histories(store: &Core, ids: &[JobId]) -> sqlx::Result<Vec<History>> {
    let distinct: BTreeSet<JobId> = ids.iter().copied().collect();
    let jobs = rows_of(store, *sql::JOBS, &Vec::from_iter(distinct)).await?;
    let last_event = |row: &PgRow| Ok((row.try_get(0).map(job_id)?, rows::instant(row, 31)?));
    let mut stored = stored_events(store, jobs.iter().map(last_event).collect::<sqlx::Result<_>>()?).await?;
    let history = |row: &PgRow| {
        let job = rows::job_now(row)?;
        let stored =
            StoredHistory { count: rows::number(row, 29)?, events: stored.remove(&job.id).unwrap_or_default(), job };
        Ok((stored.job.id, History { events: stored.all_events()?, attempts: stored.attempts()? }))
    };
    let found: HashMap<JobId, History> = jobs.iter().map(history).collect::<sqlx::Result<_>>()?;
    Ok(ids.iter().map(|id| found.get(id).cloned().unwrap_or_default()).collect())
}

/// The rows of the stored events of jobs, in order, given the time of each job's last event.
async fn stored_events(store: &Core, mut next: Vec<(JobId, Timestamp)>) -> sqlx::Result<HashMap<JobId, Vec<PgRow>>> {
    let mut stored = HashMap::<JobId, Vec<PgRow>>::new();
    // From the last event backwards, one day at a time. The previous event may even be of the next day, because jobs
    // are claimed ahead.
    while !next.is_empty() {
        let mut by_day = BTreeMap::<Day, Vec<(JobId, Timestamp)>>::new();
        for last in next.drain(..) {
            by_day.entry(Day::of(last.1)).or_default().push(last);
        }
        for (day, last) in by_day {
            let (rows, whole) = events_until(store, day, &last).await?;
            for (job, mut rows) in by_job(rows)? {
                let before = rows.first().map(|row| rows::optional_instant(row, 11)).transpose()?.flatten();
                next.extend(before.filter(|at| !whole && Day::of(*at) != day).map(|at| (job, at)));
                let later = stored.entry(job).or_default();
                rows.append(later);
                *later = rows;
            }
        }
    }
    Ok(stored)
}

fn by_job(rows: Vec<PgRow>) -> sqlx::Result<HashMap<JobId, Vec<PgRow>>> {
    let mut jobs = HashMap::<JobId, Vec<PgRow>>::new();
    for row in rows {
        jobs.entry(row.try_get(12).map(job_id)?).or_default().push(row);
    }
    Ok(jobs)
}

/// The events of jobs in the partition of a day, from the last one backwards; and whether these are all.
async fn events_until(store: &Core, day: Day, last: &[(JobId, Timestamp)]) -> sqlx::Result<(Vec<PgRow>, bool)> {
    let from = async |table: &str| {
        let mut unit = store.sessions.single().await?;
        let text = sqlx::AssertSqlSafe(sql::EVENTS.replace("{events}", table));
        let query = sqlx::query(text)
            .bind(last.iter().map(|(id, _)| uuid(*id)).collect::<Vec<_>>())
            .bind(last.iter().map(|(_, at)| At(*at)).collect::<Vec<_>>());
        let rows = query.fetch_all(&mut *unit).await?;
        unit.done().await?;
        Ok(rows)
    };
    if store.days.has_partition(partitions::EVENTS, day) {
        match from(&partitions::EVENTS.partition(day)).await {
            Err(gone) if error::is_partition_gone(&gone) => refresh_days(store).await?,
            rows => return Ok((rows?, false)),
        }
    }
    Ok((from(partitions::EVENTS.name).await?, true))
}

/// A job with its stored history.
struct StoredHistory {
    job: Job,
    /// The total number of events.
    count: u32,
    /// The rows of the stored events, in order.
    events: Vec<PgRow>,
}

impl StoredHistory {
    /// The executions, in the order in which they began.
    fn attempts(&self) -> sqlx::Result<Vec<Attempt>> {
        let job = &self.job;
        let attempt = |row: &PgRow| {
            let Some(attempt) = row.try_get::<Option<i32>, _>(6)? else { return Ok(None) };
            Ok(Some(Attempt {
                id: AttemptId { job: job.id, run: rows::number(row, 3)? },
                attempt: attempt as u32,
                status: rows::word(row, 7)?,
                worker_id: WorkerId::from_bits(row.try_get::<Uuid, _>(8)?.as_u128()),
                started_at: rows::instant(row, 9)?,
                finished_at: Some(rows::instant(row, 1)?),
                error: rows::document(row, 10)?,
            }))
        };
        let mut attempts: Vec<Attempt> =
            self.events.iter().filter_map(|row| attempt(row).transpose()).collect::<sqlx::Result<_>>()?;
        if let (Some(worker_id), Some(started_at)) = (job.worker_id, job.started_at) {
            attempts.push(Attempt {
                id: AttemptId { job: job.id, run: job.run },
                attempt: job.attempt,
                status: AttemptStatus::Running,
                worker_id,
                started_at,
                finished_at: None,
                error: None,
            });
        }
        Ok(attempts)
    }

    /// All events: the stored ones, and those derived from other rows (the initial queueing, beginnings of executions).
    fn all_events(&self) -> sqlx::Result<Vec<Event>> {
        let job = &self.job;
        let event = |number: u32, at, status, run| Event {
            id: EventId::new(at, event_number(job.id, number)),
            at,
            status,
            run,
            actor: None,
            detail: None,
        };
        let mut events = Vec::with_capacity(2 * self.events.len() + 2);
        for row in &self.events {
            let (number, run) = (rows::number(row, 0)?, row.try_get::<Option<i32>, _>(3)?.map(|run| run as u32));
            if let Some(began) = rows::optional_instant(row, 9)? {
                events.push((number - 1, event(number - 1, began, Status::Processing, run)));
            }
            let mut found = event(number, rows::instant(row, 1)?, rows::word(row, 2)?, run);
            (found.actor, found.detail) = (row.try_get(4)?, row.try_get(5)?);
            events.push((number, found));
        }
        if let (Some(_), Some(began)) = (job.worker_id, job.started_at) {
            events.push((self.count, event(self.count, began, Status::Processing, Some(job.run))));
        }
        if events.first().is_none_or(|(number, _)| *number > 1) {
            events.insert(0, (1, event(1, job.created_at, Status::Queued, None)));
        }
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }
}

/// The number of a job's event among all events of an instant: the job's random bits, then the event's number within
/// the job.
pub(crate) const fn event_number(id: JobId, number: u32) -> u64 {
    ((id.to_bits() as u64) << 20) | (number as u64 & 0xf_ffff)
}
