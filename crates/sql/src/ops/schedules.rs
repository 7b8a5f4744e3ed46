//! Schedules and their cursors.

use punctual_core::{
    JobId, Schedule, ScheduleEvent, ScheduleId, ScheduleSave, ScheduleSpec, StoreError, StoreResult, Timestamp,
};

use super::{enqueue::enqueue, rows, statements as sql, tx::Tx};
use crate::db::{Db, Row, params};

pub(crate) fn schedules(db: &dyn Db, after: &str, limit: usize) -> StoreResult<Vec<Schedule>> {
    db.all(sql::SCHEDULES, params![after, limit], schedule_of)
}

pub(crate) fn schedule(db: &dyn Db, name: &str) -> StoreResult<Option<Schedule>> {
    db.one(sql::SCHEDULE, params![name], schedule_of)
}

pub(crate) fn upcoming(
    db: &dyn Db,
    (after, name): &(Timestamp, String),
    until: Timestamp,
    limit: usize,
) -> StoreResult<Vec<Schedule>> {
    db.all(sql::UPCOMING, params![after.as_micros(), name, until.as_micros(), limit], schedule_of)
}

fn schedule_of(row: &dyn Row) -> StoreResult<Schedule> {
    Ok(Schedule {
        id: ScheduleId::from_bytes(row.get(0)?),
        spec: ScheduleSpec::from_stored(row.get(11)?, row.get(1)?),
        enabled: row.get(2)?,
        problem: row.get(3)?,
        revision: row.get(4)?,
        last_run_at: rows::optional_instant(row, 5)?,
        next_run_at: rows::optional_instant(row, 6)?,
        last_job: row.get::<Option<[u8; 16]>>(7)?.map(JobId::from_bytes),
        created_at: rows::instant(row, 8)?,
        updated_at: rows::instant(row, 9)?,
        updated_by: row.get(10)?,
    })
}

/// Stores schedules that were not changed meanwhile, with their jobs.
pub(crate) fn save(tx: &mut Tx<'_>, saves: &[ScheduleSave]) -> StoreResult<Vec<bool>> {
    saves.iter().map(|save| save_one(tx, save)).collect()
}

fn save_one(tx: &mut Tx<'_>, save: &ScheduleSave) -> StoreResult<bool> {
    let ScheduleSave { schedule, is_new, jobs, done } = save;
    let definition = schedule.spec.to_stored().map_err(|error| StoreError::Other(error.to_string()))?;
    let statement = if *is_new { sql::INSERT_SCHEDULE } else { sql::UPDATE_SCHEDULE };
    let saved = tx.execute(
        statement,
        params![
            schedule.spec.name,
            schedule.id.to_bytes(),
            definition,
            schedule.enabled,
            schedule.problem,
            schedule.revision,
            schedule.last_run_at.map(|at| at.as_micros()),
            schedule.next_run_at.map(|at| at.as_micros()),
            schedule.last_job.map(|job| job.to_bytes()),
            schedule.created_at.as_micros(),
            schedule.updated_at.as_micros(),
            schedule.updated_by,
        ],
    )? == 1;
    if saved {
        enqueue(tx, jobs)?;
        if let Some(action) = done {
            record(tx, &schedule.spec.name, &schedule.updated_by, action)?;
        }
    }
    Ok(saved)
}

pub(crate) fn remove(tx: &Tx<'_>, name: &str, actor: &str) -> StoreResult<bool> {
    let removed = tx.execute(sql::REMOVE_SCHEDULE, params![name])? == 1;
    if removed {
        record(tx, name, actor, "removed")?;
    }
    Ok(removed)
}

fn record(tx: &Tx<'_>, name: &str, actor: &str, action: &str) -> StoreResult<()> {
    tx.write(sql::INSERT_SCHEDULE_EVENT, params![name, tx.now.as_micros(), actor, action])
}

pub(crate) fn events(db: &dyn Db, name: &str, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
    let event =
        |row: &dyn Row| Ok(ScheduleEvent { at: rows::instant(row, 0)?, actor: row.get(1)?, action: row.get(2)? });
    db.all(sql::SCHEDULE_EVENTS, params![name, limit], event)
}
