//! Backs up a store while processes use it, and counts what a backup contains.

use std::path::{Path, PathBuf};

use punctual_core::StoreError;
use rusqlite::Connection;
use serde::Serialize;

use super::{
    backup_file::{BackupError, PartialFile, lock, open},
    error::BUSY_MAX_WAIT,
    schema,
};
use crate::migrate;

/// The files of a backup or a restore.
#[derive(Debug, Clone)]
pub struct BackupFiles {
    /// The file that is copied.
    pub from: PathBuf,
    /// The file that is created.
    pub to: PathBuf,
    /// Whether `to` may be replaced.
    pub replace: bool,
}

/// What a backup contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BackupContents {
    /// The size of the file.
    pub bytes: u64,
    /// The version of the schema.
    pub schema_version: u32,
    /// Jobs of any status, including deleted ones that retention has not purged yet.
    pub jobs: u64,
    /// Jobs that were running at the time of the backup.
    pub running: u64,
    /// Schedules.
    pub schedules: u64,
    /// Workflows.
    pub workflows: u64,
    /// Queues with settings.
    pub queues: u64,
    /// API tokens, without sessions of the dashboard.
    pub tokens: u64,
}

/// Copies the store in the file `from` to the new file `to`, while processes use the store. Returns once the copy is
/// checked, durable, and has its name; until then it is `to` with the suffix `.partial`.
///
/// `on_progress` receives the number of copied pages and of all pages.
pub async fn backup(
    files: BackupFiles,
    mut on_progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<BackupContents, BackupError> {
    blocking(move || backup_now(&files, &mut on_progress)).await
}

/// Runs work with files on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Other(format!("the copy broke off: {error}")))?
}

fn backup_now(files: &BackupFiles, on_progress: &mut dyn FnMut(u64, u64)) -> Result<BackupContents, BackupError> {
    let BackupFiles { from, to, replace } = files;
    let source = open_store(from)?;
    refuse_target(from, to)?;
    if to.exists() && !replace {
        return Err(BackupError::Refused(format!("{} exists; replace it with --force", to.display())));
    }
    // Before the long copy.
    drop(lock(to)?);
    let partial = PartialFile::create(to, from)?;
    let copy = partial.copy_of(&source, on_progress)?;
    let contents = checked_contents(&copy)?;
    // Its lock would end when the file is opened and closed again to sync it.
    drop(copy);
    partial.sync()?;
    // Held until the file is replaced.
    let held = lock(to)?;
    partial.rename_to(to)?;
    drop(held);
    Ok(contents)
}

/// Opens a file that must exist and be a store which this build can read.
pub(super) fn open_store(path: &Path) -> Result<Connection, BackupError> {
    if !path.exists() {
        return Err(BackupError::NotFound(path.to_owned()));
    }
    let connection = open(path)?;
    connection.busy_timeout(BUSY_MAX_WAIT)?;
    let schema = schema::read(&connection)?;
    if schema.version == 0 {
        return Err(BackupError::Refused(format!("{} is not a Punctual store", path.display())));
    }
    migrate::missing(schema::MIGRATIONS, &schema.migrations)?;
    Ok(connection)
}

/// Refuses a target that can never be one.
pub(super) fn refuse_target(from: &Path, to: &Path) -> Result<(), BackupError> {
    let refuse = |what: &str| Err(BackupError::Refused(format!("{} {what}", to.display())));
    if to.is_dir() {
        return refuse("is a folder; name a file in it");
    }
    match (from.canonicalize(), to.canonicalize()) {
        (Ok(from), Ok(to)) if from == to => refuse("is both the store and the backup; name another file"),
        _ => Ok(()),
    }
}

/// Checks the pages of a file, and counts what it contains.
pub(super) fn checked_contents(connection: &Connection) -> Result<BackupContents, BackupError> {
    let result: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    if result != "ok" {
        return Err(StoreError::Corrupt(result).into());
    }
    contents(connection)
}

