//! Opens SQLite files with the settings that Punctual needs.

use std::{path::Path, thread, time::Duration};

use punctual_core::{Create, StoreError};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{error::store_error, options::Options};

/// The tables of the file, without those of SQLite.
const TABLES: &str = "select name from sqlite_schema where type = 'table' and substr(name, 1, 7) <> 'sqlite_'";

/// Opens the file for the writer; creates it if it does not exist and the options allow it.
pub(crate) fn open(options: &Options) -> Result<Connection, StoreError> {
    let connection = connect(options)?;
    // Before anything is changed: WAL mode, too, is a property of the file.
    check_tables(&connection, options)?;
    let connection = configured(connection, options)?;
    // Holds the hot tables and the ends of the indexes. Pages that readers use are rarely used again.
    connection.pragma_update(None, "cache_size", -12_288).map_err(store_error)?;
    Ok(connection)
}

/// Opens the file with a small cache, because there may be several readers.
pub(crate) fn open_reader(options: &Options) -> Result<Connection, StoreError> {
    configured(connect(options)?, options)
}

fn connect(options: &Options) -> Result<Connection, StoreError> {
    check_path(&options.path)?;
    if options.create == Create::Nothing && !options.path.exists() {
        return Err(StoreError::Absent { store: location(options), missing: "database" });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    loop {
        let before = identity(&options.path);
        let mut connection =
            Connection::open_with_flags(&options.path, flags).map_err(|error| unreachable(options, error))?;
        wait_for_restore(&mut connection).map_err(|error| open_error(options, error))?;
        if before.is_none() || before == identity(&options.path) {
            return Ok(connection);
        }
    }
}

/// Refuses a file in which tables would have to be created that the options do not allow.
fn check_tables(connection: &Connection, options: &Options) -> Result<(), StoreError> {
    if options.create == Create::Anywhere {
        return Ok(());
    }
    let tables = tables(connection).map_err(|error| open_error(options, error))?;
    match tables.first() {
        Some(_) if tables.iter().any(|table| table == "punctual_schema") => Ok(()),
        Some(table) => Err(StoreError::OtherProgram { store: location(options), table: table.clone() }),
        None if options.create == Create::InEmpty => Ok(()),
        None => Err(StoreError::Absent { store: location(options), missing: "Punctual schema" }),
    }
}

/// SQLite opens a file when it is used first.
fn open_error(options: &Options, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => unreachable(options, error),
        _ => store_error(error),
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.prepare(TABLES)?.query_map([], |row| row.get(0))?.collect()
}

fn location(options: &Options) -> String {
    format!("sqlite:{}", options.path.display())
}

fn configured(connection: Connection, options: &Options) -> Result<Connection, StoreError> {
    configure(&connection).map_err(store_error)?;
    let read_only = connection.is_readonly("main").map_err(store_error)?;
    if read_only {
        return Err(StoreError::ReadOnly(format!("{} is write-protected", options.path.display())));
    }
    Ok(connection)
}

/// Waits until a restore, which locks the file while it replaces it, has ended. Then the file at the path is another
/// one.
fn wait_for_restore(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_for_other_writers))?;
    connection.query_row("pragma schema_version", [], |_| Ok(()))
}

/// Distinguishes the file from one that replaces it.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    switch_to_wal(connection)?;
    // Operations that need more durability wait for the flusher.
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "cache_size", -2_048)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // Truncates the log after a burst.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(())
}

/// Switches a new file to WAL mode; only one of several processes can, and the others wait. SQLite does not call the
/// busy handler in this case.
fn switch_to_wal(connection: &Connection) -> rusqlite::Result<()> {
    let mut tries = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait_for_other_writers(tries) =>
            {
                tries += 1;
            }
            switched => return switched,
        }
    }
}

/// Waits briefly at first, since most writers finish within a millisecond, then longer, for one minute in total.
fn wait_for_other_writers(tries: i32) -> bool {
    let (pause, until) = match tries {
        0..100 => (Duration::from_micros(200), true),
        100..1_000 => (Duration::from_millis(1), true),
        1_000..6_900 => (Duration::from_millis(10), true),
        _ => (Duration::ZERO, false),
    };
    thread::sleep(pause);
    until
}

fn check_path(path: &Path) -> Result<(), StoreError> {
    let refuse = |reason: String| Err(StoreError::Unreachable { store: format!("sqlite:{}", path.display()), reason });
    if path.is_dir() {
        return refuse("it is a folder; name a file in it, such as punctual.db".into());
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            refuse(format!("the folder {} does not exist; create it first", folder.display()))
        }
        _ => Ok(()),
    }
}

fn unreachable(options: &Options, error: rusqlite::Error) -> StoreError {
    StoreError::Unreachable {
        store: location(options),
        reason: format!("{error}; check that you may read and write it"),
    }
}
