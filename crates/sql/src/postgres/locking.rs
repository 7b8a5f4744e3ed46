//! Locks jobs before they are changed, or before jobs that wait for them are stored.
//!
//! Every transaction locks in the same order, which prevents deadlocks: the rows of running jobs, of queued jobs, and
//! of due jobs; those jobs; the rows of waiting jobs; those jobs; then unique keys. Within each kind, the order is by
//! id or key. Claims, promotions and settles also lock the state row before the job, and apply the consequences of an
//! end after it.
//!
//! A job whose state row is locked does not change state. A transaction must not wait for a job that changed state
//! before its state row was locked: the transaction that changes it may be waiting for this one. The state is therefore
//! read again before the job itself is locked.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::{Job, JobId, Status, Timestamp};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    old_partitions,
    partitions::{self, Day},
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobState {
    pub(crate) status: Status,
    pub(crate) run: u32,
    pub(crate) run_at: Timestamp,
    pub(crate) lane: i32,
    finished_at: Option<Timestamp>,
}

/// The states of jobs that exist.
pub(crate) type JobStates = BTreeMap<JobId, JobState>;

/// Ids and the times that they carry, as parameters of statements.
pub(crate) fn ids_and_times<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> (Vec<Uuid>, Vec<At>) {
    ids.into_iter().map(|id| (uuid(*id), At(id.timestamp()))).unzip()
}

/// Reads the states of jobs; jobs that do not exist are left out.
pub(crate) async fn states(connection: &mut PgConnection, ids: &BTreeSet<JobId>) -> sqlx::Result<JobStates> {
    let (uuids, times) = ids_and_times(ids);
    let rows = sqlx::query(*sql::JOB_STATES).bind(uuids).bind(times).fetch_all(connection).await?;
    let state = |row: &PgRow| {
        let state = JobState {
            status: rows::word(row, 1)?,
            run: rows::number(row, 2)?,
            run_at: rows::instant(row, 3)?,
            lane: row.try_get(4)?,
            finished_at: rows::optional_instant(row, 5)?,
        };
        Ok((job_id(row.try_get(0)?), state))
    };
    rows.iter().map(state).collect()
}

/// Locks jobs and, besides, the rows of the `waiting` ones. Returns `None` if one of the jobs changed state between
/// being read and being locked.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    ids: &BTreeSet<JobId>,
    waiting: &BTreeSet<JobId>,
    now: Timestamp,
) -> sqlx::Result<Option<JobStates>> {
    let (uuids, _) = ids_and_times(ids);
    let seen = states(connection, ids).await?;
    let is_old = |at: Timestamp| old_partitions::is_old(Day::of(at), now);
    if seen.iter().any(|(id, job)| is_old(id.timestamp()) || job.finished_at.is_some_and(is_old)) {
        old_partitions::share(connection).await?;
    }
    sqlx::query(*sql::CHANGE_HOLD_RUNNING).bind(&uuids).execute(&mut *connection).await?;
    lock_ready_and_due(connection, &seen).await?;
    let (own, others): (BTreeSet<JobId>, BTreeSet<JobId>) =
        ids.iter().partition(|id| seen.get(id).is_some_and(|job| job.status == Status::Waiting));
    if !lock_jobs(connection, &others, &seen).await? {
        return Ok(None);
    }
    lock_waiting(connection, &(&own | waiting)).await?;
    if !lock_jobs(connection, &own, &seen).await? {
        return Ok(None);
    }
    lock_keys(connection, &ids.union(waiting).map(|id| uuid(*id)).collect::<Vec<_>>()).await?;
    let locked = states(connection, ids).await?;
    Ok((locked == seen).then_some(locked))
}

/// Locks jobs whose state rows are locked, unless one changed state before; returns whether they were locked.
async fn lock_jobs(connection: &mut PgConnection, ids: &BTreeSet<JobId>, seen: &JobStates) -> sqlx::Result<bool> {
    if ids.is_empty() {
        return Ok(true);
    }
    let now = states(connection, ids).await?;
    let stayed = ids.iter().all(|id| now.get(id) == seen.get(id));
    if stayed {
        let (uuids, times) = ids_and_times(ids);
        sqlx::query(*sql::CHANGE_HOLD_JOBS).bind(uuids).bind(times).execute(connection).await?;
    }
    Ok(stayed)
}

/// Locks the jobs' unique keys, which the jobs may have to give up.
pub(crate) async fn lock_keys(connection: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<()> {
    let rows = sqlx::query(*sql::KEYS_OF).bind(ids).fetch_all(&mut *connection).await?;
    let key = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
    let keys = rows.iter().map(key).collect::<sqlx::Result<BTreeSet<(String, String)>>>()?;
    if keys.is_empty() {
        return Ok(());
    }
    let (scopes, keys): (Vec<String>, Vec<String>) = keys.into_iter().unzip();
    sqlx::query(*sql::KEYS_HOLD).bind(scopes).bind(keys).execute(connection).await.map(drop)
}

/// Locks the rows of queued and due jobs, so that they are neither claimed nor promoted meanwhile.
async fn lock_ready_and_due(connection: &mut PgConnection, seen: &JobStates) -> sqlx::Result<()> {
    let of = |matches: fn(Status) -> bool| seen.iter().filter(move |(_, job)| matches(job.status)).collect::<Vec<_>>();
    let (queued, timed) = (of(|status| status == Status::Queued), of(Status::is_timed));
    if !queued.is_empty() {
        sqlx::query(*sql::CHANGE_HOLD_READY)
            .bind(queued.iter().map(|(_, job)| job.lane).collect::<Vec<_>>())
            .bind(queued.iter().map(|(_, job)| At(job.run_at)).collect::<Vec<_>>())
            .bind(queued.iter().map(|(id, _)| uuid(**id)).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    if !timed.is_empty() {
        sqlx::query(*sql::CHANGE_HOLD_DUE)
            .bind(timed.iter().map(|(_, job)| At(job.run_at)).collect::<Vec<_>>())
            .bind(timed.iter().map(|(id, _)| uuid(**id)).collect::<Vec<_>>())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Locks the rows of waiting jobs.
pub(crate) async fn lock_waiting(connection: &mut PgConnection, ids: &BTreeSet<JobId>) -> sqlx::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = ids.iter().map(|id| uuid(*id)).collect();
    sqlx::query(*sql::FLOW_HOLD).bind(ids).execute(connection).await.map(drop)
}

/// A job locked by this transaction, with its number of events and its lane.
#[derive(Clone)]
pub(crate) struct LockedJob {
    pub(crate) job: Job,
    pub(crate) events: i32,
    pub(crate) lane: i32,
}

/// Reads the current state of jobs.
pub(crate) async fn read(
    connection: &mut PgConnection,
    ids: &[Uuid],
    times: &[At],
) -> sqlx::Result<BTreeMap<JobId, LockedJob>> {
    // The partitioned table is used because naming a removed partition would fail the whole transaction.
    let every = [partitions::JOBS.name.to_owned()];
    let query = sqlx::query(sql::of_tables(*sql::JOBS, every.iter()));
    let rows = query.bind(ids).bind(times).fetch_all(connection).await?;
    let locked = |row: &PgRow| {
        let job = rows::job_now(row)?;
        Ok((job.id, LockedJob { job, events: row.try_get(29)?, lane: row.try_get(30)? }))
    };
    rows.iter().map(locked).collect()
}