/// Counts what a store contains.
pub(super) fn contents(connection: &Connection) -> Result<BackupContents, BackupError> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u64>(0));
    Ok(BackupContents {
        bytes: number("select page_count * page_size from pragma_page_count, pragma_page_size")?,
        schema_version: schema::read(connection)?.version,
        jobs: number("select count(*) from punctual_jobs")?,
        running: number("select count(*) from punctual_running")?,
        schedules: number("select count(*) from punctual_schedules")?,
        workflows: number("select count(*) from punctual_workflows")?,
        queues: number("select count(*) from punctual_queues")?,
        tokens: number("select count(*) from punctual_tokens where session_of is null")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, connection, restore::restore};
    use punctual_core::Timestamp;
    use std::fs;

    fn store(path: &Path) -> Connection {
        let mut connection = connection::open(&Options::new(path)).unwrap();
        schema::migrate(&mut connection, Timestamp::MIN).unwrap();
        connection
    }

    fn files(from: &Path, to: &Path) -> BackupFiles {
        BackupFiles { from: from.to_owned(), to: to.to_owned(), replace: false }
    }

    fn rows(path: &Path) -> i64 {
        open(path).unwrap().query_row("select count(*) from t", [], |row| row.get(0)).unwrap()
    }

    #[tokio::test]
    async fn a_backup_is_one_snapshot_although_another_connection_commits_after_every_step() {
        let folder = tempfile::tempdir().unwrap();
        let (live, copy) = (folder.path().join("x.db"), folder.path().join("copy.db"));
        let writer = store(&live);
        writer.execute_batch("create table t (x); insert into t values (zeroblob(9000000))").unwrap();
        let (steps, counted) = std::sync::mpsc::channel();
        let contents = backup(files(&live, &copy), move |done, all| {
            writer.execute_batch("insert into t values (1)").unwrap();
            steps.send((done, all)).unwrap();
        });
        let contents = contents.await.unwrap();
        let counted: Vec<_> = counted.iter().collect();
        assert!(counted.len() > 2 && counted.is_sorted(), "it began again: {counted:?}");
        assert_eq!(counted.last().unwrap().0, counted[0].1);
        assert_eq!((rows(&copy), rows(&live)), (1, 1 + counted.len() as i64));
        assert_eq!(contents.bytes, fs::metadata(&copy).unwrap().len());
        let names = || fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names().all(|name| !name.to_string_lossy().starts_with("copy.db-")), "the copy is one file");
    }

    #[tokio::test]
    async fn a_store_with_an_open_connection_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (live, copy) = (folder.path().join("x.db"), folder.path().join("copy.db"));
        let writer = store(&live);
        writer.execute_batch("create table t (x)").unwrap();
        backup(files(&live, &copy), |_, _| {}).await.unwrap();
        writer.execute_batch("insert into t values (1)").unwrap();
        let again = BackupFiles { replace: true, ..files(&copy, &live) };
        let refused = restore(again.clone(), |_, _| {}).await.unwrap_err();
        assert!(refused.to_string().contains("is in use by another process"), "{refused}");
        writer.execute_batch("insert into t values (2)").unwrap();
        drop(writer);
        let refused = restore(files(&copy, &live), |_, _| {}).await.unwrap_err();
        assert!(refused.to_string().contains("has the table t of another program"), "{refused}");
        assert_eq!(rows(&live), 2);
        restore(again, |_, _| {}).await.unwrap();
        assert_eq!(rows(&live), 0);
    }

    #[tokio::test]
    async fn a_damaged_backup_and_one_of_a_newer_version_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (live, copy) = (folder.path().join("x.db"), folder.path().join("copy.db"));
        drop(store(&live));
        backup(files(&live, &copy), |_, _| {}).await.unwrap();
        let target = folder.path().join("new.db");
        let newer = "insert into punctual_schema values (999, 'future', 'x', 0)";
        open(&copy).unwrap().execute_batch(newer).unwrap();
        let refused = restore(files(&copy, &target), |_, _| {}).await.unwrap_err();
        assert!(matches!(refused, BackupError::Store(StoreError::NewerSchema { .. })), "{refused}");
        open(&copy).unwrap().execute_batch("delete from punctual_schema where version = 999").unwrap();
        let mut bytes = fs::read(&copy).unwrap();
        let (page, end) = (4_096, bytes.len());
        // The first page stays, so that it still looks like a SQLite file.
        bytes[end - 4 * page..].fill(0xa5);
        fs::write(&copy, bytes).unwrap();
        let refused = restore(files(&copy, &target), |_, _| {}).await.unwrap_err();
        assert!(matches!(refused, BackupError::Store(StoreError::Corrupt(_))), "{refused}");
        assert!(!target.exists() && !folder.path().join("new.db.partial").exists());
    }
}
