//! Suspects: jobs whose workers were lost are stored in lanes of their own from then on, so that claims can skip them,
//! or take only them.

use std::collections::BTreeSet;

use punctual_core::{Job, JobId, Settlement, StoreError};

use super::{
    super::{
        core::Core,
        statements as sql,
        value::{At, uuid},
    },
    lanes::lane_of_suspect,
};

/// Creates the lanes of suspects for jobs whose workers were lost. Called before they are settled, so that no other
/// transaction waits for the lanes.
pub(crate) async fn make_lanes(store: &Core, lost: impl Iterator<Item = &Settlement>) -> Result<(), StoreError> {
    let ids: Vec<_> = lost.map(|one| uuid(one.attempt.job)).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let make = async {
        let mut unit = store.sessions.single().await?;
        let new = sqlx::query(*sql::SUSPECTS_LANES).bind(ids).fetch_all(&mut *unit).await?;
        if !new.is_empty() {
            store.lanes.refresh(&mut unit).await?;
        }
        unit.done().await
    };
    make.await.map_err(|error| store.sessions.error(error))
}

/// Creates the lanes of suspects for jobs imported from another store.
pub(crate) async fn make_lanes_of(store: &Core, suspects: &[&Job]) -> sqlx::Result<()> {
    let lanes: BTreeSet<_> = suspects.iter().map(|job| lane_of_suspect(&job.spec)).collect();
    if lanes.is_empty() {
        return Ok(());
    }
    let mut unit = store.sessions.single().await?;
    store.lanes.add(&mut unit, lanes.into_iter().collect()).await?;
    unit.done().await
}

/// Moves jobs whose workers were lost to the lanes of suspects.
pub(crate) async fn set_apart(
    connection: &mut sqlx::PgConnection,
    lost: impl Iterator<Item = &Settlement>,
) -> sqlx::Result<()> {
    let mut jobs: Vec<JobId> = lost.map(|one| one.attempt.job).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    // Sorted the same way everywhere, so that two of these statements never deadlock.
    jobs.sort_unstable();
    sqlx::query(*sql::SUSPECTS_MOVE)
        .bind(jobs.iter().map(|job| uuid(*job)).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| At(job.timestamp())).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map(drop)
}
