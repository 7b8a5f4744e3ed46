//! Migrates a database to the schema of this build.

use std::time::Duration;

use punctual_core::{AppliedMigration, Schema, StoreError};
use sqlx::{PgConnection, Row};

use super::{session::Sessions, value::At};
use crate::migrate::{self, Migration};

/// All migrations, oldest first.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") }];

const CREATE_SCHEMA: &str = "create table if not exists punctual_schema (
    version    integer     not null primary key,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default now()
)";

/// If several processes start at once, one migrates and the others wait for it.
const LOCK: &str = "select pg_advisory_xact_lock(hashtext('punctual migrations'), hashtext($1))";

/// How long a try waits for the lock of a table, which all other sessions then queue up behind; and the number of
/// tries.
const LOCK_TIMEOUT: &str = "set local lock_timeout = '2s'";
const TRIES_MAX: usize = 30;
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Refuses a database without the schema, for callers that must not create it.
pub(crate) async fn check_exists(sessions: &Sessions, store: &str) -> Result<(), StoreError> {
    let error = |error| sessions.error(error);
    let mut unit = sessions.single().await.map_err(error)?;
    let migrations = applied(&mut unit).await.map_err(error)?;
    unit.done().await.map_err(error)?;
    let absent = || StoreError::Absent { store: store.to_owned(), missing: "Punctual schema" };
    if migrations.is_empty() { Err(absent()) } else { Ok(()) }
}

/// Applies the missing migrations.
pub(crate) async fn migrate(sessions: &Sessions, schema: &str, known: &[Migration]) -> Result<(), StoreError> {
    for _ in 1..TRIES_MAX {
        match try_migrate(sessions, schema, known).await {
            Err(error @ StoreError::Busy { .. }) => {
                tracing::warn!(%error, "a table that is to be migrated is in use; the migration tries again");
                tokio::time::sleep(TRY_AGAIN_AFTER).await;
            }
            migrated => return migrated,
        }
    }
    try_migrate(sessions, schema, known).await
}

async fn try_migrate(sessions: &Sessions, schema: &str, known: &[Migration]) -> Result<(), StoreError> {
    let error = |error| sessions.error(error);
    let mut unit = sessions.single().await.map_err(error)?;
    let applied_before = applied(&mut unit).await.map_err(error)?;
    unit.done().await.map_err(error)?;
    if migrate::missing(known, &applied_before)?.is_empty() {
        return Ok(());
    }
    let mut unit = sessions.several().await.map_err(error)?;
    let migrated = migrate_within(sessions, &mut unit, schema, known).await;
    if migrated.is_err() {
        unit.undone().await;
        return migrated;
    }
    unit.done().await.map_err(error)
}

async fn migrate_within(
    sessions: &Sessions,
    connection: &mut PgConnection,
    schema: &str,
    known: &[Migration],
) -> Result<(), StoreError> {
    let error = |error| sessions.error(error);
    sqlx::query(LOCK).bind(schema).execute(&mut *connection).await.map_err(error)?;
    sqlx::query(LOCK_TIMEOUT).execute(&mut *connection).await.map_err(error)?;
    create_namespace(connection, schema).await.map_err(error)?;
    sqlx::query(CREATE_SCHEMA).execute(&mut *connection).await.map_err(error)?;
    for migration in migrate::missing(known, &applied(connection).await.map_err(error)?)? {
        sqlx::raw_sql(migration.sql).execute(&mut *connection).await.map_err(error)?;
        sqlx::query("insert into punctual_schema (version, name, checksum) values ($1, $2, $3)")
            .bind(migration.version as i32)
            .bind(migration.name)
            .bind(migration.checksum())
            .execute(&mut *connection)
            .await
            .map_err(error)?;
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    Ok(())
}

/// Creates the schema that the address names, if it does not exist. Called under the lock: `if not exists` does not
/// protect against a concurrent creation.
async fn create_namespace(connection: &mut PgConnection, schema: &str) -> sqlx::Result<()> {
    // The name has been checked: letters, digits and underscores.
    let create = sqlx::AssertSqlSafe(format!("create schema if not exists {schema}"));
    let there: Option<String> = sqlx::query_scalar("select current_schema()::text").fetch_one(&mut *connection).await?;
    if there.is_none() { sqlx::raw_sql(create).execute(connection).await.map(drop) } else { Ok(()) }
}

/// Reads the schema version and the applied migrations.
pub(crate) async fn read(connection: &mut PgConnection) -> sqlx::Result<Schema> {
    let migrations = applied(connection).await?;
    Ok(Schema { version: migrations.last().map_or(0, |migration| migration.version), migrations })
}

async fn applied(connection: &mut PgConnection) -> sqlx::Result<Vec<AppliedMigration>> {
    let known: bool =
        sqlx::query_scalar("select to_regclass('punctual_schema') is not null").fetch_one(&mut *connection).await?;
    if !known {
        return Ok(Vec::new());
    }
    let rows = sqlx::query("select version, name, checksum, applied_at from punctual_schema order by version")
        .fetch_all(connection)
        .await?;
    let migration = |row: &sqlx::postgres::PgRow| {
        Ok(AppliedMigration {
            version: row.try_get::<i32, _>(0)? as u32,
            name: row.try_get(1)?,
            checksum: row.try_get(2)?,
            applied_at: row.try_get::<At, _>(3)?.0,
        })
    };
    rows.iter().map(migration).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::postgres::{plans, session::Unit};

    /// All other sessions would queue up behind a migration that waits for a table's lock.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_migration_that_waits_for_a_table_does_not_block_others() {
        let (core, schema) = plans::new_core().await;
        let mut reader = core.sessions.several().await.unwrap();
        let pid = number(&mut reader, "select pg_backend_pid()::int8").await;
        sqlx::raw_sql("lock table punctual_ready in access share mode").execute(&mut *reader).await.unwrap();
        let sessions = core.sessions.clone();
        let migration = tokio::spawn(async move {
            let sql = "alter table punctual_ready add column another int4";
            let second = Migration { version: 2, name: "second", sql };
            migrate(&sessions, &schema, &[MIGRATIONS[0], second]).await
        });
        let mut other = core.sessions.single().await.unwrap();
        let waiting = format!("select count(*) from pg_stat_activity where {pid} = any (pg_blocking_pids(pid))");
        while number(&mut other, &waiting).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(number(&mut other, "select count(*) from punctual_ready").await, 0);
        assert!(!migration.is_finished());
        reader.done().await.unwrap();
        migration.await.unwrap().unwrap();
        assert_eq!(read(&mut other).await.unwrap().version, 2);
    }

    async fn number(unit: &mut Unit, sql: &str) -> i64 {
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql.to_owned())).fetch_one(&mut **unit).await.unwrap()
    }
}
