//! Creates the partitions of a day.
//!
//! Rows of a day without partitions are stored in the default partition (`…_rest`) and moved when the partitions are
//! created. Before it attaches a partition, PostgreSQL scans the default partition for rows that belong to the new one,
//! under an exclusive lock. With a small default partition, the scan and the move take milliseconds and happen in one
//! transaction.
//!
//! With a large default partition, other sessions must not wait for the scan. A check constraint first keeps new rows
//! of the day out of the default partition. Then the rows are moved and the constraint is validated, neither of which
//! blocks reads or writes of other rows. The valid constraint proves that the scan is not needed. An enqueue of a job
//! for that day fails on the constraint meanwhile and [waits](create) for the partition.

use std::time::Duration;

use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    core::Core,
    partitions::{CONSTRAINT_PREFIX, Day, TABLES, Table},
    session::Unit,
};

/// Timeout of the exclusive lock, short because other sessions queue up behind the request, and the number of tries.
const LOCK_TIMEOUT_MS: u64 = 100;
const LOCK_MAX_TRIES: usize = 50;

/// Which cost the caller accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Milliseconds: partitions are not created beside a large default partition.
    Low,
    /// Minutes, if the default partition is large.
    Any,
}

/// Creates the partitions of a day and moves its rows there, atomically per table.
///
/// Each table has a transaction of its own, so that no transaction waits for one table while it locks another. The
/// table of jobs comes last: a day counts as created when that has a partition. If the locks cannot be had, the rows
/// stay in the default partition until the next call.
pub(crate) async fn create(core: &Core, day: Day, effort: Effort) -> sqlx::Result<()> {
    if effort == Effort::Low && any_large_default(core).await? {
        return Ok(());
    }
    for table in TABLES {
        if !create_partition(core, table, day).await? {
            tracing::warn!(partition = table.partition(day), "table busy: the partition will be created later");
            return Ok(());
        }
    }
    core.days.add(day);
    Ok(())
}

/// Whether any table has a large default partition. A positive answer is cached, since every enqueue for a day without
/// partitions checks it.
async fn any_large_default(core: &Core) -> sqlx::Result<bool> {
    if core.days.had_large_default() {
        return Ok(true);
    }
    let mut unit = core.sessions.single().await?;
    let mut large = false;
    for table in TABLES {
        large |= has_large_default(core, &mut unit, table).await?;
    }
    unit.done().await?;
    if large {
        core.days.cache_large_default();
    }
    Ok(large)
}

async fn has_large_default(core: &Core, connection: &mut PgConnection, table: Table) -> sqlx::Result<bool> {
    let size = sqlx::query_scalar("select pg_relation_size(to_regclass($1))").bind(format!("{}_rest", table.name));
    let size: i64 = size.fetch_one(connection).await?;
    Ok(size.unsigned_abs() > core.options.default_scan_max_bytes)
}

/// Creates the partition of one table; returns whether it exists now. Each try is a transaction of its own, so that
/// other processes can create partitions between two tries.
async fn create_partition(core: &Core, table: Table, day: Day) -> sqlx::Result<bool> {
    for _ in 0..LOCK_MAX_TRIES {
        if try_create(core, table, day).await? {
            return Ok(true);
        }
        pause().await;
    }
    Ok(false)
}

async fn try_create(core: &Core, table: Table, day: Day) -> sqlx::Result<bool> {
    let mut unit = begin_exclusive(core).await?;
    let created = create_within(core, &mut unit, table, day).await;
    match unit.ended(created).await? {
        Some(created) => Ok(created),
        None => create_beside_large_default(core, table, day).await,
    }
}

/// Whether the partition exists now; `None` if the default partition is large.
async fn create_within(
    core: &Core,
    connection: &mut PgConnection,
    table: Table,
    day: Day,
) -> sqlx::Result<Option<bool>> {
    if table.has(connection, day).await? {
        return Ok(Some(true));
    }
    if has_large_default(core, connection, table).await? {
        return Ok(None);
    }
    let create = create_and_fill(table, day) + &attach(table, day) + &drop_constraint(table, day);
    with_default_locked(connection, table, &create).await.map(Some)
}

async fn create_beside_large_default(core: &Core, table: Table, day: Day) -> sqlx::Result<bool> {
    if !in_transaction(core, table, &add_constraint(table, day)).await? {
        return Ok(false);
    }
    let created = move_and_attach(core, table, day).await;
    if !matches!(created, Ok(true)) {
        // Rows of the day can be stored in the default partition again. If this fails too, the next call for the day
        // replaces the constraint.
        with_retries(core, table, &drop_constraint(table, day)).await?;
    }
    created
}

/// Prepares the default partition so that an existing partition of a day can be replaced without a scan.
pub(crate) async fn prove_absence(core: &Core, table: Table, day: Day) -> sqlx::Result<()> {
    let mut unit = core.sessions.single().await?;
    let large = has_large_default(core, &mut unit, table).await?;
    unit.done().await?;
    if large && with_retries(core, table, &add_constraint(table, day)).await? {
        let mut unit = begin_exclusive(core).await?;
        let validated = sqlx::raw_sql(AssertSqlSafe(validate_constraint(table, day))).execute(&mut *unit).await;
        unit.ended(validated).await?;
    }
    Ok(())
}

