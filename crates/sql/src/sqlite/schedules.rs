//! Schedules and their cursors.

use punctual_core::{JobId, Schedule, ScheduleEvent, ScheduleId, ScheduleSave, ScheduleSpec, StoreError, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{enqueue::enqueue, error::store_error, rows, statements as sql, tx::Tx};

pub(crate) fn schedules(connection: &Connection, after: &str, limit: usize) -> rusqlite::Result<Vec<Schedule>> {
    connection.prepare_cached(sql::SCHEDULES)?.query_map(params![after, limit], schedule_of)?.collect()
}

pub(crate) fn schedule(connection: &Connection, name: &str) -> rusqlite::Result<Option<Schedule>> {
    connection.prepare_cached(sql::SCHEDULE)?.query_row([name], schedule_of).optional()
}

pub(crate) fn upcoming(
    connection: &Connection,
    (after, name): (Timestamp, String),
    until: Timestamp,
    limit: usize,
) -> rusqlite::Result<Vec<Schedule>> {
    let row = params![after.as_micros(), name, until.as_micros(), limit];
    connection.prepare_cached(sql::UPCOMING)?.query_map(row, schedule_of)?.collect()
}

fn schedule_of(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    Ok(Schedule {
        id: ScheduleId::from_bytes(row.get(0)?),
        spec: ScheduleSpec::from_stored(row.get_ref(11)?.as_str()?, row.get_ref(1)?.as_str()?),
        enabled: row.get(2)?,
        problem: row.get(3)?,
        revision: row.get(4)?,
        last_run_at: rows::optional_instant(row, 5)?,
        next_run_at: rows::optional_instant(row, 6)?,
        last_job: row.get::<_, Option<[u8; 16]>>(7)?.map(JobId::from_bytes),
        created_at: rows::instant(row, 8)?,
        updated_at: rows::instant(row, 9)?,
        updated_by: row.get(10)?,
    })
}

/// Stores schedules that nobody else has changed meanwhile, with their jobs.
pub(crate) fn save(tx: &mut Tx<'_>, saves: &[ScheduleSave]) -> Result<Vec<bool>, StoreError> {
    saves.iter().map(|save| save_one(tx, save)).collect()
}

fn save_one(tx: &mut Tx<'_>, save: &ScheduleSave) -> Result<bool, StoreError> {
    let ScheduleSave { schedule, is_new, jobs, done } = save;
    let definition = schedule.spec.to_stored().map_err(|error| StoreError::Other(error.to_string()))?;
    let statement = if *is_new { sql::INSERT_SCHEDULE } else { sql::UPDATE_SCHEDULE };
    let row = params![
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
    ];
    let saved = tx.prepare(statement).and_then(|mut save| save.execute(row)).map_err(store_error)? == 1;
    if saved {
        enqueue(tx, jobs)?;
        if let Some(what) = done {
            record(tx, &schedule.spec.name, &schedule.updated_by, what).map_err(store_error)?;
        }
    }
    Ok(saved)
}

pub(crate) fn remove(tx: &Tx<'_>, name: &str, actor: &str) -> rusqlite::Result<bool> {
    let removed = tx.prepare(sql::REMOVE_SCHEDULE)?.execute([name])? == 1;
    if removed {
        record(tx, name, actor, "removed")?;
    }
    Ok(removed)
}

fn record(tx: &Tx<'_>, name: &str, actor: &str, what: &str) -> rusqlite::Result<()> {
    tx.prepare(sql::INSERT_SCHEDULE_EVENT)?.execute(params![name, tx.now.as_micros(), actor, what]).map(drop)
}

pub(crate) fn events(connection: &Connection, name: &str, limit: usize) -> rusqlite::Result<Vec<ScheduleEvent>> {
    let event = |row: &Row<'_>| Ok(ScheduleEvent { at: rows::instant(row, 0)?, actor: row.get(1)?, what: row.get(2)? });
    connection.prepare_cached(sql::SCHEDULE_EVENTS)?.query_map(params![name, limit], event)?.collect()
}
