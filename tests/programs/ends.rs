//! Programs that are stopped, with all that they have started.

use std::time::Duration;

use punctual::{AttemptStatus, Program, Status, Worker};
use punctual_tests::{TestStore, on_each_engine, processes_called, processes_with, until};

use crate::bench::{Bench, code, doing, mark, messages, obedient, once};

on_each_engine! {
    a_program_that_ignores_its_timeout_is_killed_with_all_that_it_started
    a_cancelled_program_is_notified
    a_stopping_worker_lets_programs_put_their_things_away
    daemons_of_a_program_are_killed
}

async fn a_program_that_ignores_its_timeout_is_killed_with_all_that_it_started(new_store: impl Fn() -> TestStore) {
    let mut program = obedient();
    let mark = mark(&mut program);
    program.stop_grace = Duration::from_millis(300);
    let bench = Bench::new(new_store(), program).await;
    let stubborn = "trap '' TERM; (trap '' TERM; sleep 600 & sleep 600 & wait) & echo here >&2; wait; sleep 600";
    let history = bench.run(doing(stubborn).timeout(Duration::from_secs(3))).await;
    assert_eq!((history.job.status, code(&history).as_str()), (Status::Dead, "PUNCTUAL_E_TIMEOUT"));
    assert_eq!(history.attempts[0].status, AttemptStatus::TimedOut);
    assert_eq!(messages(&history), ["here"]);
    until("all of it to be gone", async || processes_with(&mark) == 0).await;
    // Processes that it leaves behind are ended with it, and do not delay the end of the job.
    let history = bench.run(doing("sleep 600 & echo done")).await;
    assert_eq!(history.job.status, Status::Succeeded);
    until("what was left to be gone", async || processes_with(&mark) == 0).await;
    bench.end().await;
}

async fn a_cancelled_program_is_notified(new_store: impl Fn() -> TestStore) {
    let mut program = obedient();
    let mark = mark(&mut program);
    let bench = Bench::new(new_store(), program).await;
    let id = bench.enqueue(doing("trap 'echo bye >&2; exit' TERM; echo here >&2; sleep 600 & wait")).await;
    until("the program to run", async || messages(&bench.history(id).await) == ["here"]).await;
    bench.punctual.admin("test").cancel(id, None).await.unwrap();
    until("its last output", async || messages(&bench.history(id).await) == ["here", "bye"]).await;
    assert_eq!(bench.history(id).await.job.status, Status::Cancelled);
    until("all of it to be gone", async || processes_with(&mark) == 0).await;
    bench.end().await;
}

async fn a_stopping_worker_lets_programs_put_their_things_away(new_store: impl Fn() -> TestStore) {
    let folder = tempfile::tempdir().unwrap();
    let line = "trap 'sleep 1; echo tidy > tidied; exit' TERM; echo here >&2; sleep 600 & wait";
    let program = Program { directory: Some(folder.path().to_owned()), ..Program::shell(line) };
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let worker = Worker::builder(punctual.clone()).handler("x", program.handler().unwrap());
    let worker = worker.drain_timeout(Duration::ZERO).start().await.unwrap();
    let job = punctual.enqueue(once().max_attempts(2)).await.unwrap().id;
    let admin = punctual.admin("test");
    until("the program to run", async || !admin.job(job).await.unwrap().logs.is_empty()).await;
    worker.stop().await;
    assert!(folder.path().join("tidied").exists());
    assert_eq!(punctual.job(job).await.unwrap().status, Status::Queued);
}

/// A command that starts a process detached from its parent, group, session and environment, which only its own
/// arguments identify.
fn daemonise(seconds: &str) -> String {
    format!(
        "(setsid env -i sleep {seconds} < /dev/null > /dev/null 2>&1 &); while ! pgrep -f '[s]leep {seconds}' > /dev/null; do sleep 0.01; done"
    )
}

async fn daemons_of_a_program_are_killed(new_store: impl Fn() -> TestStore) {
    let mut program = obedient();
    program.stop_grace = Duration::from_millis(300);
    let bench = Bench::new(new_store(), program).await;
    let seconds = format!("600.{}", fastrand::u32(..));
    let daemonise = daemonise(&seconds);
    let history = bench.run(doing(&format!("{daemonise}; echo 1"))).await;
    assert_eq!(history.job.status, Status::Succeeded);
    assert!(processes_called(&seconds).is_empty());
    let endless = || doing(&format!("{daemonise}; echo here >&2; sleep 600"));
    let history = bench.run(endless().timeout(Duration::from_secs(5))).await;
    assert_eq!((history.attempts[0].status, messages(&history)), (AttemptStatus::TimedOut, vec!["here"]));
    assert!(processes_called(&seconds).is_empty());
    let id = bench.enqueue(endless()).await;
    until("the program to run", async || messages(&bench.history(id).await) == ["here"]).await;
    assert_eq!(processes_called(&seconds).len(), 1);
    bench.punctual.admin("test").cancel(id, None).await.unwrap();
    until("all of it to be gone", async || processes_called(&seconds).is_empty()).await;
    bench.end().await;
}
