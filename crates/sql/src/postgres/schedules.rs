//! Schedules that are saved with their jobs; the other operations are `ops::schedules`.

use punctual_core::{NewJob, ScheduleSave, StoreError};

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
    // Of the histories; it is also the clock of the time at which a schedule was updated.
    let now = store.clock_now();
    let stored = serve(&mut unit, |db| schedules::store(Edit { db, now }, saves)).await?;
    let jobs = schedules::jobs_of(saves, &stored);
    if !jobs.is_empty() {
        let enqueue = Enqueue { store, ids: Ids::Unknown, dispatched_by: store.dispatched_by() };
        enqueue.run(&mut unit, &jobs).await?;
    }
    unit.done().await?;
    Ok((stored, jobs))
}
