//! Replaces the partition of a day with a copy of the rows that are kept.
//!
//! A partition is detached in the plain way: PostgreSQL can detach concurrently only if there is no default partition.
//! The exclusive lock is requested with a short timeout, and held briefly.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    core::Core,
    partitions::{Day, Table},
};

/// The timeout of the exclusive lock for a replacement, and the number of tries.
const LOCK_MAX_WAIT_MS: u64 = 100;
const LOCK_TRIES_MAX: usize = 20;

/// Copies the rows of a day that are kept; returns their number.
pub(crate) async fn copy(connection: &mut PgConnection, table: Table, day: Day, kept: &str) -> sqlx::Result<u64> {
    let (name, partition, fill) = (table.name, table.partition(day), table.fill);
    let create = format!("create table {partition}_left (like {name} including all) with (fillfactor = {fill})");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
    let insert = format!("insert into {partition}_left {kept}");
    let left = sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut *connection).await?.rows_affected();
    // The constraint spares the attach, which holds an exclusive lock, a scan of the table.
    let (column, from, to) = (table.column, day.start(), day.plus(1).start());
    let check = format!(
        "alter table {partition}_left add constraint of_day check ({column} >= '{from}' and {column} < '{to}')"
    );
    sqlx::raw_sql(AssertSqlSafe(check)).execute(connection).await?;
    Ok(left)
}

/// Locks a day's partitions, their parents and default partitions exclusively until the transaction ends. Returns false
/// if they are busy; the day is then replaced by a later call.
pub(crate) async fn lock_partitions(connection: &mut PgConnection, tables: &[Table], day: Day) -> sqlx::Result<bool> {
    let all: Vec<String> = tables
        .iter()
        .map(|table| format!("only {}, only {}, only {0}_rest", table.name, table.partition(day)))
        .collect();
    let lock = format!(
        "do $$
         begin
             set local lock_timeout = '{LOCK_MAX_WAIT_MS}ms';
             lock table {} in access exclusive mode;
             perform set_config('punctual.holds', 'on', true);
         exception when lock_not_available then null;
         end $$",
        all.join(", ")
    );
    for _ in 0..LOCK_TRIES_MAX {
        sqlx::raw_sql(AssertSqlSafe(lock.clone())).execute(&mut *connection).await?;
        let holds: Option<String> =
            sqlx::query_scalar("select current_setting('punctual.holds', true)").fetch_one(&mut *connection).await?;
        if holds.as_deref() == Some("on") {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(10..100))).await;
    }
    tracing::warn!(day = %day.start(), "busy all the time: what has gone of the day will be removed later");
    Ok(false)
}

/// Detaches the partition of a day, and renames it, so that [`drop_detached`] finds it.
pub(crate) async fn detach(connection: &mut PgConnection, table: Table, day: Day) -> sqlx::Result<()> {
    let (name, partition) = (table.name, table.partition(day));
    let detach =
        format!("alter table {name} detach partition {partition}; alter table {partition} rename to {partition}_gone");
    sqlx::raw_sql(AssertSqlSafe(detach)).execute(connection).await.map(drop)
}

/// Attaches the remaining rows of a day in place of its partition.
pub(crate) async fn exchange(
    connection: &mut PgConnection,
    table: Table,
    day: Day,
    any_left: bool,
) -> sqlx::Result<()> {
    detach(connection, table, day).await?;
    let (name, partition) = (table.name, table.partition(day));
    let attach = if any_left {
        let (from, to) = (day.start(), day.plus(1).start());
        format!(
            "alter table {partition}_left rename to {partition};
             alter table {name} attach partition {partition} for values from ('{from}') to ('{to}');
             alter table {partition} drop constraint of_day"
        )
    } else {
        format!("drop table {partition}_left")
    };
    sqlx::raw_sql(AssertSqlSafe(attach)).execute(connection).await.map(drop)
}

/// Drops detached partitions, including those that another process has detached but not dropped.
pub(crate) async fn drop_detached(store: &Core) -> sqlx::Result<()> {
    let mut unit = store.sessions.single().await?;
    let names: Vec<String> = sqlx::query_scalar(
        "select relname::text from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'
             and not relispartition and relname ~ '^punctual_[a-z]+_[0-9]{8}_gone$'",
    )
    .fetch_all(&mut *unit)
    .await?;
    for name in names {
        sqlx::raw_sql(AssertSqlSafe(format!("drop table if exists {name}"))).execute(&mut *unit).await?;
    }
    unit.done().await
}
