//! Programs as handlers: whatever they do, the job's history is complete and the worker is unharmed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use punctual::{
    AttemptStatus, Draft, JobId, Program, ProgramLimits, Punctual, RunningWorker, Status, Worker,
    admin::JobDetail,
    core::{LogLevel, limits},
};
use punctual_tests::{TestStore, on_each_engine, until};
use tokio::sync::Mutex;

on_each_engine! {
    a_program_succeeds_with_the_last_line_or_a_file
    each_exit_code_has_its_meaning
    a_program_gets_its_payload_and_nothing_of_it_is_seen_elsewhere
    a_program_that_ignores_its_timeout_is_killed_with_all_that_it_started
    a_cancelled_program_is_notified
    messages_of_programs_have_their_effect
    invalid_output_fails_the_attempt_and_is_shown
    a_program_that_uses_too_much_is_killed_and_the_limit_is_named
    a_fork_bomb_stays_within_its_limit
    a_pool_gives_many_jobs_to_few_processes
    a_process_of_a_pool_that_breaks_fails_its_job_and_no_other
    a_process_of_a_pool_is_stopped_with_its_job
    the_last_output_of_a_program_is_read_however_long_it_takes
    a_process_of_a_pool_that_speaks_without_a_job_is_replaced
    a_stopping_worker_lets_programs_put_their_things_away
    daemons_of_a_program_are_killed
    daemons_of_a_program_count_for_its_memory_limit
}

/// A worker that runs jobs named `x` with a program.
struct Bench {
    punctual: Punctual,
    worker: RunningWorker,
    _test_store: TestStore,
}

impl Bench {
    async fn new(test_store: TestStore, program: Program) -> Self {
        let punctual = test_store.connect().await;
        let worker = Worker::builder(punctual.clone()).handler("x", program.handler().unwrap()).concurrency(8);
        let worker = worker.handler("well", |_: punctual::Context| async { Ok(None) }).start().await.unwrap();
        Self { punctual, worker, _test_store: test_store }
    }

    async fn enqueue(&self, draft: Draft) -> JobId {
        self.punctual.enqueue(draft).await.unwrap().id
    }

    /// Runs a job to its end, and returns it with its history.
    async fn run(&self, draft: Draft) -> JobDetail {
        let id = self.enqueue(draft).await;
        self.punctual.wait(id, Duration::from_secs(240)).await.unwrap();
        self.history(id).await
    }

    async fn history(&self, id: JobId) -> JobDetail {
        self.punctual.admin("test").job(id).await.unwrap()
    }

    /// Asserts that the worker is unharmed.
    async fn end(self) {
        assert_eq!(self.run(Draft::new("well", &())).await.job.status, Status::Succeeded);
        self.worker.stop().await;
    }
}

fn once() -> Draft {
    Draft::new("x", &()).max_attempts(1)
}

/// A shell as a program: it executes the job's payload.
fn obedient() -> Program {
    Program::new(["sh", "-c", "read -r line; eval \"$(printf '%s' \"$line\" | sed 's/^\"//; s/\"$//')\""])
}

fn doing(what: &str) -> Draft {
    Draft::new("x", &what).max_attempts(1)
}

fn messages(history: &JobDetail) -> Vec<&str> {
    history.logs.iter().map(|line| line.message.as_str()).collect()
}

fn error(history: &JobDetail) -> String {
    history.job.error.as_ref().map(|fault| fault.message.clone()).unwrap_or_default()
}

fn code(history: &JobDetail) -> String {
    history.job.error.as_ref().and_then(|fault| fault.code.clone()).unwrap_or_default()
}

/// Number of processes with this variable in their environment.
fn processes_with(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = entries.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
    environments.filter(|all| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())).count()
}

/// Sets a variable that only processes of one test have.
fn mark(program: &mut Program) -> String {
    let value = format!("{:016x}", fastrand::u64(..));
    program.env.insert("MARK".into(), value.clone());
    format!("MARK={value}")
}

