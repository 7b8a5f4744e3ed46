//! Another program holds SQLite's write lock for longer than a lease.

use std::{fs::File, process::Stdio, time::Duration};

use punctual::sqlite::rusqlite::Connection;
use serde_json::Value;

use crate::shell::{Server, Shell, until};

fn worker(shell: &Shell) -> Server {
    let output = File::options().create(true).append(true).open(shell.path("stderr")).unwrap();
    let mut command = shell.command(&["work", "--lease", "3s", "--concurrency", "4"]);
    command.env("PUNCTUAL_LOG", "warn");
    Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn().unwrap())
}

fn enqueue(shell: &Shell, jobs: usize, ms: u64) -> Vec<String> {
    let payload = format!(r#"{{"ms": {ms}}}"#);
    (0..jobs).map(|_| shell.ok(&["enqueue", "sleep", &payload]).trim().to_owned()).collect()
}

fn show(shell: &Shell, id: &str) -> Value {
    shell.json(&["jobs", "show", id])
}

fn all_are(shell: &Shell, ids: &[String], status: &str) -> bool {
    ids.iter().all(|id| show(shell, id)["job"]["status"] == status)
}

#[test]
fn a_store_that_another_program_keeps_locked_costs_no_job_its_lease() {
    let shell = Shell::new();
    let ids = enqueue(&shell, 8, 14_000);
    let (one, _other) = (worker(&shell), worker(&shell));
    until("all run", || all_are(&shell, &ids, "processing"));
    let outside = Connection::open(shell.path("punctual.db")).unwrap();
    outside.busy_timeout(Duration::from_secs(60)).unwrap();
    outside.execute_batch("begin immediate").unwrap();
    // Meanwhile every lease renewal of both processes waits.
    let held = "select count(*) from punctual_running where lease_until > unixepoch('subsec') * 1000000";
    until("all leases run out", || outside.query_row(held, [], |row| row.get::<_, u64>(0)).unwrap() == 0);
    outside.execute_batch("rollback").unwrap();
    until("all are done", || all_are(&shell, &ids, "succeeded"));
    let output = std::fs::read_to_string(shell.path("stderr")).unwrap();
    for id in &ids {
        let job = show(&shell, id);
        assert_eq!(job["attempts"].as_array().unwrap().len(), 1, "{job:#}\n{output}");
        assert_eq!(job["job"]["crash_count"], 0, "{job:#}");
    }
    // A worker that was killed is still detected.
    let ids = enqueue(&shell, 6, 600_000);
    until("all run", || all_are(&shell, &ids, "processing"));
    drop(one);
    // The other worker may have no free slot.
    let _third = worker(&shell);
    let is_taken = |id: &String| show(&shell, id)["attempts"].as_array().unwrap().len() == 2;
    until("another takes a job of the dead one", || ids.iter().any(is_taken));
}
