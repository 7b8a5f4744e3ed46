//! `punctual backup` and `punctual restore`.

use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::Value;

use crate::{
    moves::{contents, fill},
    shell::{Server, Shell, until},
};

/// Writes a file of jobs with a payload of about `bytes` each.
fn job_file(shell: &Shell, jobs: usize, bytes: usize) {
    let line = format!("{{\"name\": \"noop\", \"payload\": \"{}\"}}\n", "x".repeat(bytes));
    std::fs::write(shell.path("jobs.jsonl"), line.repeat(jobs)).unwrap();
}

/// The checks of the store's contents, all of which must pass.
fn assert_sound(shell: &Shell, store: &str) {
    let output = shell.run(&["doctor", "--json", "--store", store]).stdout;
    let diagnostics: Value = serde_json::from_slice(&output).unwrap();
    let checks = ["integrity", "counters", "indexes", "events"];
    let is_of_contents = |diagnostic: &&Value| checks.contains(&diagnostic["check"].as_str().unwrap());
    let found: Vec<&Value> = diagnostics["diagnostics"].as_array().unwrap().iter().filter(is_of_contents).collect();
    assert!(found.len() == checks.len() && found.iter().all(|found| found["ok"] == true), "{diagnostics}");
}

#[test]
fn a_restored_store_has_the_same_jobs_and_history() {
    let shell = Shell::new();
    fill(&shell);
    let output = shell.ok(&["backup", "copy.db"]);
    assert!(output.starts_with("copy.db: 7 jobs, 1 schedule, 1 workflow, 2 queues, 1 token; "), "{output}");
    let before = contents(&shell, "sqlite:punctual.db");
    // What happens later is not in the backup.
    shell.ok(&["enqueue", "noop"]);
    let output = shell.ok(&["restore", "copy.db", "--store", "sqlite:restored.db"]);
    assert!(output.starts_with("restored.db: 7 jobs, "), "{output}");
    for (there, here) in contents(&shell, "sqlite:restored.db").iter().zip(&before) {
        assert_eq!(there, here);
    }
    assert_sound(&shell, "sqlite:restored.db");
    // In place, and the store continues.
    let (code, output) = shell.fails(&["restore", "copy.db"]);
    assert!(code == 5 && output.contains("punctual.db is not empty: jobs 8"), "{output}");
    let restored = shell.json(&["restore", "copy.db", "--force"]);
    assert_eq!(restored["contents"]["jobs"], 7);
    assert_eq!(contents(&shell, "sqlite:punctual.db"), before);
    shell.ok(&["queues", "resume", "unserved"]);
    shell.ok(&["work", "--until-empty"]);
    assert_eq!(shell.json(&["workflows", "list"])["workflows"][0]["status"], "succeeded");
}

#[test]
fn a_backup_is_sound_although_jobs_are_enqueued_and_run_meanwhile() {
    let shell = Shell::new();
    job_file(&shell, 1_000, 2_000);
    shell.ok(&["enqueue", "--file", "jobs.jsonl"]);
    let _worker = Server::start(&shell, &["work"]);
    until("some are done", || shell.json(&["stats"])["jobs"]["succeeded"].as_u64() > Some(0));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let enqueued = scope.spawn(|| {
            let mut batches = 0;
            // Bounded, so that a failing test ends.
            while !is_over.load(Ordering::SeqCst) && batches < 100 {
                shell.ok(&["enqueue", "--file", "jobs.jsonl"]);
                batches += 1;
            }
            batches
        });
        for number in 0..3 {
            let (file, store) = (format!("copy{number}.db"), format!("sqlite:restored{number}.db"));
            let backup = shell.json(&["backup", &file]);
            assert!(!shell.path(&format!("{file}-wal")).exists(), "the backup is one file");
            let jobs = backup["contents"]["jobs"].as_u64().unwrap();
            assert!(jobs >= 1_000 && jobs.is_multiple_of(1_000), "a batch is complete or absent: {jobs}");
            shell.ok(&["restore", &file, "--store", &store]);
            assert_sound(&shell, &store);
        }
        is_over.store(true, Ordering::SeqCst);
        let jobs = (enqueued.join().unwrap() + 1) * 1_000;
        until("all are done", || shell.json(&["stats"])["jobs"]["succeeded"] == jobs);
    });
}

