//! Counters that many operations change at once are stored as inserted rows, which are periodically merged into one row
//! per counter.

use sqlx::PgConnection;

use super::{core::Core, statements as sql};

/// Takes the advisory lock for rolling up counters; returns whether it was free.
pub(crate) async fn try_lock(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let alone = "select pg_try_advisory_xact_lock(hashtext('punctual fold'), hashtext(current_schema()))";
    sqlx::query_scalar(alone).fetch_one(connection).await
}

/// Rolls up the counters' changes, unless another process is doing so.
pub(crate) async fn roll_up(store: &Core) -> sqlx::Result<()> {
    let mut unit = store.sessions.several().await?;
    let rolled_up = roll_up_within(&mut unit).await;
    unit.ended(rolled_up).await
}

async fn roll_up_within(connection: &mut PgConnection) -> sqlx::Result<()> {
    if try_lock(connection).await? {
        for statement in [*sql::ROLL_UP_COUNTS, *sql::ROLL_UP_PENDING, *sql::ROLL_UP_ROLLUPS, *sql::ROLL_UP_ENDS] {
            sqlx::query(statement).execute(&mut *connection).await?;
        }
    }
    Ok(())
}