async fn a_program_succeeds_with_the_last_line_or_a_file(new_store: impl Fn() -> TestStore) {
    let bench = Bench::new(new_store(), obedient()).await;
    let history = bench.run(doing("echo one >&2; echo {}; echo; echo [1, 2]; echo")).await;
    assert_eq!(history.job.status, Status::Succeeded);
    assert_eq!(history.job.result_preview, Some(serde_json::json!([1, 2])));
    assert_eq!(messages(&history), ["one"]);
    let history = bench.run(doing("printf 'no JSON, no end'")).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!("no JSON, no end")));
    assert_eq!(bench.run(doing("true")).await.job.result_preview, None);
    bench.end().await;
    let file = Program { result: punctual::ResultFrom::File, ..obedient() };
    let bench = Bench::new(new_store(), file).await;
    let history = bench.run(doing("echo noise; echo 7 > $PUNCTUAL_RESULT_FILE")).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!(7)));
    assert_eq!(bench.run(doing("echo noise")).await.job.result_preview, None);
    bench.end().await;
}

async fn each_exit_code_has_its_meaning(new_store: impl Fn() -> TestStore) {
    let bench = Bench::new(new_store(), obedient()).await;
    let history = bench.run(doing("echo no luck >&2; exit 3")).await;
    assert_eq!(
        (history.job.status, error(&history).as_str()),
        (Status::Dead, "the program ended with exit status: 3: no luck")
    );
    let retry = doing("exit 3").max_attempts(2).retry(punctual::RetryPolicy::fixed(Duration::ZERO));
    let history = bench.run(retry).await;
    let statuses: Vec<_> = history.attempts.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [AttemptStatus::Failed; 2]);
    let history = bench.run(doing("exit 65").max_attempts(9)).await;
    assert_eq!((history.job.status, history.attempts.len()), (Status::Dead, 1), "trying again would not help");
    let history = bench.run(doing("kill -9 $$")).await;
    assert_eq!(error(&history), "the program ended with signal: 9 (SIGKILL)");
    let id = bench.enqueue(doing("exit 75")).await;
    until("the job to be snoozed", async || bench.history(id).await.job.status == Status::Scheduled).await;
    let history = bench.history(id).await;
    assert_eq!(history.attempts[0].status, AttemptStatus::Released);
    assert_eq!(history.job.attempt, 0, "it spent none");
    bench.end().await;
    let absent = Bench::new(new_store(), Program::new(["/no/such/program"])).await;
    let history = absent.run(once()).await;
    assert!(error(&history).contains("cannot start /no/such/program"), "{}", error(&history));
    absent.end().await;
}

async fn a_program_gets_its_payload_and_nothing_of_it_is_seen_elsewhere(new_store: impl Fn() -> TestStore) {
    let mut program = Program::new([
        "sh",
        "-c",
        "tr '\\0' '\\n' < /proc/self/environ >&2; cat; echo; tr '\\0' ' ' < /proc/self/cmdline >&2",
    ]);
    program.env.insert("NAMED".into(), "yes".into());
    let bench = Bench::new(new_store(), program).await;
    let history = bench.run(Draft::new("x", &"a secret").user("ada").correlation_id("order-7")).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!("a secret")));
    let lines = messages(&history);
    assert!(lines.iter().all(|line| !line.contains("secret")), "{lines:?}");
    let is_known = |line: &&&str| {
        ["PATH=", "NAMED=", "PUNCTUAL_", "PWD=", "SHLVL=", "_=", "OLDPWD=", "sh -c "]
            .iter()
            .any(|known| line.starts_with(known))
    };
    let unknown: Vec<_> = lines.iter().filter(|line| !is_known(line)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for expected in
        [format!("PUNCTUAL_JOB_ID={}", history.job.id), "PUNCTUAL_USER_ID=ada".into(), "PUNCTUAL_PROTOCOL=once".into()]
    {
        assert!(lines.contains(&expected.as_str()), "{expected}");
    }
    bench.end().await;
}

