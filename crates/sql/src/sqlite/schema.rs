//! Migrates a file to the schema of this build.

use punctual_core::{AppliedMigration, Schema, StoreError, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};

use super::error::store_error;
use crate::migrate::{self, Migration};

/// All migrations, oldest first.
pub const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("migrations/0001_initial.sql") }];

const CREATE_SCHEMA: &str = "create table if not exists punctual_schema (
    version    integer primary key,
    name       text    not null,
    checksum   text    not null,
    applied_at integer not null
) strict";

/// Applies missing migrations under the file's write lock, so that only one of several starting processes does it.
pub(crate) fn migrate(connection: &mut Connection, now: Timestamp) -> Result<(), StoreError> {
    migrate_to(MIGRATIONS, connection, now)
}

fn migrate_to(known: &[Migration], connection: &mut Connection, now: Timestamp) -> Result<(), StoreError> {
    if migrate::missing(known, &applied(connection)?)?.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(store_error)?;
    transaction.execute_batch(CREATE_SCHEMA).map_err(store_error)?;
    for migration in migrate::missing(known, &applied(&transaction)?)? {
        transaction.execute_batch(migration.sql).map_err(store_error)?;
        let row = params![migration.version, migration.name, migration.checksum(), now.as_micros()];
        transaction.execute("insert into punctual_schema values (?1, ?2, ?3, ?4)", row).map_err(store_error)?;
        tracing::info!(version = migration.version, name = migration.name, "applied a migration");
    }
    transaction.commit().map_err(store_error)
}

/// The schema version of the file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_an_older_version_is_upgraded_and_refused_by_the_older_program() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Timestamp::MIN).unwrap();
        connection.execute_batch("insert into punctual_locks values ('name', 'owner', 7, 8)").unwrap();
        let second = Migration { version: 2, name: "second", sql: "alter table punctual_locks add column note text" };
        let known = [MIGRATIONS, &[second]].concat();
        migrate_to(&known, &mut connection, Timestamp::MIN).unwrap();
        assert_eq!(read(&connection).unwrap().version, known.len() as u32);
        let kept = "select token from punctual_locks where note is null";
        assert_eq!(connection.query_row(kept, [], |row| row.get::<_, i64>(0)).unwrap(), 7);
        let refused = migrate(&mut connection, Timestamp::MIN).unwrap_err();
        assert!(matches!(refused, StoreError::NewerSchema { .. }), "{refused}");
    }
}
