//! What programs are given, and what becomes of their output and exit code.

use std::time::Duration;

use punctual::{
    AttemptStatus, Draft, Program, Status,
    core::{LogLevel, limits},
};
use punctual_tests::{TestStore, on_each_engine, until};

use crate::bench::{Bench, doing, error, messages, obedient, once};

on_each_engine! {
    a_program_succeeds_with_the_last_line_or_a_file
    each_exit_code_has_its_meaning
    a_program_gets_its_payload_and_nothing_of_it_is_seen_elsewhere
    messages_of_programs_have_their_effect
    invalid_output_fails_the_attempt_and_is_shown
    the_last_output_of_a_program_is_read_however_long_it_takes
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

/// On one engine only: the engine does not see the lines that are cut.
#[tokio::test(flavor = "multi_thread")]
async fn much_output_is_cut_and_counted() {
    const BYTES: usize = 20 << 20;
    let bench = Bench::new(TestStore::new(), obedient()).await;
    let errors = format!("yes this is a line of the log | head -c {BYTES} >&2; echo 1");
    let history = bench.run(doing(&errors)).await;
    assert_eq!(history.job.status, Status::Succeeded);
    until("the log to be whole", async || {
        let history = bench.history(history.job.id).await;
        history.logs.last().is_some_and(|line| line.message.contains("the log is full"))
    })
    .await;
    let history = bench.history(history.job.id).await;
    let kept = history.logs.len() - 1;
    let line = &history.logs[kept].message;
    let lines = BYTES.div_ceil(26);
    assert!(kept < limits::LOG_MAX_LINES && line.contains(&format!("{} more lines", lines - kept)), "{kept}: {line}");
    let history = bench.run(doing(&format!("yes | head -c {BYTES}; echo; echo 2"))).await;
    assert_eq!(history.job.result_preview, Some(serde_json::json!(2)), "{}", error(&history));
    let history = bench.run(doing(&format!("head -c {BYTES} /dev/zero | tr '\\0' x"))).await;
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
