//! Migrates a database to the schema of this build.

use punctual_core::{AppliedMigration, Schema, StoreError, StoreResult, Timestamp};
use tiberius::error::Error;

use super::{
    connection::{Client, rows, run},
    error::store_error,
    statements::own,
};
use crate::{
    db::Row,
    migrate::{self, Migration},
};

/// All migrations, oldest first.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") }];

/// The error of a statement that names a table that does not exist.
const UNKNOWN_TABLE: u32 = 208;

/// Refuses a database without the schema, for callers that must not create it.
pub(crate) async fn check_exists(client: &mut Client, store: &str) -> StoreResult<()> {
    let read = async { client.simple_query(own::MIGRATIONS).await?.into_first_result().await };
    let absent = StoreError::Absent { store: store.to_owned(), missing: "Punctual schema" };
    match read.await {
        Ok(rows) if rows.is_empty() => Err(absent),
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(UNKNOWN_TABLE) => Err(absent),
        Err(error) => Err(store_error(store, &error)),
    }
}

/// Applies missing migrations under a lock.
pub(crate) async fn migrate(client: &mut Client, store: &str) -> StoreResult<()> {
    let error = |error: Error| store_error(store, &error);
    let lock = rows(client, own::LOCK_SCHEMA).await.map_err(error)?;
    if lock.first().map_or(Ok(-1), |row| (row as &dyn Row).get::<i64>(0))? < 0 {
        return Err(StoreError::Busy { waited_ms: 60_000 });
    }
    run(client, own::CREATE_SCHEMA).await.map_err(error)?;
    for migration in migrate::missing(MIGRATIONS, &applied(client, store).await?)? {
        apply(client, migration).await.map_err(error)?;
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    run(client, own::UNLOCK_SCHEMA).await.map_err(error)
}

/// Applies one migration, all of it or nothing. A line `go` ends a batch.
async fn apply(client: &mut Client, migration: &Migration) -> Result<(), Error> {
    client.begin_transaction().await?;
    let mut batch = String::new();
    for line in migration.sql.lines().chain(["go"]) {
        if line.trim() == "go" {
            run(client, &batch).await?;
            batch.clear();
        } else {
            batch.push_str(line);
            batch.push('\n');
        }
    }
    let (version, checksum) = (i64::from(migration.version), migration.checksum());
    client.execute(own::INSERT_MIGRATION, &[&version, &migration.name, &checksum.as_str()]).await?;
    client.commit_transaction().await
}

/// The schema version of the database.
pub(crate) async fn read(client: &mut Client, store: &str) -> StoreResult<Schema> {
    let migrations = applied(client, store).await?;
    Ok(Schema { version: migrations.last().map_or(0, |migration| migration.version), migrations })
}

async fn applied(client: &mut Client, store: &str) -> StoreResult<Vec<AppliedMigration>> {
    let read = async { client.simple_query(own::MIGRATIONS).await?.into_first_result().await };
    let rows = read.await.map_err(|error| store_error(store, &error))?;
    let of = |row: &tiberius::Row| -> Result<AppliedMigration, StoreError> {
        let row: &dyn Row = row;
        Ok(AppliedMigration {
            version: row.get(0)?,
            name: row.get(1)?,
            checksum: row.get(2)?,
            applied_at: Timestamp::from_micros(row.get(3)?),
        })
    };
    rows.iter().map(of).collect()
}
