//! Workers that died; the other operations on workers, and those on locks, are `ops::registry`.

use punctual_core::WorkerId;

use super::{core::Core, queue_limits::slots, statements as sql, value::Uuid};

pub(crate) async fn end_leases(store: &Core, worker: WorkerId) -> sqlx::Result<usize> {
    let mut unit = store.sessions.several().await?;
    let done = sqlx::query(*sql::END_LEASES)
        .bind(store.sessions.clock())
        .bind(Uuid::from_u128(worker.to_bits()))
        .execute(&mut *unit)
        .await?;
    let freed = slots::release_all_of(&mut unit, store.sessions.clock(), worker).await?;
    unit.done().await?;
    slots::announce(store, freed);
    Ok(done.rows_affected() as usize)
}
