//! Makes commits durable on a thread of its own, while the writer continues.
//!
//! SQLite appends a commit to the write-ahead log and does not wait for the disk (`synchronous=normal`). The flusher
//! thread then syncs the log, once for all commits that arrived by then, and only afterwards answers the callers that
//! requested durability. The log is sequential, so the disk always holds a complete prefix of the commits.

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

/// The channel to the thread that syncs the log.
pub(crate) struct Flusher {
    committed: Option<Sender<Committed>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread. `sync` returns once everything that was written before is on disk. If it fails, the store has
    /// failed permanently.
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

    /// Answers the callers of `operations` once their commits are on disk.
    pub(crate) fn answer_when_durable(&self, operations: Committed) {
        if let Some(committed) = &self.committed {
            // If the thread has ended, the operations are dropped, and their callers receive `Closed`.
            let _ = committed.send(operations);
        }
    }
}

impl Drop for Flusher {
    /// Waits until the thread has processed the operations that it received.
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

/// Returns a function that syncs the write-ahead log of the file at `path`, under the name that SQLite gives it.
///
/// SQLite's locks are not on the log, so a second handle on it is harmless, and SQLite keeps the log as long as a
/// connection is open.
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

/// Adds the file name to an error.
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

    /// An operation that sends its result to a channel.
    struct Reported(Sender<Result<(), StoreError>>);

    impl Operation for Reported {
        fn durability(&self) -> Durability {
            Durability::Now
        }

        fn requested_at(&self) -> Instant {
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

    /// A disk that reports each sync request, and waits for the result to return.
    fn disk() -> (Receiver<()>, Sender<io::Result<()>>, impl FnMut() -> io::Result<()> + Send) {
        let ((request, on_request), (answer, on_answer)) = (channel(), channel::<io::Result<()>>());
        let sync = move || {
            request.send(()).unwrap();
            // Bounded, so that a failing test ends.
            on_answer.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|_| Err(io::Error::other("no answer")))
        };
        (on_request, answer, sync)
    }

    #[test]
    fn callers_are_answered_after_the_sync_and_those_that_arrive_meanwhile_share_the_next_one() {
        let (requests, answer, sync) = disk();
        let flusher = Flusher::start(sync, Health::new(Path::new("x.db"))).unwrap();
        let (found, results) = channel();
        flusher.answer_when_durable(vec![Box::new(Reported(found.clone()))]);
        requests.recv().unwrap();
        assert_eq!(results.try_recv().unwrap_err(), TryRecvError::Empty);
        // These arrive during a sync, so they wait for the next one together.
        flusher.answer_when_durable(vec![Box::new(Reported(found.clone())), Box::new(Reported(found.clone()))]);
        flusher.answer_when_durable(vec![Box::new(Reported(found))]);
        answer.send(Ok(())).unwrap();
        results.recv().unwrap().unwrap();
        requests.recv().unwrap();
        assert_eq!(results.try_recv().unwrap_err(), TryRecvError::Empty);
        answer.send(Ok(())).unwrap();
        assert_eq!(results.iter().map(Result::unwrap).count(), 3);
        drop(flusher);
        assert!(requests.recv().is_err(), "the disk was synced more often than needed");
    }

    #[test]
    fn a_failed_sync_is_reported_to_the_caller() {
        let (_requests, answer, sync) = disk();
        let flusher = Flusher::start(sync, Health::new(Path::new("x.db"))).unwrap();
        let (found, results) = channel();
        answer.send(Err(io::Error::other("worn out"))).unwrap();
        flusher.answer_when_durable(vec![Box::new(Reported(found))]);
        let error = results.recv().unwrap().unwrap_err().to_string();
        assert!(error.contains("did not confirm a write: worn out"), "{error}");
        // A later success of a disk that failed once must be ignored.
        answer.send(Ok(())).unwrap();
        let (found, results) = channel();
        flusher.answer_when_durable(vec![Box::new(Reported(found))]);
        assert!(results.recv().unwrap().is_err());
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
