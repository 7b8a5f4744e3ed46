//! The stores of tests: each in its own folder or schema.

use std::{path::PathBuf, sync::mpsc, thread::JoinHandle, time::Duration};

use punctual::{
    ManualClock, Punctual,
    sqlite::rusqlite::{Connection, TransactionBehavior},
};
use tempfile::TempDir;

/// A store in a folder that is removed at the end.
#[derive(Debug)]
pub struct TestStore {
    /// The folder of its files.
    pub folder: TempDir,
    /// The URL by which processes connect to it.
    pub url: String,
}

impl TestStore {
    /// On SQLite.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
        Self { folder, url }
    }

    /// On the PostgreSQL server of the tests, in its own schema.
    pub fn postgres() -> Self {
        let server = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
            .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
        Self::on(&server)
    }

    /// On the PostgreSQL server of the tests, with the Redis server of the tests in front.
    pub fn redis() -> Self {
        let server = std::env::var("PUNCTUAL_TEST_REDIS_URL")
            .expect("PUNCTUAL_TEST_REDIS_URL names no server; `cargo xtask test` starts one and names it");
        Self::postgres().dispatched_by(&server)
    }

    /// The same store, with a Redis server in front.
    pub fn dispatched_by(self, server: &str) -> Self {
        Self { url: format!("{}&dispatch={server}", self.url), ..self }
    }

    /// On a PostgreSQL server, in its own schema.
    pub fn on(server: &str) -> Self {
        let schema = format!("test_{:016x}", fastrand::u64(..));
        // Tests share a few processors with many servers: a slow answer must not fail a test.
        let url = format!("{server}?answer_timeout=120&schema={schema}");
        Self { folder: tempfile::tempdir().unwrap(), url }
    }

    /// The file of SQLite.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("punctual.db")
    }

    /// The path of the [`Ledger`](crate::Ledger) of its processes.
    pub fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// Connects as one more process would.
    pub async fn connect(&self) -> Punctual {
        Punctual::connect(&self.url).await.unwrap()
    }

    /// Connects with a clock that the test sets.
    pub async fn connect_with_clock(&self) -> (Punctual, ManualClock) {
        let clock = ManualClock::at("2026-03-01T12:00:00Z".parse().unwrap());
        (self.connect_by(&clock).await, clock)
    }

    /// Connects with this clock.
    pub async fn connect_by(&self, clock: &ManualClock) -> Punctual {
        Punctual::connect_with_clock(&self.url, clock.clone()).await.unwrap()
    }

    /// The lines of the ledger: each is a job and the run that a worker began, or a job that was acknowledged.
    pub fn ledger_lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.ledger()).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Another program that holds the file's write lock until it is asked to release it.
#[derive(Debug)]
pub struct Holder {
    release: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Holder {
    /// Returns when it holds the lock.
    pub fn start(test_store: &TestStore) -> Self {
        let (path, (release, released), (taken, is_taken)) = (test_store.file(), mpsc::channel(), mpsc::channel());
        let thread = std::thread::spawn(move || {
            let mut connection = Connection::open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(60)).unwrap();
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            transaction.execute("create table if not exists theirs (x)", []).unwrap();
            taken.send(()).unwrap();
            released.recv().unwrap();
            transaction.commit().unwrap();
        });
        is_taken.recv().unwrap();
        Self { release, thread }
    }

    /// Returns when the lock is free.
    pub fn release(self) {
        self.release.send(()).unwrap();
        self.thread.join().unwrap();
    }
}
