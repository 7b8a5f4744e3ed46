//! Workers that died; the other operations are `ops::workers`.

use punctual_core::WorkerId;
use sqlx::PgConnection;

use super::{
    core::Core,
    queue_limits::slots,
    statements as sql,
    value::{At, Uuid},
};

pub(crate) async fn end_leases(store: &Core, worker: WorkerId) -> sqlx::Result<usize> {
    let mut unit = store.sessions.several().await?;
    let ended = end_leases_within(&mut unit, store.sessions.clock(), worker).await;
    let (ended, freed) = unit.ended(ended).await?;
    slots::announce(store, freed);
    Ok(ended as usize)
}

/// Returns how many leases were ended, and whether slots were released.
async fn end_leases_within(
    connection: &mut PgConnection,
    now: Option<At>,
    worker: WorkerId,
) -> sqlx::Result<(u64, bool)> {
    let query = sqlx::query(*sql::END_LEASES).bind(now).bind(Uuid::from_u128(worker.to_bits()));
    let ended = query.execute(&mut *connection).await?.rows_affected();
    Ok((ended, slots::release_all_of(connection, now, worker).await?))
}
