//! Copies the write-ahead log back into the file on a thread of its own, because a checkpoint would block the writer
//! for milliseconds.
//!
//! Under a steady load of commits, a concurrent checkpoint never completes, and the log can restart only after it was
//! copied completely. So once the log is long, the writer copies the rest itself; by then little is left to copy.

use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use punctual_core::StoreError;
use rusqlite::{Connection, hooks::Wal};

use super::{
    error::{is_failed_sync, store_error},
    health::Health,
};

/// Number of new log pages, of 4 KiB, after which the thread copies them.
const STEP_PAGES: i32 = 1_000;
/// Number of log pages after which the writer copies the rest itself.
const LOG_MAX_PAGES: i32 = 16_000;
/// Rounds per checkpoint: each copies what was committed during the one before, until the log can restart.
const ROUNDS_MAX_COUNT: usize = 4;

/// The checkpoint thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    thread: JoinHandle<()>,
}

impl Checkpointer {
    /// Starts the thread with a connection of its own, and installs a hook on the writer's connection that notifies it.
    pub(crate) fn start(writer: &mut Connection, connection: Connection, health: &Health) -> Result<Self, StoreError> {
        // One pending message is enough: each checkpoint copies everything.
        let (request, requests) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("punctual-ckpt".into())
            .spawn({
                let health = health.clone();
                move || run(&connection, &requests, &health)
            })
            .map_err(|error| StoreError::Other(format!("cannot start the thread for checkpoints: {error}")))?;
        writer.wal_hook(Some(hook(request, health.clone()))).map_err(store_error)?;
        Ok(Self { thread })
    }

    /// Ends the thread and closes its connection. Must be called before the writer's connection is closed: if both
    /// closed at once, neither would be the last one, which removes the log.
    pub(crate) fn stop(self, writer: &mut Connection) {
        // Removing the hook drops the only sender, which ends the thread.
        if writer.wal_hook(None::<fn(&mut Wal, i32) -> rusqlite::Result<()>>).is_ok() {
            let _ = self.thread.join();
        }
    }
}

/// The hook, called after each commit with the length of the log.
fn hook(request: SyncSender<()>, health: Health) -> impl FnMut(&mut Wal, i32) -> rusqlite::Result<()> + Send + 'static {
    let mut requested_at = 0;
    move |log, pages| {
        if pages < requested_at {
            // The log has restarted.
            requested_at = 0;
        }
        if pages >= LOG_MAX_PAGES {
            // A failure to copy everything, for example because of a long read, must not make commits fail.
            if let Err(error) = log.checkpoint() {
                report_failed_sync(&error, &health);
            }
        } else if pages - requested_at >= STEP_PAGES {
            requested_at = pages;
            let _ = request.try_send(());
        }
        Ok(())
    }
}

/// Reports a sync failure to `health`. Other failures are ignored, because the checkpoint is retried.
fn report_failed_sync(error: &rusqlite::Error, health: &Health) {
    if is_failed_sync(error) {
        health.fail(error);
    }
}

fn run(connection: &Connection, requests: &Receiver<()>, health: &Health) {
    while requests.recv().is_ok() {
        for _ in 0..ROUNDS_MAX_COUNT {
            // Another process may be copying, or the disk is full: the writer retries, and only sync failures are
            // reported.
            let copied = checkpoint(connection).inspect_err(|error| report_failed_sync(error, health));
            if copied.unwrap_or(true) {
                break;
            }
        }
    }
}

/// Copies what has been committed; returns whether that was the whole log.
fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    let mut checkpoint = connection.prepare_cached("pragma wal_checkpoint(passive)")?;
    checkpoint.query_row([], |row| Ok(row.get::<_, i32>(1)? == row.get::<_, i32>(2)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, connection};
    use std::time::{Duration, Instant};

    /// The length of the log, and how much of it was copied.
    fn log(connection: &Connection) -> (i32, i32) {
        connection.query_row("pragma wal_checkpoint(noop)", [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap()
    }

    #[test]
    fn a_checkpoint_begins_beside_the_writer_and_the_last_to_close_removes_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(folder.path().join("x.db"));
        let mut writer = connection::open(&options).unwrap();
        let checkpointer =
            Checkpointer::start(&mut writer, connection::open_reader(&options).unwrap(), &Health::new(&options.path))
                .unwrap();
        writer.execute_batch("create table t (x blob); insert into t values (zeroblob(5000000))").unwrap();
        assert!(log(&writer).0 > STEP_PAGES);
        let deadline = Instant::now() + Duration::from_secs(20);
        while log(&writer).1 == 0 && Instant::now() < deadline {
            thread::yield_now();
        }
        let (_, copied) = log(&writer);
        checkpointer.stop(&mut writer);
        drop(writer);
        assert!(copied > 0);
        assert!(!folder.path().join("x.db-wal").exists());
    }

    #[test]
    fn the_writer_itself_lets_a_long_log_begin_anew() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(folder.path().join("x.db"));
        let mut writer = connection::open(&options).unwrap();
        let (request, _never_read) = sync_channel(1);
        writer.wal_hook(Some(hook(request, Health::new(&options.path)))).unwrap();
        let pages = LOG_MAX_PAGES + 1;
        writer
            .execute_batch(&format!("create table t (x blob); insert into t values (zeroblob({}))", pages * 4096))
            .unwrap();
        writer.execute_batch("insert into t values (1)").unwrap();
        assert!(log(&writer).0 < 10);
    }
}
