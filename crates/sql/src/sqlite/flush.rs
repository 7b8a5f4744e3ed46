//! Makes commits durable beside the writer, which goes on meanwhile.
//!
//! SQLite appends a commit to the write-ahead log and leaves it to the system (`synchronous=normal`). A thread of its
//! own then waits until the log is on the disk, once for all commits that have come by then, and only after that
//! tells those who asked for it. The log is in order, so what is on the disk is always a whole beginning of history.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, Sender, channel},
    thread::{self, JoinHandle},
};

use punctual_core::StoreError;

use super::{health::Health, operation::Operation};

/// Committed operations whose callers wait for the disk.
type Committed = Vec<Box<dyn Operation>>;

/// The way to the thread that waits for the disk.
pub(crate) struct Flusher {
    committed: Option<Sender<Committed>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread; `sync` returns once everything that was written before is on the disk. If it fails, the store
    /// has failed for good.
    pub(crate) fn start(
        sync: impl FnMut() -> io::Result<()> + Send + 'static,
        health: Health,
    ) -> Result<Self, StoreError> {
        let (committed, inbox) = channel();
        let thread = thread::Builder::new()
            .name("punctual-flush".into())
            .spawn(move || run(&inbox, sync, &health))
            .map_err(|error| StoreError::Other(format!("cannot start the thread that flushes: {error}")))?;
        Ok(Self { committed: Some(committed), thread: Some(thread) })
    }

    /// Answers the callers of `operations` once these are on the disk.
    pub(crate) fn answer_when_durable(&self, operations: Committed) {
        if let Some(committed) = &self.committed {
            // A thread that is gone drops the operations, and with them their callers are told that all is closed.
            let _ = committed.send(operations);
        }
    }
}

impl Drop for Flusher {
    /// Lets the thread finish what it was given.
    fn drop(&mut self) {
        self.committed = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(inbox: &Receiver<Committed>, mut sync: impl FnMut() -> io::Result<()>, health: &Health) {
    while let Ok(first) = inbox.recv() {
        let waiting: Vec<_> = std::iter::once(first).chain(inbox.try_iter()).flatten().collect();
        let durable = health.check().and_then(|()| sync().map_err(|error| health.fail(error)));
        for operation in waiting {
            operation.reply(durable.clone());
        }
    }
}

/// Waits for the disk with the write-ahead log beside the file at `path`, as SQLite itself names it.
///
/// SQLite keeps its locks elsewhere, so that a second handle on the log is harmless, and it keeps the log itself as
/// long as a connection is open.
pub(crate) fn sync_log(path: &str) -> impl FnMut() -> io::Result<()> + Send + 'static {
    let path = PathBuf::from(format!("{path}-wal"));
    let mut log: Option<File> = None;
    move || {
        let log = match &mut log {
            Some(log) => log,
            none => none.insert(OpenOptions::new().write(true).open(&path).map_err(|error| named(&path, &error))?),
        };
        log.sync_data().map_err(|error| named(&path, &error))
    }
}

/// The error with the file that it is about.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ops::tx::Tx, sqlite::operation::Durability};
    use punctual_core::Settlement;
    use std::{
        sync::mpsc::TryRecvError,
        time::{Duration, Instant},
    };

    /// An operation whose caller is a channel.
    struct Told(Sender<Result<(), StoreError>>);

    impl Operation for Told {
        fn durability(&self) -> Durability {
            Durability::Now
        }

        fn asked(&self) -> Instant {
            Instant::now()
        }

        fn run(&mut self, _: &mut Tx<'_>) -> Result<(), StoreError> {
            Ok(())
        }

        fn reply(self: Box<Self>, committed: Result<(), StoreError>) -> Vec<Settlement> {
            self.0.send(committed).unwrap();
            Vec::new()
        }
    }

    /// A disk that says when it is asked, and waits until it may answer.
    fn disk() -> (Receiver<()>, Sender<io::Result<()>>, impl FnMut() -> io::Result<()> + Send) {
        let ((asked, on_asked), (answer, on_answer)) = (channel(), channel::<io::Result<()>>());
        let sync = move || {
            asked.send(()).unwrap();
            // Bounded, so that a test that fails comes to an end.
            on_answer.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|_| Err(io::Error::other("no answer")))
        };
        (on_asked, answer, sync)
    }

    #[test]
    fn nobody_is_told_before_the_disk_has_it_and_one_wait_serves_all_who_came_meanwhile() {
        let (asked, answer, sync) = disk();
        let flusher = Flusher::start(sync, Health::new(Path::new("x.db"))).unwrap();
        let (found, on_told) = channel();
        flusher.answer_when_durable(vec![Box::new(Told(found.clone()))]);
        asked.recv().unwrap();
        assert_eq!(on_told.try_recv().unwrap_err(), TryRecvError::Empty);
        // These come while the disk works, so that they wait for its next answer, together.
        flusher.answer_when_durable(vec![Box::new(Told(found.clone())), Box::new(Told(found.clone()))]);
        flusher.answer_when_durable(vec![Box::new(Told(found))]);
        answer.send(Ok(())).unwrap();
        on_told.recv().unwrap().unwrap();
        asked.recv().unwrap();
        assert_eq!(on_told.try_recv().unwrap_err(), TryRecvError::Empty);
        answer.send(Ok(())).unwrap();
        assert_eq!(on_told.iter().map(Result::unwrap).count(), 3);
        drop(flusher);
        assert!(asked.recv().is_err(), "the disk was asked more often than needed");
    }

    #[test]
    fn a_disk_that_fails_is_told_to_the_caller() {
        let (_asked, answer, sync) = disk();
        let flusher = Flusher::start(sync, Health::new(Path::new("x.db"))).unwrap();
        let (found, on_told) = channel();
        answer.send(Err(io::Error::other("worn out"))).unwrap();
        flusher.answer_when_durable(vec![Box::new(Told(found))]);
        let error = on_told.recv().unwrap().unwrap_err().to_string();
        assert!(error.contains("did not confirm a write: worn out"), "{error}");
        // The next answer of such a disk is worth nothing.
        answer.send(Ok(())).unwrap();
        let (found, on_told) = channel();
        flusher.answer_when_durable(vec![Box::new(Told(found))]);
        assert!(on_told.recv().unwrap().is_err());
    }

    #[test]
    fn the_log_is_found_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let options = crate::sqlite::Options::new(folder.path().join("x.db"));
        let connection = crate::sqlite::connection::open(&options).unwrap();
        connection.execute_batch("create table t (x)").unwrap();
        sync_log(connection.path().unwrap())().unwrap();
        assert!(sync_log("nowhere/x.db")().is_err());
    }
}
