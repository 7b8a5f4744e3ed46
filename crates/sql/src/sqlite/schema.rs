//! Bringing a file to the schema that this build knows.

use punctual_core::{AppliedMigration, Schema, StoreError, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};

use super::error::store_error;
use crate::migrate::{self, Migration};

/// All migrations, oldest first.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") },
    Migration { version: 2, name: "event chain", sql: include_str!("migrations/0002_event_chain.sql") },
];

const CREATE_SCHEMA: &str = "create table if not exists punctual_schema (
    version    integer primary key,
    name       text    not null,
    checksum   text    not null,
    applied_at integer not null
) strict";

/// Applies what is missing, under the file's write lock, so that of several processes that start at once one does it.
pub(crate) fn migrate(connection: &mut Connection, now: Timestamp) -> Result<(), StoreError> {
    if migrate::missing(MIGRATIONS, &applied(connection)?)?.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    transaction.execute_batch(CREATE_SCHEMA).map_err(store_error)?;
    for migration in migrate::missing(MIGRATIONS, &applied(&transaction)?)? {
        transaction.execute_batch(migration.sql).map_err(store_error)?;
        let row = params![migration.version, migration.name, migration.checksum(), now.as_micros()];
        transaction.execute("insert into punctual_schema values (?1, ?2, ?3, ?4)", row).map_err(store_error)?;
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    transaction.commit().map_err(store_error)
}

/// The schema as the file has it.
pub(crate) fn read(connection: &Connection) -> Result<Schema, StoreError> {
    let migrations = applied(connection)?;
    Ok(Schema { version: migrations.last().map_or(0, |migration| migration.version), migrations })
}

fn applied(connection: &Connection) -> Result<Vec<AppliedMigration>, StoreError> {
    let known = connection.table_exists(Some("main"), "punctual_schema").map_err(store_error)?;
    if !known {
        return Ok(Vec::new());
    }
    let read = || -> rusqlite::Result<Vec<AppliedMigration>> {
        let mut statement =
            connection.prepare("select version, name, checksum, applied_at from punctual_schema order by version")?;
        let rows = statement.query_map([], |row| {
            Ok(AppliedMigration {
                version: row.get(0)?,
                name: row.get(1)?,
                checksum: row.get(2)?,
                applied_at: Timestamp::from_micros(row.get(3)?),
            })
        })?;
        rows.collect()
    };
    read().map_err(store_error)
}