async fn a_program_that_ignores_its_timeout_is_killed_with_all_that_it_started(new_store: impl Fn() -> TestStore) {
    let mut program = obedient();
    let mark = mark(&mut program);
    program.stop_grace = Duration::from_millis(300);
    let bench = Bench::new(new_store(), program).await;
    let stubborn = "trap '' TERM; (trap '' TERM; sleep 600 & sleep 600 & wait) & echo here >&2; wait; sleep 600";
    let history = bench.run(doing(stubborn).timeout(Duration::from_secs(1))).await;
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

/// On one engine only: the engine does not see the lines that are cut.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_mebibytes_of_output_are_cut_and_counted() {
    let bench = Bench::new(TestStore::new(), obedient()).await;
    let errors = "yes this is a line of the log | head -c 104857600 >&2; echo 1";
    let history = bench.run(doing(errors)).await;
    assert_eq!(history.job.status, Status::Succeeded);
    until("the log to be whole", async || {
        let history = bench.history(history.job.id).await;
        history.logs.last().is_some_and(|line| line.message.contains("the log is full"))
    })
    .await;
    let history = bench.history(history.job.id).await;
    let kept = history.logs.len() - 1;
    let line = &history.logs[kept].message;
    let lines = 104_857_600_usize.div_ceil(26);
    assert!(kept < limits::LOG_MAX_LINES && line.contains(&format!("{} more lines", lines - kept)), "{kept}: {line}");
    let history = bench.run(doing("yes | head -c 104857600; echo; echo 2")).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!(2)), "{}", error(&history));
    let history = bench.run(doing("head -c 104857600 /dev/zero | tr '\\\\0' x")).await;
    assert!(error(&history).contains("the last line of the output has more than 1048576 bytes"), "{}", error(&history));
    bench.end().await;
}

