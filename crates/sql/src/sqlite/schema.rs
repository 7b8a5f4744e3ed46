//! Bringing a file to the schema that this build knows.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, SqliteStore};
    use punctual_core::{JobId, Status, store::ports::*};

    #[tokio::test]
    async fn a_file_of_the_first_version_keeps_every_story_when_it_is_upgraded() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(folder.path().join("old.db"));
        let old = Connection::open(&options.path).unwrap();
        old.execute_batch(CREATE_SCHEMA).unwrap();
        old.execute_batch(MIGRATIONS[0].sql).unwrap();
        let row = params![1, MIGRATIONS[0].name, MIGRATIONS[0].checksum(), 0];
        old.execute("insert into punctual_schema values (?1, ?2, ?3, ?4)", row).unwrap();
        // One job has died after a retry, another waits; their events are mixed.
        old.execute_batch(
            "insert into punctual_jobs (seq, id, name, queue, status, priority, scheduled_at, run_at, max_attempts,
                 timeout_ms, created_at, updated_at, finished_at, payload)
             values (1, zeroblob(16), 'x', 'q', 'dead', 5, 0, 0, 2, 1, 0, 0, 9, '1'),
                    (2, x'00000000000000000000000000000001', 'x', 'q', 'queued', 5, 0, 0, 2, 1, 0, 0, null, '1');
             insert into punctual_dead values (9, 1, 'x');
             insert into punctual_ready values ('q', 'x', 5, 0, 2);
             insert into punctual_counts values ('q', 'x', 'dead', 1), ('q', 'x', 'queued', 1);
             insert into punctual_events (seq, job, at, status)
             values (1, 1, 1, 'queued'), (2, 2, 2, 'queued'), (3, 1, 3, 'processing'), (4, 1, 4, 'failed'), (5, 1, 4, 'dead')",
        )
        .unwrap();
        drop(old);
        let store = SqliteStore::open(options).await.unwrap();
        assert_eq!(store.schema().await.unwrap().version, MIGRATIONS.len() as u32);
        let story = async |id| -> Vec<Status> {
            store.events(JobId::from_bytes(id)).await.unwrap().into_iter().map(|event| event.status).collect()
        };
        let mut second = [0; 16];
        second[15] = 1;
        assert_eq!(story([0; 16]).await, [Status::Queued, Status::Processing, Status::Failed, Status::Dead]);
        assert_eq!(story(second).await, [Status::Queued]);
        for diagnostic in store.check().await.unwrap() {
            assert!(diagnostic.ok, "{}: {}", diagnostic.check, diagnostic.message);
        }
    }
}
