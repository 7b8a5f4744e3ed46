//! The program on a failing disk: a library makes SQLite's calls of `fsync` and `write` fail on demand.

use std::{fs::File, process::Stdio};

use punctual_servers::{DiskFault, FaultyDisk};
use serde_json::Value;

use crate::shell::{Server, Shell, get, until};

/// Starts the program with its folder on the faulty disk.
fn start(shell: &Shell, disk: &FaultyDisk, args: &[&str]) -> Server {
    let stderr = File::create(shell.path("stderr")).unwrap();
    let mut command = shell.command(args);
    command.envs(disk.variables(shell.0.path()).unwrap()).env("PUNCTUAL_LOG", "warn");
    Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap())
}

fn stderr(shell: &Shell) -> String {
    std::fs::read_to_string(shell.path("stderr")).unwrap()
}

fn is_ready(url: &str) -> bool {
    get(url, "/readyz").is_some_and(|(status, _)| status == 200)
}

/// Waits until the server is not ready for this reason.
fn until_not_ready(url: &str, reason: &str) {
    until(reason, || get(url, "/readyz").is_some_and(|(status, answer)| status == 503 && answer.contains(reason)));
}

fn status(shell: &Shell, id: &str) -> Value {
    shell.json(&["jobs", "show", id])["job"]["status"].clone()
}

#[test]
fn a_server_whose_disk_does_not_confirm_a_write_reports_why_and_ends_with_an_error() {
    let (shell, disk) = (Shell::new(), FaultyDisk::new().unwrap());
    for args in [["up"].as_slice(), &["serve", "--workers", "1"]] {
        let mut server = start(&shell, &disk, args);
        let url = server.url(&shell);
        until("it is ready", || is_ready(&url));
        disk.fail(DiskFault::Sync).unwrap();
        until_not_ready(&url, "did not confirm a write");
        let ended = server.0.wait().unwrap();
        disk.mend(DiskFault::Sync).unwrap();
        assert_eq!(ended.code(), Some(4), "{}", stderr(&shell));
        let stderr = stderr(&shell);
        let last = stderr.lines().last().unwrap();
        assert!(last.contains("punctual.db-wal: Input/output error") && last.contains("Check the disk"), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    // Restarted on a working disk, the program continues with what was acknowledged.
    shell.ok(&["enqueue", "noop"]);
    shell.ok(&["work", "--until-empty"]);
}

#[test]
fn a_worker_whose_disk_does_not_confirm_a_write_stops_its_handlers_and_ends_with_an_error() {
    let (shell, disk) = (Shell::new(), FaultyDisk::new().unwrap());
    let running = shell.ok(&["enqueue", "sleep", r#"{"ms": 600000}"#]).trim().to_owned();
    let mut worker = start(&shell, &disk, &["work"]);
    until("the job runs", || status(&shell, &running) == "processing");
    disk.fail(DiskFault::Sync).unwrap();
    // The job's end must be on the disk before it is acknowledged. Another process, on a working disk, enqueues the
    // job.
    shell.ok(&["enqueue", "noop"]);
    assert_eq!(worker.0.wait().unwrap().code(), Some(4), "{}", stderr(&shell));
    assert!(stderr(&shell).contains("did not confirm a write"), "{}", stderr(&shell));
}

#[test]
fn a_full_disk_is_waited_for() {
    let (shell, disk) = (Shell::new(), FaultyDisk::new().unwrap());
    let server = start(&shell, &disk, &["up"]);
    let url = server.url(&shell);
    until("it is ready", || is_ready(&url));
    disk.fail(DiskFault::Full).unwrap();
    until_not_ready(&url, "the store is full");
    let id = shell.ok(&["enqueue", "noop"]).trim().to_owned();
    assert_eq!(status(&shell, &id), "queued", "it cannot be claimed without a write");
    disk.mend(DiskFault::Full).unwrap();
    until("the job is done", || status(&shell, &id) == "succeeded");
    until("it is ready again", || is_ready(&url));
}
