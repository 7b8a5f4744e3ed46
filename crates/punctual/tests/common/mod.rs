//! What the tests with real processes share.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::print_stdout)]

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use punctual::{Context, Draft, Punctual, Status, Worker};
use tempfile::TempDir;

/// A store in a folder that is removed at the end.
pub struct Place {
    pub folder: TempDir,
    pub url: String,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
        Self { folder, url }
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

    /// Starts a worker in a process of its own: this test program once more, at [`worker_process`].
    pub fn start_worker(&self, lease_ms: u64) -> Process {
        self.start("worker_process", lease_ms)
    }

    /// Starts a process that enqueues, at [`enqueuer_process`].
    pub fn start_enqueuer(&self) -> Process {
        self.start("enqueuer_process", 0)
    }

    fn start(&self, test: &str, lease_ms: u64) -> Process {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--quiet"])
            .env("PUNCTUAL_TEST_STORE", &self.url)
            .env("PUNCTUAL_TEST_LEDGER", self.ledger())
            .env("PUNCTUAL_TEST_LEASE_MS", lease_ms.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Process(child)
    }

    /// The lines of the ledger: each the job and the run that some worker began, or a job that was acknowledged.
    pub fn ledger_lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.ledger()).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// A child process, killed at the end whatever happens.
pub struct Process(Child);

impl Process {
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
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

/// The body of the worker processes. Every test program that starts some has a test of this name which calls it.
pub fn worker_process() {
    let Ok(url) = std::env::var("PUNCTUAL_TEST_STORE") else {
        println!("only for the processes that other tests start");
        return;
    };
    let lease = std::env::var("PUNCTUAL_TEST_LEASE_MS").unwrap().parse().unwrap();
    let ledger = Arc::new(Ledger::open(Path::new(&std::env::var("PUNCTUAL_TEST_LEDGER").unwrap())));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let punctual = Punctual::connect(&url).await.unwrap();
        let worker = Worker::builder(punctual)
            .handler("fast", move |ctx: Context| {
                ledger.write(&format!("{} {}\n", ctx.id(), ctx.claim().job.run));
                async { Ok(None) }
            })
            .handler("held", |_: Context| async {
                std::future::pending::<()>().await;
                Ok(None)
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

/// The body of processes that enqueue from many tasks, and put each job on the ledger once it is acknowledged.
pub fn enqueuer_process() {
    let Ok(url) = std::env::var("PUNCTUAL_TEST_STORE") else {
        println!("only for the processes that other tests start");
        return;
    };
    let ledger = Arc::new(Ledger::open(Path::new(&std::env::var("PUNCTUAL_TEST_LEDGER").unwrap())));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
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

/// An external record of what was run: one write a line, in append mode, so that lines of several processes never mix.
struct Ledger(Mutex<File>);

impl Ledger {
    fn open(path: &Path) -> Self {
        Self(Mutex::new(OpenOptions::new().create(true).append(true).open(path).unwrap()))
    }

    fn write(&self, line: &str) {
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

/// Jobs for the worker processes that may lose their worker often.
pub fn fast_jobs(count: usize) -> impl Iterator<Item = Draft> {
    (0..count).map(|number| Draft::new("fast", &number).max_attempts(1_000))
}

/// How many jobs have that status.
pub async fn count(punctual: &Punctual, status: Status) -> u64 {
    punctual.admin("test").overview().await.unwrap().jobs[&status]
}

/// Waits until `done` says so. Looks often, and gives up after two minutes with a message.
pub async fn until<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while !done().await {
        assert!(std::time::Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
