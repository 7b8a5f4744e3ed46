//! Unique keys: their holders, how they are taken, and what a conflict changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use punctual_core::{
    Job, JobId, NewJob, Refused, Timestamp, Unique, Verb,
    change::{self, KeyChange, KeyHolder},
};
use sqlx::{PgConnection, Row};

use super::{
    core::Core,
    error, locking, rows, statements as sql,
    value::{At, job_id, uuid},
};

pub(crate) type Key = (String, String);

pub(crate) fn key_of(job: &NewJob) -> Option<Key> {
    job.spec.unique_key().map(|(scope, key)| (scope, key.to_owned()))
}

/// Takes the unique keys of the jobs that have one and are not `known` to be stored; returns, for each job that does
/// not get its key, the conflicting job.
pub(crate) async fn take(
    store: &Core,
    connection: &mut PgConnection,
    jobs: &[NewJob],
    known: &HashSet<JobId>,
) -> sqlx::Result<HashMap<JobId, JobId>> {
    // The first job of a batch with a key takes it.
    let mut takers: BTreeMap<Key, &NewJob> = BTreeMap::new();
    let new = || jobs.iter().filter(|job| !known.contains(&job.id));
    for (job, key) in new().filter_map(|job| Some((job, key_of(job)?))) {
        takers.entry(key).or_insert(job);
    }
    if takers.is_empty() {
        return Ok(HashMap::new());
    }
    let claims: Vec<(&Key, &NewJob)> = takers.iter().map(|(key, job)| (key, *job)).collect();
    let rows = bind(*sql::KEYS_TAKE, store, &claims).fetch_all(&mut *connection).await?;
    let mut holders: BTreeMap<Key, Holder> = BTreeMap::new();
    for row in &rows {
        let (job, expires_at) = (job_id(row.try_get(2)?), rows::optional_instant(row, 3)?);
        holders.insert((row.try_get(0)?, row.try_get(1)?), Holder { job, expires_at, now: rows::instant(row, 4)? });
    }
    pass_on(store, connection, &takers, &mut holders).await?;
    let other = |job: &NewJob| {
        let holder = holders.get(&key_of(job)?)?.job;
        (holder != job.id).then_some((job.id, holder))
    };
    Ok(new().filter_map(other).collect())
}

/// The job that holds a key, and until when the key is in force.
struct Holder {
    job: JobId,
    expires_at: Option<Timestamp>,
    now: Timestamp,
}

fn bind<'q>(
    text: &'static str,
    store: &Core,
    claims: &[(&Key, &NewJob)],
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let period = |job: &NewJob| job.spec.unique().period.map(|period| period.as_micros() as i64);
    sqlx::query(text)
        .bind(store.sessions.clock())
        .bind(claims.iter().map(|((scope, _), _)| scope.clone()).collect::<Vec<_>>())
        .bind(claims.iter().map(|((_, key), _)| key.clone()).collect::<Vec<_>>())
        .bind(claims.iter().map(|(_, job)| uuid(job.id)).collect::<Vec<_>>())
        .bind(claims.iter().map(|(_, job)| period(job)).collect::<Vec<_>>())
}

/// Passes keys whose holders no longer conflict to the new jobs with these keys.
async fn pass_on(
    store: &Core,
    connection: &mut PgConnection,
    takers: &BTreeMap<Key, &NewJob>,
    holders: &mut BTreeMap<Key, Holder>,
) -> sqlx::Result<()> {
    let others = holders.iter().filter(|(key, holder)| takers.get(*key).is_some_and(|job| job.id != holder.job));
    let others: BTreeSet<JobId> = others.map(|(_, holder)| holder.job).collect();
    if others.is_empty() {
        return Ok(());
    }
    let states = locking::states(connection, &others).await?;
    let is_free = |job: &NewJob, holder: &Holder| {
        let state = states.get(&holder.job);
        let unique: Unique = job.spec.unique();
        !state.is_some_and(|state| unique.conflicts(state.status, holder.expires_at, holder.now))
    };
    let free: Vec<(&Key, &NewJob)> = takers
        .iter()
        .filter(|(key, job)| holders.get(*key).is_some_and(|holder| holder.job != job.id && is_free(job, holder)))
        .map(|(key, job)| (key, *job))
        .collect();
    if !free.is_empty() {
        bind(*sql::KEYS_PASS_ON, store, &free).execute(connection).await?;
    }
    for (key, job) in free {
        if let Some(holder) = holders.get_mut(key) {
            holder.job = job.id;
        }
    }
    Ok(())
}