async fn messages_of_programs_have_their_effect(new_store: impl Fn() -> TestStore) {
    let bench = Bench::new(new_store(), Program::new(["sh", "-c", SAYS])).await;
    let mut ada = bench.punctual.subscribe("ada", Some(0)).await.unwrap();
    let history = bench.run(once().log_level(LogLevel::Debug)).await;
    assert_eq!(history.job.status, Status::Succeeded);
    assert_eq!(history.job.result_preview, Some(serde_json::json!({"b": 1})));
    let progress = history.job.progress.clone().unwrap();
    assert_eq!((progress.percent, progress.message.as_deref()), (40.0, Some("halfway")));
    let lines: Vec<_> = history.logs.iter().map(|line| (line.level, line.message.as_str())).collect();
    assert_eq!(lines, [(LogLevel::Warn, "careful"), (LogLevel::Debug, "a detail")]);
    let (first, second) = (ada.next().await.unwrap(), ada.next().await.unwrap());
    assert_eq!((first.message.as_str(), first.job), (r#"{"ready": true}"#, Some(history.job.id)));
    assert_eq!((second.user_id, second.message.as_str()), (None, "null"));
    let history = bench.run(once()).await;
    assert_eq!(messages(&history), ["careful"], "details are kept only on request");
    bench.end().await;
    let fails = r#"echo '{"punctual": "fail", "error": "no such account", "retry": false}'"#;
    let bench = Bench::new(new_store(), Program::shell(fails)).await;
    let history = bench.run(once().max_attempts(5)).await;
    assert_eq!((history.attempts.len(), error(&history).as_str()), (1, "no such account"));
    bench.end().await;
}

const SAYS: &str = r#"
echo '{"punctual": "progress", "percent": 40, "message": "halfway"}'
echo '{"punctual": "log", "level": "warn", "message": "careful"}'
echo '{"punctual": "log", "level": "debug", "message": "a detail"}'
echo '{"punctual": "extend", "seconds": 60}'
echo '{"punctual": "notify", "user": "ada", "message": {"ready": true}}'
echo '{"punctual": "broadcast", "message": null}'
echo '{"punctual": "done", "result": {"b": 1}}'
"#;

async fn invalid_output_fails_the_attempt_and_is_shown(new_store: impl Fn() -> TestStore) {
    for pool in [None, Some(1)] {
        let wrong = r#"read line; echo '{"punctual": "done", "result": [1, 2'; exec 1>&-; cat > /dev/null"#;
        let bench = Bench::new(new_store(), Program { pool, ..Program::shell(wrong) }).await;
        let history = bench.run(once()).await;
        assert_eq!(history.job.status, Status::Dead);
        assert!(
            error(&history).contains("invalid message from the program") && error(&history).contains("[1, 2"),
            "{}",
            error(&history)
        );
        bench.end().await;
    }
}

/// The limit on processes does not apply to root, so tests run as root need another user.
fn other_user() -> Option<String> {
    nix::unistd::geteuid().is_root().then(|| "nobody".to_owned())
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

/// Answers each job with its own process id, and the number of jobs that it has had.
const COUNTS: &str = r#"
n=0
while read -r line; do
    n=$((n + 1))
    echo "job $n" >&2
    echo "{\"punctual\": \"done\", \"result\": [$$, $n]}"
done"#;

async fn a_pool_gives_many_jobs_to_few_processes(new_store: impl Fn() -> TestStore) {
    let pool = Program { pool: Some(2), jobs_per_process: Some(10), ..Program::shell(COUNTS) };
    let bench = Bench::new(new_store(), pool).await;
    let ids = bench.punctual.enqueue_all((0..60).map(|_| once())).await.unwrap();
    let mut answers = Vec::new();
    for job in ids {
        let job = bench.punctual.wait(job.id, Duration::from_secs(60)).await.unwrap();
        assert_eq!(job.status, Status::Succeeded);
        let (process, number): (u32, u64) = job.result.unwrap().read().unwrap();
        let history = bench.history(job.id).await;
        assert_eq!(messages(&history), [format!("job {number}")], "each has the lines that were written for it");
        answers.push((process, number));
    }
    answers.sort_unstable();
    answers.dedup();
    assert_eq!(answers.len(), 60, "no job was answered twice");
    assert!(answers.iter().all(|(_, number)| *number <= 10), "{answers:?}");
    let processes = answers.iter().filter(|(_, number)| *number == 1).count();
    assert!((6..=8).contains(&processes), "{processes} processes");
    bench.end().await;
}

async fn a_process_of_a_pool_that_breaks_fails_its_job_and_no_other(new_store: impl Fn() -> TestStore) {
    // Quoted, since an id may contain the letters of a word.
    let breaks = r#"
while read -r line; do
    case $line in
        *'"die"'*) echo oh no >&2; exit 3 ;;
        *'"half"'*) printf '{"punctual": "do'; exit 0 ;;
        *'"bad"'*) exit 65 ;;
        *'"noise"'*) echo just some text; echo '{"punctual": "done", "result": "well"}' ;;
        *'"leave"'*) echo '{"punctual": "done"}'; exit 0 ;;
        *) echo '{"punctual": "done", "result": "well"}' ;;
    esac
done"#;
    let bench = Bench::new(new_store(), Program { pool: Some(1), ..Program::shell(breaks) }).await;
    for (what, expected) in [
        ("die", "the program ended with exit status: 3: oh no"),
        ("half", "invalid message from the program"),
        ("bad", "the program ended with exit status: 65"),
    ] {
        let history = bench.run(doing(what)).await;
        assert!(error(&history).starts_with(expected), "{what}: {}", error(&history));
        assert_eq!(bench.run(doing("go on")).await.job.result_preview, Some(serde_json::json!("well")));
    }
    assert_eq!(messages(&bench.run(doing("noise")).await), ["just some text"]);
    for _ in 0..5 {
        let left = bench.run(doing("leave")).await.job;
        assert_eq!(left.status, Status::Succeeded, "{:?}", left.error);
        // It may receive the next job at the moment at which it exits.
        let next = doing("go on").max_attempts(3).retry(punctual::RetryPolicy::fixed(Duration::ZERO));
        let next = bench.run(next).await.job;
        assert_eq!(next.status, Status::Succeeded, "{:?}", next.error);
    }
    bench.end().await;
}

