//! Programs that stay and run one job after the other.

use std::time::Duration;

use punctual::{Program, Status};
use punctual_tests::{TestStore, on_each_engine, processes_with, until};

use crate::bench::{Bench, doing, error, mark, messages, once};

on_each_engine! {
    a_pool_gives_many_jobs_to_few_processes
    a_process_of_a_pool_that_breaks_fails_its_job_and_no_other
    a_process_of_a_pool_is_stopped_with_its_job
    a_process_of_a_pool_that_speaks_without_a_job_is_replaced
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