#[test]
fn a_job_that_ran_at_the_time_of_the_backup_runs_again() {
    let shell = Shell::new();
    let id = shell.ok(&["enqueue", "sleep", r#"{"ms": 600000}"#]).trim().to_owned();
    let worker = Server::start(&shell, &["work", "--lease", "3s"]);
    let status = || shell.json(&["jobs", "show", &id])["job"]["status"].clone();
    until("it runs", || status() == "processing");
    shell.ok(&["backup", "copy.db"]);
    let (code, output) = shell.fails(&["restore", "copy.db", "--force"]);
    assert!(code == 5 && output.contains("punctual.db is in use by another process"), "{output}");
    assert_eq!(status(), "processing", "the worker continues");
    drop(worker);
    let output = shell.ok(&["restore", "copy.db", "--force"]);
    assert!(output.contains("running at the time of the backup: 1; they run again"), "{output}");
    assert_eq!(status(), "processing");
    let _worker = Server::start(&shell, &["work"]);
    let attempts = || shell.json(&["jobs", "show", &id])["attempts"].as_array().unwrap().len();
    until("it runs again", || attempts() == 2);
}

#[test]
fn files_that_are_no_backups_and_targets_that_are_not_free_are_refused() {
    let shell = Shell::new();
    let refused = |args: &[&str], code: i32, message: &str| {
        let (actual, output) = shell.fails(args);
        assert!(actual == code && output.contains(message), "{args:?}: {actual} {output}");
    };
    refused(&["backup", "copy.db"], 3, "file punctual.db not found");
    assert!(!shell.path("punctual.db").exists() && !shell.path("copy.db").exists());
    shell.ok(&["enqueue", "noop"]);
    refused(&["backup", "-"], 2, "`-` is not supported");
    refused(&["backup", "punctual.db", "--force"], 5, "is both the store and the backup");
    refused(&["backup", "."], 5, "is a folder");
    refused(&["backup", "absent/copy.db"], 1, "absent/copy.db.partial");
    std::fs::write(shell.path("letter"), "dear aunt\n".repeat(1_000)).unwrap();
    refused(&["backup", "letter"], 5, "letter exists");
    refused(&["backup", "letter", "--force"], 5, "letter is damaged or not a SQLite file");
    assert!(std::fs::read_to_string(shell.path("letter")).unwrap().starts_with("dear aunt"));
    // An interrupted run has left something.
    std::fs::write(shell.path("copy.db.partial"), "half").unwrap();
    shell.ok(&["backup", "copy.db"]);
    refused(&["backup", "copy.db"], 5, "copy.db exists; replace it with --force");
    shell.ok(&["backup", "copy.db", "--force"]);
    assert!(!shell.path("copy.db.partial").exists());
    refused(&["restore", "-"], 2, "`-` is not supported");
    refused(&["restore", "absent.db", "--force"], 3, "file absent.db not found");
    refused(&["restore", "letter", "--force"], 4, "not a Punctual store");
    refused(&["restore", "copy.db", "--store", "sqlite:letter", "--force"], 5, "damaged or not a SQLite file");
    foreign_database(&shell.path("other.db"));
    refused(&["restore", "other.db", "--force"], 5, "other.db is not a Punctual store");
    refused(&["restore", "copy.db", "--store", "sqlite:other.db"], 5, "has the table orders of another program");
    // A store without contents is replaced.
    shell.ok(&["migrate", "--store", "sqlite:empty.db"]);
    shell.ok(&["restore", "copy.db", "--store", "sqlite:empty.db"]);
    assert_eq!(shell.json(&["stats", "--store", "sqlite:empty.db"])["jobs"]["queued"], 1);
    assert_eq!(shell.json(&["stats"])["jobs"]["queued"], 1);
}

fn foreign_database(path: &Path) {
    punctual::sqlite::rusqlite::Connection::open(path).unwrap().execute_batch("create table orders (id)").unwrap();
}

/// A limit on the file size simulates a full disk.
#[test]
fn a_disk_without_room_for_the_backup_leaves_the_earlier_one() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "noop"]);
    shell.ok(&["backup", "copy.db"]);
    job_file(&shell, 100, 50_000);
    shell.ok(&["enqueue", "--file", "jobs.jsonl"]);
    let program = env!("CARGO_BIN_EXE_punctual");
    let script = format!("trap '' XFSZ; ulimit -f 1000; exec {program} backup copy.db --force");
    let output = Command::new("bash").args(["-c", &script]).current_dir(shell.0.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && stderr.contains("disk"), "{stderr}");
    assert!(!shell.path("copy.db.partial").exists());
    assert_eq!(shell.json(&["restore", "copy.db", "--store", "sqlite:new.db"])["contents"]["jobs"], 1);
}

/// The commands that the refusals print are those of the manual.
#[test]
fn servers_are_refused_with_the_recipe_of_the_manual() {
    let shell = Shell::new();
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backups.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    for store in ["postgres://user:secret@host/app", "sqlserver://user:secret@host/app"] {
        for command in ["backup", "restore"] {
            let (code, output) = shell.fails(&[command, "copy.db", "--store", store]);
            assert!(code == 5 && !output.contains("secret"), "{output}");
            let recipe: Vec<&str> = output.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            assert_eq!(recipe.len(), 2, "{output}");
            assert!(recipe.iter().all(|line| manual.contains(line)), "{output}");
        }
    }
}