async fn a_process_of_a_pool_is_stopped_with_its_job(new_store: impl Fn() -> TestStore) {
    let waits = r#"
while read -r line; do
    case $line in
        *hang*) sleep 600 & wait ;;
    esac
    echo '{"punctual": "done"}'
done"#;
    let mut program = Program { pool: Some(1), ..Program::shell(waits) };
    let mark = mark(&mut program);
    let bench = Bench::new(new_store(), program).await;
    let hangs = bench.enqueue(doing("hang").timeout(Duration::from_millis(500))).await;
    let waits = bench.enqueue(doing("quick")).await;
    let hung = bench.punctual.wait(hangs, Duration::from_secs(60)).await.unwrap();
    assert_eq!(hung.error.unwrap().code.as_deref(), Some("PUNCTUAL_E_TIMEOUT"));
    assert_eq!(bench.punctual.wait(waits, Duration::from_secs(60)).await.unwrap().status, Status::Succeeded);
    bench.end().await;
    until("all processes to be gone", async || processes_with(&mark) == 0).await;
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

/// Writes more than can be stored in the time for which an open pipe is waited for.
const TALKS: &str = r#"
i=0
while [ $i -lt 3000 ]; do echo '{"punctual": "broadcast", "message": 1}'; i=$((i + 1)); done
echo '{"punctual": "done", "result": "last"}'"#;

async fn the_last_output_of_a_program_is_read_however_long_it_takes(new_store: impl Fn() -> TestStore) {
    let bench = Bench::new(new_store(), Program::shell(TALKS)).await;
    let history = bench.run(once()).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!("last")));
    assert_eq!(bench.punctual.store().last_notification().await.unwrap(), 3_000);
    bench.end().await;
}

async fn a_process_of_a_pool_that_speaks_without_a_job_is_replaced(new_store: impl Fn() -> TestStore) {
    // Both in one write: a second message that arrives after the next job was sent could not be distinguished from its
    // answer.
    let twice = r#"while read -r line; do printf '{"punctual": "done", "result": 1}\n{"punctual": "done", "result": 2}\n'; done"#;
    let bench = Bench::new(new_store(), Program { pool: Some(1), ..Program::shell(twice) }).await;
    for _ in 0..5 {
        assert_eq!(
            bench.run(once()).await.job.result_preview,
            Some(serde_json::json!(1)),
            "not that of the job before"
        );
    }
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

/// Number of processes with this argument.
fn processes_called(argument: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    commands.filter(|all| all.split(|byte| *byte == 0).any(|one| one == argument.as_bytes())).count()
}

async fn daemons_of_a_program_are_killed(new_store: impl Fn() -> TestStore) {
    let mut program = obedient();
    program.stop_grace = Duration::from_millis(300);
    let bench = Bench::new(new_store(), program).await;
    let seconds = format!("600.{}", fastrand::u32(..));
    let daemonise = daemonise(&seconds);
    let history = bench.run(doing(&format!("{daemonise}; echo 1"))).await;
    assert_eq!((history.job.status, processes_called(&seconds)), (Status::Succeeded, 0));
    let endless = || doing(&format!("{daemonise}; echo here >&2; sleep 600"));
    let history = bench.run(endless().timeout(Duration::from_secs(5))).await;
    assert_eq!((history.attempts[0].status, messages(&history)), (AttemptStatus::TimedOut, vec!["here"]));
    assert_eq!(processes_called(&seconds), 0);
    let id = bench.enqueue(endless()).await;
    until("the program to run", async || messages(&bench.history(id).await) == ["here"]).await;
    assert_eq!(processes_called(&seconds), 1);
    bench.punctual.admin("test").cancel(id, None).await.unwrap();
    until("all of it to be gone", async || processes_called(&seconds) == 0).await;
    bench.end().await;
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