/// Takes the unique key of a job that is to run again, unless another job conflicts.
pub(crate) async fn retake(
    connection: &mut PgConnection,
    verb: Verb,
    job: &Job,
    now: Timestamp,
) -> sqlx::Result<Result<(), Refused>> {
    let Some((scope, key)) = change::needed_key(verb, job) else { return Ok(Ok(())) };
    let row = sqlx::query(*sql::KEYS_HOLDER).bind(&scope).bind(key).fetch_optional(&mut *connection).await?;
    let held = row.map(|row| Ok::<_, sqlx::Error>((job_id(row.try_get(0)?), rows::optional_instant(&row, 1)?)));
    let held: Option<(JobId, Option<Timestamp>)> = held.transpose()?;
    let states = locking::states(connection, &held.iter().map(|(holder, _)| *holder).collect()).await?;
    let holder = held.and_then(|(job, expires_at)| {
        let status = states.get(&job)?.status;
        Some(KeyHolder { job, status, expires_at })
    });
    let expires_at = match change::retake_key(verb, job, holder, now) {
        Ok(KeyChange::Take(expires_at)) => expires_at,
        Ok(KeyChange::Leave) => return Ok(Ok(())),
        Err(refused) => return Ok(Err(refused)),
    };
    let taken = sqlx::query(*sql::KEYS_RETAKE)
        .bind(&scope)
        .bind(key)
        .bind(uuid(job.id))
        .bind(expires_at.map(At))
        .bind(held.map(|(holder, _)| uuid(holder)))
        .execute(connection)
        .await?;
    // No row changed: another enqueue has taken the free key since it was read.
    if taken.rows_affected() == 1 { Ok(Ok(())) } else { Err(error::concurrent_change()) }
}

/// Whether jobs must be stored one after the other: one may update the job that it conflicts with, or two have the same
/// key and whether they conflict depends on how the first one is stored.
pub(crate) fn need_order(jobs: &[NewJob]) -> bool {
    // A job with a failed parent may be cancelled when it is stored, and then keeps no key.
    let conditional =
        |job: &NewJob| job.spec.unique_key.is_some() && (job.spec.options.unique.is_some() || !job.parents.is_empty());
    if !jobs.iter().any(conditional) {
        return false;
    }
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<Key> = jobs.iter().filter_map(key_of).filter(|key| !seen.insert(key.clone())).collect();
    let any_twice = |job: &NewJob| key_of(job).is_some_and(|key| twice.contains(&key));
    jobs.iter().any(|job| job.spec.unique().updates() || (conditional(job) && any_twice(job)))
}

/// Updates the conflicting job, which is locked, if the new job requests it; returns whether it did.
pub(crate) async fn update(
    store: &Core,
    connection: &mut PgConnection,
    holder: JobId,
    new: &NewJob,
) -> sqlx::Result<bool> {
    let now = store.sessions.now(connection).await?;
    let jobs = locking::read(connection, &[uuid(holder)], &[At(holder.timestamp())]).await?;
    let Some(locking::LockedJob { job, .. }) = jobs.get(&holder) else { return Ok(false) };
    let Some(update) = new.spec.unique().update(job.status, job.run_at, new.start(now).1) else { return Ok(false) };
    sqlx::query(*sql::UPDATE_JOB)
        .bind(store.sessions.clock())
        .bind(uuid(holder))
        .bind(At(holder.timestamp()))
        .bind(update.payload.then_some(new.spec.payload.as_str()))
        .bind(update.run_at.map(At))
        .bind(At(job.updated_at))
        .bind(update.detail())
        .bind(At(job.run_at))
        .execute(connection)
        .await?;
    Ok(true)
}
