//! Single jobs with their log lines, and the counters.

use std::collections::{BTreeMap, HashMap};

use punctual_core::{
    Count, Job, JobId, LogLevel, LogLine, Pending, StoreError, Timestamp,
    measure::{self, Rollup},
};
use sqlx::{Row, postgres::PgRow};

use super::{
    core::Core,
    error, partitions, rows, statements as sql,
    value::{At, job_id, uuid},
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
        Err(gone) if error::is_partition_gone(&gone) => {
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
        Err(gone) if error::is_partition_gone(&gone) => {
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
    Ok(pending::with_userless(users, counts(store).await?, limit))
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
