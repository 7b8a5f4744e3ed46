//! Schedules and their cursors.

use punctual_core::{
    JobId, NewJob, Schedule, ScheduleEvent, ScheduleId, ScheduleSave, ScheduleSpec, StoreError, StoreResult, Timestamp,
};

use super::{edit::Edit, enqueue::enqueue, rows, statements as sql, tx::Tx};
use crate::db::{Db, Row, Value, params};

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
    let stored = store(tx.edit(), saves)?;
    enqueue(tx, &jobs_of(saves, &stored))?;
    Ok(stored)
}

/// Stores the schedules that were not changed meanwhile, and adds to their histories; returns which were stored.
pub(crate) fn store(edit: Edit<'_>, saves: &[ScheduleSave]) -> StoreResult<Vec<bool>> {
    let mut stored = vec![false; saves.len()];
    for (is_new, statement) in [(true, sql::INSERT_SCHEDULE), (false, sql::UPDATE_SCHEDULE)] {
        let given: Vec<usize> = (0..saves.len()).filter(|index| saves[*index].is_new == is_new).collect();
        if given.is_empty() {
            continue;
        }
        let changed = edit.db.changed_each(statement, &mut |row| {
            given.iter().try_for_each(|index| add_row(&saves[*index].schedule, row))
        })?;
        given.iter().zip(changed).for_each(|(index, changed)| stored[*index] = changed);
    }
    record_saves(edit, saves, &stored)?;
    Ok(stored)
}

/// Passes the columns of a schedule to `row`, as parameters.
pub(crate) fn add_row(schedule: &Schedule, row: &mut dyn FnMut(&[Value<'_>]) -> StoreResult<()>) -> StoreResult<()> {
    let definition = schedule.spec.to_stored().map_err(|error| StoreError::Other(error.to_string()))?;
    row(params![
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
    ])
}

/// The jobs of the schedules that were stored.
pub(crate) fn jobs_of(saves: &[ScheduleSave], stored: &[bool]) -> Vec<NewJob> {
    let stored = saves.iter().zip(stored).filter(|(_, stored)| **stored);
    stored.flat_map(|(save, _)| save.jobs.iter().cloned()).collect()
}

fn record_saves(edit: Edit<'_>, saves: &[ScheduleSave], stored: &[bool]) -> StoreResult<()> {
    let stored = saves.iter().zip(stored).filter(|(_, stored)| **stored);
    let done: Vec<(&Schedule, &String)> =
        stored.filter_map(|(save, _)| Some((&save.schedule, save.done.as_ref()?))).collect();
    if done.is_empty() {
        return Ok(());
    }
    let now = edit.now.as_micros();
    let recorded = edit.db.changed_each(sql::INSERT_SCHEDULE_EVENT, &mut |row| {
        done.iter()
            .try_for_each(|(schedule, action)| row(params![schedule.spec.name, now, schedule.updated_by, action]))
    });
    recorded.map(drop)
}

pub(crate) fn remove(edit: Edit<'_>, name: &str, actor: &str) -> StoreResult<bool> {
    let removed = edit.db.execute(sql::REMOVE_SCHEDULE, params![name])? == 1;
    if removed {
        edit.db.write(sql::INSERT_SCHEDULE_EVENT, params![name, edit.now.as_micros(), actor, "removed"])?;
    }
    Ok(removed)
}

pub(crate) fn events(db: &dyn Db, name: &str, limit: usize) -> StoreResult<Vec<ScheduleEvent>> {
    let event =
        |row: &dyn Row| Ok(ScheduleEvent { at: rows::instant(row, 0)?, actor: row.get(1)?, action: row.get(2)? });
    db.all(sql::SCHEDULE_EVENTS, params![name, limit], event)
}
