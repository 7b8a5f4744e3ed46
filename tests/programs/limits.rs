//! Limits of programs, and the user that they run as.

use std::time::Duration;

use punctual::{Program, ProgramLimits, Status};
use punctual_tests::{TestStore, on_each_engine, processes_with, until};
use tokio::sync::Mutex;

use crate::bench::{Bench, code, error, mark, messages, once, other_user};

on_each_engine! {
    a_program_that_uses_too_much_is_killed_and_the_limit_is_named
    a_fork_bomb_stays_within_its_limit
    daemons_of_a_program_count_for_its_memory_limit
}

/// One test at a time: the kernel counts all processes of a user.
static BOMBS: Mutex<()> = Mutex::const_new(());

async fn a_fork_bomb_stays_within_its_limit(new_store: impl Fn() -> TestStore) {
    let _alone = BOMBS.lock().await;
    let mut program = Program::shell("bomb() { bomb | bomb & }; bomb; sleep 600");
    (program.limits.processes, program.user) = (Some(60), other_user());
    let mark = mark(&mut program);
    let bench = Bench::new(new_store(), program).await;
    let history = bench.run(once().timeout(Duration::from_secs(2))).await;
    assert_eq!(history.job.status, Status::Dead);
    assert!(messages(&history).iter().any(|line| line.contains("Cannot fork")), "{:?}", messages(&history));
    until("all of it to be gone", async || processes_with(&mark) == 0).await;
    bench.end().await;
}

async fn a_program_that_uses_too_much_is_killed_and_the_limit_is_named(new_store: impl Fn() -> TestStore) {
    let limited = |line: &str, set: fn(&mut Program)| {
        let mut program = Program::shell(line);
        set(&mut program);
        program
    };
    let cases = [
        // A shell that stores all its input in a variable.
        (
            limited("x=$(yes | head -c 200000000)", |it| it.limits.memory_bytes = Some(32 << 20)),
            "memory: the program and its descendants used ",
        ),
        (
            limited("while :; do :; done", |it| it.limits.cpu_time = Some(Duration::from_secs(1))),
            "cpu_time: it used more",
        ),
    ];
    for (mut program, expected) in cases {
        let mark = mark(&mut program);
        let bench = Bench::new(new_store(), program).await;
        let history = bench.run(once()).await;
        assert_eq!(
            (history.job.status, code(&history).as_str()),
            (Status::Dead, "PUNCTUAL_E_LIMIT"),
            "{}",
            error(&history)
        );
        assert!(error(&history).starts_with(expected), "{}", error(&history));
        until("all of it to be gone", async || processes_with(&mark) == 0).await;
        bench.end().await;
    }
    let bench = Bench::new(new_store(), limited("ulimit -n", |it| it.limits.open_files = Some(77))).await;
    assert_eq!(bench.run(once()).await.job.result_preview, Some(serde_json::json!(77)));
    bench.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_as_another_user_if_we_may() {
    let as_user_nobody = |line: &str| Program { user: Some("nobody".into()), ..Program::shell(line) };
    if other_user().is_none() {
        assert!(as_user_nobody("true").check().unwrap_err().to_string().contains("only root may"));
        return;
    }
    let bomb =
        Program { limits: ProgramLimits { processes: Some(5), ..ProgramLimits::default() }, ..Program::shell("true") };
    assert!(bomb.check().unwrap_err().to_string().starts_with("processes: requires a `user`"));
    let bench = Bench::new(TestStore::new(), as_user_nobody("id -Gn >&2; id -un")).await;
    let history = bench.run(once()).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!("nobody")));
    assert_eq!(messages(&history), ["nogroup"], "it has no group of ours");
    bench.end().await;
    let file = Program { result: punctual::ResultFrom::File, ..as_user_nobody("echo 5 > $PUNCTUAL_RESULT_FILE") };
    let bench = Bench::new(TestStore::new(), file).await;
    assert_eq!(bench.run(once()).await.job.result_preview, Some(serde_json::json!(5)));
    bench.end().await;
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let set = |change: fn(&mut Program)| {
        let mut program = Program::new(["true"]);
        change(&mut program);
        program.check().unwrap_err().to_string()
    };
    for (error, expected) in [
        (set(|it| it.command.clear()), "command: must not be empty"),
        (set(|it| it.directory = Some("/no/such/folder".into())), "directory: directory /no/such/folder not found"),
        (set(|it| it.user = Some("no-such-user".into())), "user: user `no-such-user` not found"),
        (set(|it| it.pool = Some(0)), "pool: must be between 1 and 1000"),
        (set(|it| it.jobs_per_process = Some(0)), "jobs_per_process: must be at least 1"),
        (set(|it| it.stop_grace = Duration::from_secs(60)), "stop_grace: must be at most 5s"),
        (set(|it| it.limits.memory_bytes = Some(5)), "memory: must be at least 1MiB"),
        (set(|it| (it.limits.processes, it.user) = (Some(0), other_user())), "processes: must be at least 1"),
        (
            set(|it| it.limits.cpu_time = Some(Duration::from_millis(1_500))),
            "cpu_time: must be a whole number of seconds",
        ),
        (set(|it| it.limits.open_files = Some(2)), "open_files: must be between 8 and"),
        (set(|it| drop(it.env.insert("A=B".into(), "x".into()))), "env: names must not be empty"),
        (set(|it| drop(it.env.insert("PUNCTUAL_X".into(), "x".into()))), "env: names that begin with PUNCTUAL_"),
    ] {
        assert!(error.starts_with(expected), "{error}");
    }
}

async fn daemons_of_a_program_count_for_its_memory_limit(new_store: impl Fn() -> TestStore) {
    let hog = "(setsid env -i sh -c 'x=$(yes | head -c 200000000); sleep 600' > /dev/null 2>&1 &); sleep 20";
    let limits = ProgramLimits { memory_bytes: Some(32 << 20), ..ProgramLimits::default() };
    let bench = Bench::new(new_store(), Program { limits, ..Program::shell(hog) }).await;
    let history = bench.run(once()).await;
    assert_eq!(
        (history.job.status, code(&history).as_str()),
        (Status::Dead, "PUNCTUAL_E_LIMIT"),
        "{}",
        error(&history)
    );
    bench.end().await;
}
