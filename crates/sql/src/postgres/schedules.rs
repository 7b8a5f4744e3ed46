//! Schedules that are saved with their jobs; the other operations are `ops::schedules`.

use punctual_core::{NewJob, ScheduleSave, StoreError};
use sqlx::PgConnection;

use super::{
    core::Core,
    db::serve,
    enqueue::{self, Enqueue, Ids},
};
use crate::ops::{edit::Edit, schedules};

/// Stores the schedules that no other process has changed meanwhile, with their jobs.
pub(crate) async fn save(store: &Core, saves: &[ScheduleSave]) -> Result<Vec<bool>, StoreError> {
    let all: Vec<NewJob> = saves.iter().flat_map(|save| save.jobs.iter().cloned()).collect();
    enqueue::prepare(store, &all).await?;
    let (stored, jobs) = save_prepared(store, saves).await.map_err(|error| store.sessions.error(error))?;
    if !jobs.is_empty() {
        enqueue::announce(store, &jobs, store.dispatched_by());
    }
    Ok(stored)
}

/// Stores schedules whose jobs' lanes and partitions exist; returns which were stored, and their jobs.
async fn save_prepared(store: &Core, saves: &[ScheduleSave]) -> sqlx::Result<(Vec<bool>, Vec<NewJob>)> {
    let mut unit = store.sessions.several().await?;
    let saved = save_within(store, &mut unit, saves).await;
    unit.ended(saved).await
}

async fn save_within(
    store: &Core,
    connection: &mut PgConnection,
    saves: &[ScheduleSave],
) -> sqlx::Result<(Vec<bool>, Vec<NewJob>)> {
    // Of the histories. The time at which a schedule was updated is of the same clock.
    let now = store.clock_now();
    let stored = serve(connection, |db| schedules::store(Edit { db, now }, saves)).await?;
    let jobs = schedules::jobs_of(saves, &stored);
    if !jobs.is_empty() {
        let enqueue = Enqueue { store, ids: Ids::Unknown, dispatched_by: store.dispatched_by() };
        enqueue.run(connection, &jobs).await?;
    }
    Ok((stored, jobs))
}
