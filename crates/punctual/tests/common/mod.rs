//! Helpers for tests with real processes.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use nix::{
    sys::{
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use punctual::{
    Context, Draft, Failure, Filter, JobId, Page, Punctual, Status, Worker,
    core::ManualClock,
    sqlite::rusqlite::{Connection, TransactionBehavior},
};
use tempfile::TempDir;

/// A store in a folder that is removed at the end.
pub struct TestStore {
    pub folder: TempDir,
    pub url: String,
}

/// Runs each test on each engine; a test receives the function that creates a store.
#[macro_export]
macro_rules! on_each_engine {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::TestStore::new).await;
            })*
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::TestStore::postgres).await;
            })*
        }

        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::TestStore::redis).await;
            })*
        }
    };
}

impl TestStore {
    /// On SQLite.
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

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("punctual.db")
    }

    pub fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

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

    /// Starts a worker in its own process: this test program again, at [`worker_process`].
    pub fn start_worker(&self, lease_ms: u64) -> Process {
        self.start("worker_process", lease_ms)
    }

    /// Starts a process that enqueues, at [`enqueuer_process`].
    pub fn start_enqueuer(&self) -> Process {
        self.start("enqueuer_process", 0)
    }

    /// Starts this test program again, at one of its tests.
    pub fn start(&self, test: &str, lease_ms: u64) -> Process {
        self.start_with_env(test, &[("PUNCTUAL_TEST_LEASE_MS", &lease_ms.to_string())])
    }

    /// Starts this test program again, with additional environment variables.
    pub fn start_with_env(&self, test: &str, environment: &[(&str, impl AsRef<OsStr>)]) -> Process {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture", "--quiet"])
            .env("PUNCTUAL_TEST_STORE", &self.url)
            .env("PUNCTUAL_TEST_LEDGER", self.ledger())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }

    /// Suspends a process, but never within a write, which would block all other writers of the file until the process
    /// continues.
    pub fn freeze(&self, process: &Process) {
        let between_writes = self.url.starts_with("sqlite:").then(|| Holder::start(self));
        process.freeze();
        if let Some(holder) = between_writes {
            holder.release();
        }
    }

    /// The lines of the ledger: each is a job and the run that a worker began, or a job that was acknowledged.
    pub fn ledger_lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.ledger()).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Another program that holds the file's write lock until it is asked to release it.
pub struct Holder {
    release: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Holder {
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

    pub fn release(self) {
        self.release.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// A child process, killed on drop.
pub struct Process(Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Suspends it.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let stopped = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(self.pid(), Signal::SIGSTOP));
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32)
    }

    /// Whether it has exited.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits until it exits.
    pub fn wait(mut self) -> std::process::ExitStatus {
        self.0.wait().unwrap()
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The body of a process that a test starts: calls `work` with the URL of the store.
pub fn in_process(work: impl AsyncFnOnce(String)) {
    let url = std::env::var("PUNCTUAL_TEST_STORE").expect("only for the processes that other tests start");
    tokio::runtime::Runtime::new().unwrap().block_on(work(url));
}

/// The body of the worker processes. Every test program that starts workers has a test of this name that calls it.
pub fn worker_process() {
    in_process(async |url: String| {
        let lease = std::env::var("PUNCTUAL_TEST_LEASE_MS").unwrap().parse().unwrap();
        let ledger = Arc::new(Ledger::open(Path::new(&std::env::var("PUNCTUAL_TEST_LEDGER").unwrap())));
        let held = ledger.clone();
        let punctual = Punctual::connect(&url).await.unwrap();
        let worker = Worker::builder(punctual)
            .handler("fast", move |ctx: Context| {
                ledger.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
                async { Ok(None) }
            })
            .handler("node", |ctx: Context| async move {
                // The payload sets how often it fails or crashes before it ends.
                let plan: serde_json::Value = ctx.claim().job.spec.payload.read().unwrap();
                match plan["failures"].as_u64().unwrap() {
                    failures if u64::from(ctx.attempt()) <= failures => Err(Failure::new("planned")),
                    _ if plan["dies"] == true => Err(Failure::permanent("planned")),
                    _ => Ok(None),
                }
            })
            .handler("held", move |ctx: Context| {
                held.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
                std::future::pending()
            })
            .concurrency(200)
            .lease(Duration::from_millis(lease))
            .start()
            .await
            .unwrap();
        let _kept = worker;
        std::future::pending::<()>().await;
    });
}

/// The body of processes that enqueue from many tasks, and write each acknowledged job to the ledger.
pub fn enqueuer_process() {
    in_process(async |url: String| {
        let ledger = Arc::new(Ledger::open(Path::new(&std::env::var("PUNCTUAL_TEST_LEDGER").unwrap())));
        let punctual = Punctual::connect(&url).await.unwrap();
        for _ in 0..16 {
            let (punctual, ledger) = (punctual.clone(), ledger.clone());
            tokio::spawn(async move {
                loop {
                    let job = punctual.enqueue(Draft::new("fast", &())).await.unwrap();
                    ledger.write(&format!("{}\n", job.id));
                }
            });
        }
        std::future::pending::<()>().await;
    });
}

/// An external record of executions: one write per line, in append mode, so that lines of several processes never mix.
pub struct Ledger(Mutex<File>);

impl Ledger {
    pub fn open(path: &Path) -> Self {
        Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path).unwrap()))
    }

    pub fn write(&self, line: &str) {
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Jobs for the worker processes with a high crash limit.
pub fn fast_jobs(count: usize) -> impl Iterator<Item = Draft> {
    (0..count).map(|number| Draft::new("fast", &number).max_attempts(1_000).max_crashes(100))
}

/// Number of jobs with this status.
pub async fn count(punctual: &Punctual, status: Status) -> u64 {
    punctual.admin("test").overview().await.unwrap().jobs[&status]
}

/// The jobs with this status.
pub async fn ids(punctual: &Punctual, status: Status) -> BTreeSet<JobId> {
    let (mut page, mut ids) = (Page::first(1_000), BTreeSet::new());
    loop {
        let found = punctual.store().list(Filter::status(status), page.clone()).await.unwrap();
        ids.extend(found.jobs.iter().map(|job| job.id));
        match found.next {
            Some(next) => page.after = Some(next),
            None => return ids,
        }
    }
}

/// Waits until `done` returns true. Polls often, and fails with a message after five minutes.
pub async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let deadline = std::time::Instant::now() + Duration::from_secs(300);
    while !done().await {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the only worker has checked its leases, which it does before each heartbeat.
pub async fn leases_compared(punctual: &Punctual) {
    for _ in 0..2 {
        let seen_at = async || punctual.admin("test").workers().await.unwrap()[0].seen_at;
        let before = seen_at().await;
        until("a sign of life", async || seen_at().await > before).await;
    }
}
