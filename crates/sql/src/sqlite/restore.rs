//! Replaces a store by a backup: the backup is copied beside the store, checked and migrated, and gets its name last.

use std::path::Path;

use punctual_core::{Clock, SystemClock};
use rusqlite::Connection;

use super::{
    backup::{self, BackupContents, BackupFiles},
    backup_file::{self, BackupError, PartialFile, has_contents},
    schema,
};

/// Creates the store in the file `to` from the backup `from`, and migrates its schema to this version. An existing
/// store with contents is replaced only with `replace`, and never while a process uses it. Fails without a change to
/// the store.
///
/// `on_progress` receives the number of copied pages and of all pages.
pub async fn restore(
    files: BackupFiles,
    mut on_progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<BackupContents, BackupError> {
    backup::blocking(move || restore_now(&files, &mut on_progress)).await
}

fn restore_now(files: &BackupFiles, on_progress: &mut dyn FnMut(u64, u64)) -> Result<BackupContents, BackupError> {
    let BackupFiles { from, to, replace } = files;
    let source = backup::open_store(from)?;
    backup::refuse_target(from, to)?;
    // Before the long copy.
    drop(lock(to, *replace)?);
    let partial = PartialFile::create(to, if has_contents(to) { to } else { from })?;
    let mut copy = partial.copy_of(&source, on_progress)?;
    backup::checked_contents(&copy)?;
    schema::migrate(&mut copy, SystemClock.now())?;
    let contents = backup::contents(&copy)?;
    drop(copy);
    partial.sync()?;
    #[cfg(unix)]
    if has_contents(to) {
        partial.keep_owner_of(to);
    }
    // Held until the file is replaced, so that no process opens the old one meanwhile.
    let held = lock(to, *replace)?;
    partial.rename_to(to)?;
    drop(held);
    Ok(contents)
}

/// Locks the file that is to be replaced, if there is one. Fails if a process uses it or if it may not be replaced.
fn lock(path: &Path, replace: bool) -> Result<Option<Connection>, BackupError> {
    let held = backup_file::lock(path)?;
    if let Some(connection) = held.as_ref().filter(|_| !replace) {
        refuse_contents(connection, path)?;
    }
    Ok(held)
}

/// Refuses a file that is not an empty store.
fn refuse_contents(connection: &Connection, path: &Path) -> Result<(), BackupError> {
    let refuse = |what: String| {
        let path = path.display();
        Err(BackupError::Refused(format!("{path} {what}; its contents would be lost: replace it with --force")))
    };
    let foreign = "select name from sqlite_schema
        where type = 'table' and name not like 'punctual\\_%' escape '\\' and name not like 'sqlite\\_%' escape '\\'";
    if let Some(name) = first(connection, foreign)? {
        return refuse(format!("has the table {name} of another program"));
    }
    if schema::read(connection)?.version == 0 {
        return Ok(());
    }
    let BackupContents { jobs, schedules, workflows, queues, tokens, .. } = backup::contents(connection)?;
    if jobs + schedules + workflows + queues + tokens == 0 {
        return Ok(());
    }
    refuse(format!("is not empty: jobs {jobs}, schedules {schedules}, queues {queues}, tokens {tokens}"))
}

/// The text in the first row.
fn first(connection: &Connection, sql: &str) -> Result<Option<String>, BackupError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
}
