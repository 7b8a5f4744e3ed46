//! Jobs whose workers were lost stand in lanes of their own from then on, so that claims can pass them over, or take
//! only them.

use std::collections::BTreeSet;

use punctual_core::{Job, JobId, Settlement, StoreError};

use super::{
    core::Core,
    lanes::lane_of_suspect,
    statements as sql,
    value::{At, uuid},
};

/// Makes the lanes of suspects for jobs whose workers were lost. Before they are settled, so that no other transaction
/// waits for the lanes.
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

/// Makes the lanes of jobs that come from another store as suspects.
pub(crate) async fn make_lanes_of(store: &Core, suspects: &[&Job]) -> sqlx::Result<()> {
    let lanes: BTreeSet<_> = suspects.iter().map(|job| lane_of_suspect(&job.spec)).collect();
    if lanes.is_empty() {
        return Ok(());
    }
    let mut unit = store.sessions.single().await?;
    store.lanes.add(&mut unit, lanes.into_iter().collect()).await?;
    unit.done().await
}

/// Moves jobs there whose executions have ended so.
pub(crate) async fn set_apart(
    connection: &mut sqlx::PgConnection,
    lost: impl Iterator<Item = &Settlement>,
) -> sqlx::Result<()> {
    let mut jobs: Vec<JobId> = lost.map(|one| one.attempt.job).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    // In one order everywhere, so that two of these never wait for each other.
    jobs.sort_unstable();
    sqlx::query(*sql::SUSPECTS_MOVE)
        .bind(jobs.iter().map(|job| uuid(*job)).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| At(job.timestamp())).collect::<Vec<_>>())
        .execute(connection)
        .await
        .map(drop)
}
