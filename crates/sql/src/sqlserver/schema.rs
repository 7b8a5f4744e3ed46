//! Bringing a database to the schema that this build knows.

use punctual_core::{AppliedMigration, Schema, StoreError, StoreResult, Timestamp};
use tiberius::error::Error;

use super::{
    error::store_error,
    session::{Client, rows, run},
};
use crate::{
    db::Row,
    migrate::{self, Migration},
};

/// All migrations, oldest first.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") }];

const CREATE_SCHEMA: &str = "if object_id('punctual_schema') is null create table punctual_schema (
    version    int           not null primary key,
    name       nvarchar(256) not null,
    checksum   varchar(64)   not null,
    applied_at bigint        not null
)";

/// Of several processes that start at once, one does it.
const ALONE: &str = "declare @lock int;
exec @lock = sp_getapplock @Resource = 'punctual schema', @LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 60000;
select @lock";
const NOT_ALONE: &str = "exec sp_releaseapplock @Resource = 'punctual schema', @LockOwner = 'Session'";
const APPLIED: &str = "select version, name, checksum, applied_at from punctual_schema order by version";
const NOW: &str = "select datediff_big(microsecond, cast('1970-01-01' as datetime2), sysutcdatetime())";

/// All that is sent besides the migrations.
#[cfg(test)]
pub(crate) const TEXTS: [&str; 5] = [CREATE_SCHEMA, ALONE, NOT_ALONE, NOW, APPLIED];

/// Applies what is missing, under a lock.
pub(crate) async fn migrate(client: &mut Client, store: &str) -> StoreResult<()> {
    let error = |error: Error| store_error(store, &error);
    let lock = rows(client, ALONE).await.map_err(error)?;
    if lock.first().map_or(Ok(-1), |row| (row as &dyn Row).get::<i64>(0))? < 0 {
        return Err(StoreError::Busy { waited_ms: 60_000 });
    }
    run(client, CREATE_SCHEMA).await.map_err(error)?;
    for migration in migrate::missing(MIGRATIONS, &applied(client, store).await?)? {
        apply(client, migration).await.map_err(error)?;
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    run(client, NOT_ALONE).await.map_err(error)
}

/// One migration, all of it or nothing. A line `go` ends a batch.
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
    let text =
        format!("insert into punctual_schema (version, name, checksum, applied_at) values (@P1, @P2, @P3, ({NOW}))");
    let checksum = migration.checksum();
    client.execute(text, &[&i64::from(migration.version), &migration.name, &checksum.as_str()]).await?;
    client.commit_transaction().await
}

/// The schema as the database has it.
pub(crate) async fn read(client: &mut Client, store: &str) -> StoreResult<Schema> {
    let migrations = applied(client, store).await?;
    Ok(Schema { version: migrations.last().map_or(0, |migration| migration.version), migrations })
}

async fn applied(client: &mut Client, store: &str) -> StoreResult<Vec<AppliedMigration>> {
    let read = async { client.simple_query(APPLIED).await?.into_first_result().await };
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
