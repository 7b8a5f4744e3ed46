//! A worker that runs a program, and what its jobs leave behind.

use std::time::Duration;

use punctual::{Draft, JobId, Program, Punctual, RunningWorker, Status, Worker, admin::JobDetail};
use punctual_tests::TestStore;

/// A worker that runs jobs named `x` with a program.
pub(crate) struct Bench {
    pub(crate) punctual: Punctual,
    pub(crate) worker: RunningWorker,
    _test_store: TestStore,
}

impl Bench {
    pub(crate) async fn new(test_store: TestStore, program: Program) -> Self {
        let punctual = test_store.connect().await;
        let worker = Worker::builder(punctual.clone()).handler("x", program.handler().unwrap()).concurrency(8);
        let worker = worker.handler("well", |_: punctual::Context| async { Ok(None) }).start().await.unwrap();
        Self { punctual, worker, _test_store: test_store }
    }

    pub(crate) async fn enqueue(&self, draft: Draft) -> JobId {
        self.punctual.enqueue(draft).await.unwrap().id
    }

    /// Runs a job to its end, and returns it with its history.
    pub(crate) async fn run(&self, draft: Draft) -> JobDetail {
        let id = self.enqueue(draft).await;
        self.punctual.wait(id, Duration::from_secs(240)).await.unwrap();
        self.history(id).await
    }

    pub(crate) async fn history(&self, id: JobId) -> JobDetail {
        self.punctual.admin("test").job(id).await.unwrap()
    }

    /// Asserts that the worker is unharmed.
    pub(crate) async fn end(self) {
        assert_eq!(self.run(Draft::new("well", &())).await.job.status, Status::Succeeded);
        self.worker.stop().await;
    }
}

pub(crate) fn once() -> Draft {
    Draft::new("x", &()).max_attempts(1)
}

/// A shell as a program: it executes the job's payload.
pub(crate) fn obedient() -> Program {
    Program::new(["sh", "-c", "read -r line; eval \"$(printf '%s' \"$line\" | sed 's/^\"//; s/\"$//')\""])
}

pub(crate) fn doing(what: &str) -> Draft {
    Draft::new("x", &what).max_attempts(1)
}

pub(crate) fn messages(history: &JobDetail) -> Vec<&str> {
    history.logs.iter().map(|line| line.message.as_str()).collect()
}

pub(crate) fn error(history: &JobDetail) -> String {
    history.job.error.as_ref().map(|fault| fault.message.clone()).unwrap_or_default()
}

pub(crate) fn code(history: &JobDetail) -> String {
    history.job.error.as_ref().and_then(|fault| fault.code.clone()).unwrap_or_default()
}

/// Sets a variable that only processes of one test have.
pub(crate) fn mark(program: &mut Program) -> String {
    let value = format!("{:016x}", fastrand::u64(..));
    program.env.insert("MARK".into(), value.clone());
    format!("MARK={value}")
}

/// The limit on processes does not apply to root, so tests run as root need another user.
pub(crate) fn other_user() -> Option<String> {
    nix::unistd::geteuid().is_root().then(|| "nobody".to_owned())
}
