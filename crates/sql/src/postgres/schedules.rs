//! Schedules and their cursors.

use std::collections::HashSet;

use punctual_core::{NewJob, Schedule, ScheduleEvent, ScheduleId, ScheduleSave, ScheduleSpec, StoreError, Timestamp};
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{
    core::Core,
    enqueue::{self, Enqueue, Ids},
    rows, statements as sql,
    value::{At, Uuid, job_id, uuid},
};

pub(crate) async fn schedules(store: &Core, after: &str, limit: usize) -> sqlx::Result<Vec<Schedule>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::SCHEDULES).bind(after).bind(limit as i64).fetch_all(&mut *unit).await?;
    unit.done().await?;
    rows.iter().map(schedule_of).collect()
}

pub(crate) async fn schedule(store: &Core, name: &str) -> sqlx::Result<Option<Schedule>> {
    let mut unit = store.sessions.single().await?;
    let row = sqlx::query(*sql::SCHEDULE).bind(name).fetch_optional(&mut *unit).await?;
    unit.done().await?;
    row.as_ref().map(schedule_of).transpose()
}

pub(crate) async fn upcoming(
    store: &Core,
    (after, name): (Timestamp, String),
    until: Timestamp,
    limit: usize,
) -> sqlx::Result<Vec<Schedule>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::UPCOMING)
        .bind(At(after))
        .bind(name)
        .bind(At(until))
        .bind(limit as i64)
        .fetch_all(&mut *unit)
        .await?;
    unit.done().await?;
    rows.iter().map(schedule_of).collect()
}

fn schedule_of(row: &PgRow) -> sqlx::Result<Schedule> {
    Ok(Schedule {
        id: ScheduleId::from_bits(row.try_get::<Uuid, _>(0)?.as_u128()),
        spec: ScheduleSpec::from_stored(row.try_get(11)?, row.try_get(1)?),
        enabled: row.try_get(2)?,
        problem: row.try_get(3)?,
        revision: row.try_get::<i64, _>(4)? as u64,
        last_run_at: row.try_get::<Option<At>, _>(5)?.map(|at| at.0),
        next_run_at: row.try_get::<Option<At>, _>(6)?.map(|at| at.0),
        last_job: row.try_get::<Option<Uuid>, _>(7)?.map(job_id),
        created_at: rows::instant(row, 8)?,
        updated_at: rows::instant(row, 9)?,
        updated_by: row.try_get(10)?,
    })
}

/// Stores the schedules that no other process has changed meanwhile, with their jobs.
pub(crate) async fn save(store: &Core, saves: &[ScheduleSave]) -> Result<Vec<bool>, StoreError> {
    let all: Vec<NewJob> = saves.iter().flat_map(|save| save.jobs.iter().cloned()).collect();
    enqueue::prepare(store, &all).await?;
    let (saved, jobs) = save_prepared(store, saves).await.map_err(|error| store.sessions.error(error))?;
    if !jobs.is_empty() {
        enqueue::announce(store, &jobs, store.dispatched_by());
    }
    Ok(saves.iter().map(|save| saved.contains(&save.schedule.spec.name)).collect())
}

/// Stores schedules whose jobs' lanes and partitions exist; returns the stored schedules' names, and the jobs.
async fn save_prepared(store: &Core, saves: &[ScheduleSave]) -> sqlx::Result<(HashSet<String>, Vec<NewJob>)> {
    macro_rules! column {
        ($schedule:ident, $value:expr) => {
            saves.iter().map(|save| &save.schedule).map(|$schedule| $value).collect::<Vec<_>>()
        };
    }
    let definition = |save: &ScheduleSave| save.schedule.spec.to_stored();
    let definitions = saves.iter().map(definition).collect::<Result<Vec<_>, _>>();
    let definitions = definitions.map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    let mut unit = store.sessions.several().await?;
    let saved: HashSet<String> = sqlx::query_scalar(*sql::SAVE_SCHEDULES)
        .bind(column!(schedule, schedule.spec.name.as_str()))
        .bind(column!(schedule, Uuid::from_u128(schedule.id.to_bits())))
        .bind(definitions)
        .bind(column!(schedule, schedule.enabled))
        .bind(column!(schedule, schedule.problem.as_deref()))
        .bind(column!(schedule, schedule.revision as i64))
        .bind(column!(schedule, schedule.last_run_at.map(At)))
        .bind(column!(schedule, schedule.next_run_at.map(At)))
        .bind(column!(schedule, schedule.last_job.map(uuid)))
        .bind(column!(schedule, At(schedule.created_at)))
        .bind(column!(schedule, At(schedule.updated_at)))
        .bind(column!(schedule, schedule.updated_by.as_str()))
        .bind(saves.iter().map(|save| save.is_new).collect::<Vec<_>>())
        .fetch_all(&mut *unit)
        .await?
        .into_iter()
        .collect();
    let stored = || saves.iter().filter(|save| saved.contains(&save.schedule.spec.name));
    let jobs: Vec<NewJob> = stored().flat_map(|save| save.jobs.iter().cloned()).collect();
    if !jobs.is_empty() {
        let enqueue = Enqueue { store, ids: Ids::Unknown, dispatched_by: store.dispatched_by() };
        enqueue.run(&mut unit, &jobs).await?;
    }
    let done = stored().filter_map(|save| Some((&save.schedule, save.done.as_deref()?)));
    let done: Vec<_> =
        done.map(|(schedule, what)| (schedule.spec.name.as_str(), schedule.updated_by.as_str(), what)).collect();
    record(store, &mut unit, &done).await?;
    unit.done().await?;
    Ok((saved, jobs))
}

pub(crate) async fn remove(store: &Core, name: &str, actor: &str) -> sqlx::Result<bool> {
    let mut unit = store.sessions.several().await?;
    let removed = sqlx::query(*sql::REMOVE_SCHEDULE).bind(name).execute(&mut *unit).await?.rows_affected() == 1;
    if removed {
        record(store, &mut unit, &[(name, actor, "removed")]).await?;
    }
    unit.done().await?;
    Ok(removed)
}

/// Records actions on schedules: name, actor, action.
async fn record(store: &Core, connection: &mut PgConnection, done: &[(&str, &str, &str)]) -> sqlx::Result<()> {
    if done.is_empty() {
        return Ok(());
    }
    sqlx::query(*sql::INSERT_SCHEDULE_EVENTS)
        .bind(store.sessions.clock())
        .bind(done.iter().map(|(name, ..)| *name).collect::<Vec<_>>())
        .bind(done.iter().map(|(_, actor, _)| *actor).collect::<Vec<_>>())
        .bind(done.iter().map(|(.., what)| *what).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map(drop)
}

pub(crate) async fn events(store: &Core, name: &str, limit: usize) -> sqlx::Result<Vec<ScheduleEvent>> {
    let mut unit = store.sessions.single().await?;
    let rows = sqlx::query(*sql::SCHEDULE_EVENTS).bind(name).bind(limit as i64).fetch_all(&mut *unit).await?;
    unit.done().await?;
    let event =
        |row: &PgRow| Ok(ScheduleEvent { at: rows::instant(row, 0)?, actor: row.try_get(1)?, action: row.try_get(2)? });
    rows.iter().map(event).collect()
}
