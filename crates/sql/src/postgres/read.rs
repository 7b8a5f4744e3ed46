//! Single jobs with their history, and the counters.

use std::collections::{BTreeMap, HashMap};

use punctual_core::{
    Attempt, AttemptId, AttemptStatus, Count, Event, EventId, Job, JobId, LogLevel, LogLine, Pending, Status,
    StoreError, Timestamp, WorkerId,
    measure::{self, Rollup},
};
use sqlx::{Row, postgres::PgRow};

use super::{
    core::Core,
    error,
    partitions::{self, Day},
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};
use crate::pending;

/// The job with this id, if it exists.
pub(crate) async fn get(store: &Core, id: JobId) -> sqlx::Result<Option<Job>> {
    let row = get_row(store, id).await?;
    row.as_ref().map(rows::job_now).transpose()
}

async fn get_row(store: &Core, id: JobId) -> sqlx::Result<Option<PgRow>> {
    let from = async |table: &str| {
        let mut unit = store.sessions.single().await?;
        let query = sqlx::query(sql::of_table(*sql::JOB, table)).bind(uuid(id)).bind(At(id.timestamp()));
        let row = query.fetch_optional(&mut *unit).await?;
        unit.done().await?;
        Ok(row)
    };
    match from(&store.days.table_of(id)).await {
        Err(gone) if error::partition_gone(&gone) => {
            refresh_days(store).await?;
            from(partitions::JOBS.name).await
        }
        row => row,
    }
}

/// Reads the existing partitions again after one that this process knew was removed.
pub(crate) async fn refresh_days(store: &Core) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    store.days.refresh(&mut unit).await?;
    unit.done().await
}

/// The current state of jobs, by id.
pub(crate) async fn get_many(store: &Core, ids: &[JobId]) -> sqlx::Result<BTreeMap<JobId, Job>> {
    let rows = rows_of(store, *sql::JOBS, ids).await?;
    rows.iter().map(|row| rows::job_now(row).map(|job| (job.id, job))).collect()
}

/// Like [`get_many`], but a job whose row is corrupt is returned as its error and does not fail the others.
pub(crate) async fn get_each(store: &Core, ids: &[JobId]) -> sqlx::Result<HashMap<JobId, Result<Job, StoreError>>> {
    let rows = rows_of(store, *sql::JOBS, ids).await?;
    let job = |row: &PgRow| {
        let id = row.try_get(0).map(job_id)?;
        Ok((id, rows::job_now(row).map_err(|error| store.sessions.error(error))))
    };
    rows.iter().map(job).collect()
}

/// The rows of a statement about jobs, each job read from its partition. Through the partitioned table, the server
/// would search all partitions for each job.
pub(crate) async fn rows_of(store: &Core, text: &str, ids: &[JobId]) -> sqlx::Result<Vec<PgRow>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    match rows_of_tables(store, text, store.days.by_table(ids, |id| **id)).await {
        Err(gone) if error::partition_gone(&gone) => {
            refresh_days(store).await?;
            let every = BTreeMap::from([(partitions::JOBS.name.to_owned(), ids.iter().collect())]);
            rows_of_tables(store, text, every).await
        }
        rows => rows,
    }
}

async fn rows_of_tables(store: &Core, text: &str, tables: BTreeMap<String, Vec<&JobId>>) -> sqlx::Result<Vec<PgRow>> {
    let mut unit = store.sessions.single().await?;
    // A statement about one day is likely to be repeated, so it is prepared; one about several days hardly is.
    let mut query = sqlx::query(sql::of_tables(text, tables.keys())).persistent(tables.len() == 1);
    for ids in tables.values() {
        query = query.bind(ids.iter().map(|id| uuid(**id)).collect::<Vec<_>>());
        query = query.bind(ids.iter().map(|id| At(id.timestamp())).collect::<Vec<_>>());
    }
    let rows = query.fetch_all(&mut *unit).await?;
    unit.done().await?;
    Ok(rows)
}