/// Drops constraints of earlier days, left by [`prove_absence`] or by a killed process.
pub(crate) async fn drop_constraints(core: &Core, before: Day) -> sqlx::Result<()> {
    for table in TABLES {
        let mut unit = core.sessions.single().await?;
        let names =
            "select conname::text from pg_constraint where conrelid = to_regclass($1) and starts_with(conname, $2)";
        let names = sqlx::query_scalar(names).bind(format!("{}_rest", table.name)).bind(CONSTRAINT_PREFIX);
        let names: Vec<String> = names.fetch_all(&mut *unit).await?;
        unit.done().await?;
        let days = names.iter().filter_map(|name| Day::of_suffix(name.strip_prefix(CONSTRAINT_PREFIX)?));
        for day in days.filter(|day| *day < before) {
            with_retries(core, table, &drop_constraint(table, day)).await?;
        }
    }
    Ok(())
}

/// Begins a transaction that excludes other processes from creating partitions.
async fn begin_exclusive(core: &Core) -> sqlx::Result<Unit> {
    let mut unit = core.sessions.several().await?;
    let lock = "select pg_advisory_xact_lock(hashtext('punctual days'), hashtext(current_schema()))";
    let locked = sqlx::query(lock).execute(&mut *unit).await;
    match locked {
        Ok(_) => Ok(unit),
        Err(error) => unit.ended(Err(error)).await,
    }
}

/// Moves the rows of a day from a large default partition with a constraint, and attaches the partition.
async fn move_and_attach(core: &Core, table: Table, day: Day) -> sqlx::Result<bool> {
    let mut unit = begin_exclusive(core).await?;
    let moved = move_within(&mut unit, table, day).await;
    if matches!(moved, Ok(false)) {
        // The rows stay where they are.
        unit.undone().await;
        return Ok(false);
    }
    unit.ended(moved).await
}

async fn move_within(connection: &mut PgConnection, table: Table, day: Day) -> sqlx::Result<bool> {
    if table.has(connection, day).await? {
        return Ok(true);
    }
    let prepare =
        format!("set local statement_timeout = 0; {} {}", create_and_fill(table, day), validate_constraint(table, day));
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await?;
    let attach = attach(table, day) + &drop_constraint(table, day);
    // The tries share the transaction: another one would have to move all rows again.
    for _ in 0..LOCK_MAX_TRIES {
        if with_default_locked(connection, table, &attach).await? {
            return Ok(true);
        }
        pause().await;
    }
    Ok(false)
}

async fn with_retries(core: &Core, table: Table, statements: &str) -> sqlx::Result<bool> {
    for _ in 0..LOCK_MAX_TRIES {
        if in_transaction(core, table, statements).await? {
            return Ok(true);
        }
        pause().await;
    }
    Ok(false)
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(fastrand::u64(10..100))).await;
}

async fn in_transaction(core: &Core, table: Table, statements: &str) -> sqlx::Result<bool> {
    let mut unit = begin_exclusive(core).await?;
    let done = with_default_locked(&mut unit, table, statements).await;
    unit.ended(done).await
}

/// Executes PL/pgSQL statements under an exclusive lock of the default partition; returns whether the lock could be
/// had.
async fn with_default_locked(connection: &mut PgConnection, table: Table, statements: &str) -> sqlx::Result<bool> {
    let block = format!(
        "do $$
         begin
             set local lock_timeout = '{LOCK_TIMEOUT_MS}ms';
             lock table {}_rest in access exclusive mode;
             {statements}
             perform set_config('punctual.locked', 'on', true);
         exception when lock_not_available then perform set_config('punctual.locked', 'off', true);
         end $$",
        table.name
    );
    sqlx::raw_sql(AssertSqlSafe(block)).execute(&mut *connection).await?;
    sqlx::query_scalar("select current_setting('punctual.locked', true) = 'on'").fetch_one(connection).await
}

/// Creates the partition, not attached yet, and moves the rows of the day there.
fn create_and_fill(table: Table, day: Day) -> String {
    let Table { name, column, fill } = table;
    let (partition, from, to) = (table.partition(day), day.start(), day.plus(1).start());
    format!(
        "create table {partition} (like {name} including all) with (fillfactor = {fill});
         with moved as (delete from {name}_rest where {column} >= '{from}' and {column} < '{to}' returning *)
         insert into {partition} select * from moved;"
    )
}

fn attach(table: Table, day: Day) -> String {
    let (name, partition) = (table.name, table.partition(day));
    let (from, to) = (day.start(), day.plus(1).start());
    format!("alter table {name} attach partition {partition} for values from ('{from}') to ('{to}');")
}

/// Keeps new rows of a day out of the default partition.
fn add_constraint(table: Table, day: Day) -> String {
    let Table { name, column, .. } = table;
    let (constraint, from, to) = (constraint(day), day.start(), day.plus(1).start());
    format!(
        "{}
         alter table {name}_rest add constraint {constraint} check ({column} < '{from}' or {column} >= '{to}') not valid;",
        drop_constraint(table, day)
    )
}

/// Scans the default partition, without a timeout and without blocking reads or writes.
fn validate_constraint(table: Table, day: Day) -> String {
    let (name, constraint) = (table.name, constraint(day));
    format!("set local statement_timeout = 0; alter table {name}_rest validate constraint {constraint};")
}

/// Drops the constraint if it exists. `drop constraint if exists` would send a notice if it does not.
fn drop_constraint(table: Table, day: Day) -> String {
    let (name, constraint) = (table.name, constraint(day));
    format!(
        "if exists (select from pg_constraint where conrelid = '{name}_rest'::regclass and conname = '{constraint}') then
             alter table {name}_rest drop constraint {constraint};
         end if;"
    )
}

fn constraint(day: Day) -> String {
    format!("{CONSTRAINT_PREFIX}{}", day.suffix())
}
