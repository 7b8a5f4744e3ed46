//! The file that a backup or a restore writes, and what can go wrong with it.
//!
//! SQLite copies the pages of one snapshot: a read transaction is open during the whole copy. Without it, SQLite would
//! start again after every commit of another process. Writers are not blocked; only the write-ahead log cannot restart
//! until the copy ends. `vacuum into` gives the same guarantees, but writes every row and index again, which takes
//! several times as long, and reports no progress.
//!
//! The copy needs no write-ahead log, so it is complete without a second file, and can be read from a read-only disk.

use std::{
    fmt,
    fs::{self, File, Permissions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use punctual_core::StoreError;
use rusqlite::{
    Connection, ErrorCode, OpenFlags,
    backup::{Backup, StepResult},
    ffi,
};

use super::error::store_error;

/// Pages per step, of 4 KiB; after each step the progress is reported.
const STEP_PAGES: i32 = 1_024;

/// Why a backup or a restore failed. The target is unchanged.
#[derive(Debug)]
pub enum BackupError {
    /// The file to copy does not exist.
    NotFound(PathBuf),
    /// The state of the files does not allow the action; the text says what to do.
    Refused(String),
    /// A file could not be written or replaced.
    File(PathBuf, io::Error),
    /// The store, or the backup, could not be read or written.
    Store(StoreError),
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => write!(f, "file {} not found", path.display()),
            Self::Refused(reason) => f.write_str(reason),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BackupError {}

impl From<StoreError> for BackupError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for BackupError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(store_error(error))
    }
}

/// Opens a file that exists.
pub(super) fn open(path: &Path) -> Result<Connection, BackupError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(|error| {
        let reason = format!("{error}; check that you may read and write it");
        BackupError::Store(StoreError::Unreachable { store: format!("sqlite:{}", path.display()), reason })
    })
}

/// A file that gets its name when it is complete; otherwise it is removed.
pub(super) struct PartialFile {
    path: PathBuf,
    is_renamed: bool,
}

impl PartialFile {
    /// Creates the file that becomes `target`, with the permissions of `like`, and writable. One that an interrupted
    /// run has left is replaced.
    pub(super) fn create(target: &Path, like: &Path) -> Result<Self, BackupError> {
        let path = with_suffix(target, ".partial");
        if path.exists() && is_being_written(&path) {
            let reason = format!("{} is being written by another process; wait until it has ended", path.display());
            return Err(BackupError::Refused(reason));
        }
        remove_with_companions(&path)?;
        let create = || {
            File::create_new(&path)?;
            fs::set_permissions(&path, writable(fs::metadata(like)?.permissions()))
        };
        create().map_err(|error| BackupError::File(path.clone(), error))?;
        Ok(Self { path, is_renamed: false })
    }