/// The executions of a job, in the order in which they began.
pub(crate) async fn attempts(store: &Core, id: JobId) -> sqlx::Result<Vec<Attempt>> {
    let Some(history) = history(store, id).await? else { return Ok(Vec::new()) };
    let attempt = |row: &PgRow| {
        let Some(attempt) = row.try_get::<Option<i32>, _>(6)? else { return Ok(None) };
        Ok(Some(Attempt {
            id: AttemptId { job: id, run: rows::number(row, 3)? },
            attempt: attempt as u32,
            status: rows::word(row, 7)?,
            worker_id: WorkerId::from_bits(row.try_get::<Uuid, _>(8)?.as_u128()),
            started_at: rows::instant(row, 9)?,
            finished_at: Some(rows::instant(row, 1)?),
            error: rows::document(row, 10)?,
        }))
    };
    let mut attempts: Vec<Attempt> =
        history.stored.iter().filter_map(|row| attempt(row).transpose()).collect::<sqlx::Result<_>>()?;
    let job = history.job;
    if let (Some(worker_id), Some(started_at)) = (job.worker_id, job.started_at) {
        attempts.push(Attempt {
            id: AttemptId { job: id, run: job.run },
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

/// All events of a job: the stored ones, and those derived from other rows (the initial queueing, beginnings of
/// executions).
pub(crate) async fn events(store: &Core, id: JobId) -> sqlx::Result<Vec<Event>> {
    let Some(history) = history(store, id).await? else { return Ok(Vec::new()) };
    let job = history.job;
    let event = |number: u32, at, status, run| Event {
        id: EventId::new(at, event_number(id, number)),
        at,
        status,
        run,
        actor: None,
        detail: None,
    };
    let mut events = Vec::with_capacity(2 * history.stored.len() + 2);
    for row in &history.stored {
        let (number, run) = (rows::number(row, 0)?, row.try_get::<Option<i32>, _>(3)?.map(|run| run as u32));
        if let Some(began) = rows::optional_instant(row, 9)? {
            events.push((number - 1, event(number - 1, began, Status::Processing, run)));
        }
        let mut found = event(number, rows::instant(row, 1)?, rows::word(row, 2)?, run);
        (found.actor, found.detail) = (row.try_get(4)?, row.try_get(5)?);
        events.push((number, found));
    }
    if let (Some(_), Some(began)) = (job.worker_id, job.started_at) {
        events.push((history.count, event(history.count, began, Status::Processing, Some(job.run))));
    }
    if events.first().is_none_or(|(number, _)| *number > 1) {
        events.insert(0, (1, event(1, job.created_at, Status::Queued, None)));
    }
    Ok(events.into_iter().map(|(_, event)| event).collect())
}

/// A job with its stored history.
struct JobHistory {
    job: Job,
    /// The total number of events.
    count: u32,
    /// The rows of the stored events, in order.
    stored: Vec<PgRow>,
}

async fn history(store: &Core, id: JobId) -> sqlx::Result<Option<JobHistory>> {
    let Some(row) = get_row(store, id).await? else { return Ok(None) };
    let (mut stored, mut next) = (Vec::new(), Some(rows::instant(&row, 31)?));
    // From the last event backwards, one day at a time. The previous event may even be of the next day, because jobs
    // are claimed ahead.
    while let Some(at) = next {
        let (mut rows, whole) = events_until(store, id, at).await?;
        let first = rows.first().map(|row| rows::optional_instant(row, 11)).transpose()?.flatten();
        next = first.filter(|first| !whole && Day::of(*first) != Day::of(at));
        rows.append(&mut stored);
        stored = rows;
    }
    Ok(Some(JobHistory { job: rows::job_now(&row)?, count: rows::number(&row, 29)?, stored }))
}

/// The events of a job in the partition of an instant, from that instant backwards; and whether these are all.
async fn events_until(store: &Core, id: JobId, at: Timestamp) -> sqlx::Result<(Vec<PgRow>, bool)> {
    let from = async |table: &str| {
        let mut unit = store.sessions.single().await?;
        let text = sqlx::AssertSqlSafe(sql::EVENTS.replace("{events}", table));
        let rows = sqlx::query(text).bind(uuid(id)).bind(At(at)).fetch_all(&mut *unit).await?;
        unit.done().await?;
        Ok(rows)
    };
    let day = Day::of(at);
    if store.days.has_partition(partitions::EVENTS, day) {
        match from(&partitions::EVENTS.partition(day)).await {
            Err(gone) if error::partition_gone(&gone) => refresh_days(store).await?,
            rows => return Ok((rows?, false)),
        }
    }
    Ok((from(partitions::EVENTS.name).await?, true))
}

/// The number of a job's event among all events of an instant: the job's random bits, then the event's number within
/// the job.
pub(crate) const fn event_number(id: JobId, number: u32) -> u64 {
    ((id.to_bits() as u64) << 20) | (number as u64 & 0xf_ffff)
}

pub(crate) async fn logs(store: &Core, id: JobId, limit: usize) -> sqlx::Result<Vec<LogLine>> {
    let Some(job) = get(store, id).await? else { return Ok(Vec::new()) };
    let mut unit = store.sessions.single().await?;
    // Log lines carry their workers' times, which may differ from the server's.
    let since = At(job.created_at.before(std::time::Duration::from_secs(86_400)));
    let rows = sqlx::query(*sql::LOGS).bind(uuid(id)).bind(since).bind(limit as i64).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let line = |row: &PgRow| {
        Ok(LogLine {
            run: rows::number(row, 0)?,
            at: rows::instant(row, 1)?,
            level: LogLevel::named(row.try_get(2)?),
            message: row.try_get(3)?,
        })
    };
    rows.iter().map(line).collect()
}

pub(crate) async fn counts(store: &Core) -> sqlx::Result<Vec<Count>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::COUNTS).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let count = |row: &PgRow| {
        let count = row.try_get::<i64, _>(3)? as u64;
        Ok(Count { queue: row.try_get(0)?, name: row.try_get(1)?, status: rows::word(row, 2)?, count })
    };
    let mut counts = rows.iter().map(count).collect::<sqlx::Result<Vec<_>>>()?;
    counts.sort();
    Ok(counts)
}

pub(crate) async fn pending_by_user(store: &Core, limit: usize) -> sqlx::Result<Vec<Pending>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::PENDING).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let users = |row: &PgRow| {
        let count = row.try_get::<i64, _>(2)? as u64;
        Ok(Pending { user_id: row.try_get(0)?, name: row.try_get(1)?, count })
    };
    let users = rows.iter().map(users).collect::<sqlx::Result<Vec<_>>>()?;
    Ok(pending::with_nobodys(users, counts(store).await?, limit))
}

pub(crate) async fn dead_by_name(store: &Core, since: Timestamp, until: Timestamp) -> sqlx::Result<Vec<(String, u64)>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::DEAD_BY_NAME).bind(At(since)).bind(At(until)).fetch_all(&mut *unit).await?;
    unit.done().await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get::<i64, _>(1)? as u64))).collect()
}

pub(crate) async fn rollups(store: &Core, since: Timestamp, until: Timestamp) -> sqlx::Result<Vec<Rollup>> {
    let mut unit = store.sessions.single().await?;
    let first = At(measure::hour(since));
    let rows = sqlx::query(*sql::ROLLUPS).bind(first).bind(At(until)).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let rollup = |row: &PgRow| {
        Ok(Rollup {
            name: row.try_get(0)?,
            queue: row.try_get(1)?,
            measure: rows::word(row, 2)?,
            bucket: row.try_get::<i16, _>(3)? as u16,
            count: row.try_get::<i64, _>(4)? as u64,
        })
    };
    rows.iter().map(rollup).collect()
}