    /// Copies a store into the file, and returns the only connection to it. The file is locked as long as it is open.
    pub(super) fn copy_of(
        &self,
        source: &Connection,
        on_progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Connection, BackupError> {
        let mut copy = self.open_locked()?;
        // An interrupted copy is thrown away, and a complete one is synced at the end.
        copy.pragma_update(None, "journal_mode", "off")?;
        copy.pragma_update(None, "synchronous", "off")?;
        copy_pages(source, &mut copy, on_progress)?;
        drop(copy);
        // The first page says that there is a write-ahead log, as in the source.
        let copy = self.open_locked()?;
        copy.pragma_update(None, "journal_mode", "delete")?;
        Ok(copy)
    }

    fn open_locked(&self) -> Result<Connection, BackupError> {
        let connection = open(&self.path)?;
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        Ok(connection)
    }

    /// Waits until the disk has the file. Its connections must be closed.
    pub(super) fn sync(&self) -> Result<(), BackupError> {
        let sync = File::open(&self.path).and_then(|file| file.sync_all());
        sync.map_err(|error| BackupError::File(self.path.clone(), error))
    }

    /// Gives the file its name. A file that has it is replaced and must be [locked](lock), so that no process opens it
    /// meanwhile.
    pub(super) fn rename_to(mut self, target: &Path) -> Result<(), BackupError> {
        let failed = |error| BackupError::File(target.to_owned(), error);
        // A log that is left beside the new file would be applied to it.
        remove_companions(target)?;
        sync_folder(target).map_err(failed)?;
        fs::rename(&self.path, target).map_err(failed)?;
        self.is_renamed = true;
        sync_folder(target).map_err(failed)
    }

    /// Gives the file the owner of another one, so that a restore by root leaves it to the user of the service. Other
    /// users may not change owners, and need not: the file is theirs.
    #[cfg(unix)]
    pub(super) fn keep_owner_of(&self, other: &Path) {
        use std::os::unix::fs::{MetadataExt, chown};
        if let Ok(other) = fs::metadata(other) {
            let _ = chown(&self.path, Some(other.uid()), Some(other.gid()));
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // The next run may have created the file again.
        if !self.is_renamed {
            // What cannot be removed is replaced by the next run.
            let _ = remove_with_companions(&self.path);
        }
    }
}

/// The same permissions, and that of the owner to write.
#[cfg(unix)]
fn writable(mut permissions: Permissions) -> Permissions {
    use std::os::unix::fs::PermissionsExt;
    permissions.set_mode(permissions.mode() | 0o200);
    permissions
}

#[cfg(not(unix))]
fn writable(permissions: Permissions) -> Permissions {
    permissions
}

/// Whether there is a file with contents.
pub(super) fn has_contents(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

/// Locks the file that is to be replaced, if there is one. Fails if a process uses it.
///
/// Connections to a replaced file would continue to write it, and its write-ahead log would be applied to the new one.
/// SQLite leaves the write-ahead log only if no other connection is open, in any process; so the attempt shows whether
/// there is one.
pub(super) fn lock(path: &Path) -> Result<Option<Connection>, BackupError> {
    if !has_contents(path) {
        return Ok(None);
    }
    let connection = open(path)?;
    match lock_alone(&connection) {
        Ok(true) => Ok(Some(connection)),
        Ok(false) => Err(in_use(path)),
        Err(error) => Err(cannot_lock(path, error)),
    }
}

/// Ends the use of the write-ahead log and takes the exclusive lock; returns whether no other connection is open.
fn lock_alone(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    connection.pragma_update(None, "journal_mode", "delete")?;
    connection.execute_batch("begin exclusive")?;
    // A process that was started in between has returned to the write-ahead log.
    let mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    Ok(mode == "delete")
}

fn in_use(path: &Path) -> BackupError {
    let path = path.display();
    BackupError::Refused(format!("{path} is in use by another process; stop all processes that use it"))
}

fn cannot_lock(path: &Path, error: rusqlite::Error) -> BackupError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => in_use(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            let file = path.display();
            BackupError::Refused(format!(
                "{file} is damaged or not a SQLite file ({error}); move it elsewhere, with {file}-wal and {file}-shm"
            ))
        }
        _ => store_error(error).into(),
    }
}

/// Copies all pages of one snapshot.
fn copy_pages(
    source: &Connection,
    copy: &mut Connection,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Result<(), BackupError> {
    let snapshot = source.unchecked_transaction()?;
    // The snapshot begins with the first read.
    snapshot.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
    let pages = Backup::new(&snapshot, copy)?;
    loop {
        let step = pages.step(STEP_PAGES)?;
        let progress = pages.progress();
        let count = |pages: i32| u64::try_from(pages).unwrap_or(0);
        on_progress(count(progress.pagecount - progress.remaining), count(progress.pagecount));
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            // Another process has locked the copy for longer than the timeout.
            _ => return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None).into()),
        }
    }
}

/// Whether a process holds the lock of a partial file. One without a lock was left by an interrupted run.
fn is_being_written(path: &Path) -> bool {
    let lock = || {
        let connection = open(path).ok()?;
        connection.busy_timeout(Duration::ZERO).ok()?;
        connection.execute_batch("begin exclusive").err()?.sqlite_error_code()
    };
    lock() == Some(ErrorCode::DatabaseBusy)
}

/// Removes a file and those that SQLite keeps beside it. Absent ones are no error.
fn remove_with_companions(path: &Path) -> Result<(), BackupError> {
    remove(path)?;
    remove_companions(path)
}

/// Removes the write-ahead log, its index and the journal of a file.
fn remove_companions(path: &Path) -> Result<(), BackupError> {
    ["-wal", "-shm", "-journal"].iter().try_for_each(|suffix| remove(&with_suffix(path, suffix)))
}

fn remove(path: &Path) -> Result<(), BackupError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(BackupError::File(path.to_owned(), error)),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Waits until the disk has the names of the files beside `path`.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
