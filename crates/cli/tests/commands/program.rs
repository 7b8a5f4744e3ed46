//! The demo, the help, the benchmarks, pipes.

use std::process::Stdio;

use crate::shell::Shell;

/// A child that is killed even if its test fails.
struct KilledAtTheEnd(std::process::Child);

impl Drop for KilledAtTheEnd {
    fn drop(&mut self) {
        // Errors are ignored: the child may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_demo_shows_jobs_succeeding_retrying_and_dying() {
    let shell = Shell::with_store();
    let up = shell.command(&["up", "--demo"]).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut up = KilledAtTheEnd(up);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let list = shell.json(&["jobs", "list", "--status", "dead"]);
        if list["jobs"].as_array().unwrap().len() == 3
            && shell.json(&["stats"])["jobs"]["succeeded"].as_u64() > Some(60)
        {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "the demo shows too little: {}", shell.json(&["stats"]));
        std::thread::yield_now();
    }
    let workers = shell.json(&["workers", "list"]);
    assert_eq!(workers["workers"].as_array().unwrap().len(), 1);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(up.0.id() as i32), nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(up.0.wait().unwrap().success(), "it stops gracefully");
    assert!(shell.json(&["workers", "list"])["workers"].as_array().unwrap().is_empty());
    assert_eq!(shell.json(&["stats"])["jobs"]["processing"], 0);
}

#[test]
fn help_shows_no_password() {
    let shell = Shell::new();
    for name in [
        "PUNCTUAL_STORE",
        "PUNCTUAL_DISPATCH",
        "PUNCTUAL_LOCKS",
        "PUNCTUAL_ALERT_URL",
        "PUNCTUAL_SERVER",
        "PUNCTUAL_TOKEN",
    ] {
        let mut command = shell.command(&["up", "--help"]);
        let output = command.env(name, "postgres://ada:opensesame@db/app").output().unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(stdout.contains(name) && !stdout.contains("opensesame"), "{stdout}");
    }
}

#[test]
fn every_command_explains_itself() {
    let shell = Shell::new();
    for command in [
        "up", "serve", "work", "enqueue", "jobs", "workers", "locks", "stats", "report", "cleanup", "migrate",
        "doctor", "health", "bench", "backup", "restore", "context", "config",
    ] {
        assert!(shell.ok(&[command, "--help"]).contains("Usage: punctual"), "{command}");
    }
    assert!(shell.ok(&["completions", "bash"]).contains("_punctual"));
    assert!(shell.json(&["migrate"])["version"].as_u64() > Some(0));
    assert_eq!(shell.json(&["cleanup"])["deleted"], 0);
    assert!(shell.json(&["locks", "list"])["locks"].as_array().unwrap().is_empty());
    assert!(shell.json(&["report", "stuck"])["jobs"].as_array().unwrap().is_empty());
    assert!(shell.json(&["report", "pending"])["pending"].as_array().unwrap().is_empty());
    assert!(shell.json(&["report", "durations"])["names"].as_array().unwrap().is_empty());
}

#[test]
fn every_command_has_a_manual_page() {
    let shell = Shell::new();
    shell.ok(&["man", "pages"]);
    let page = |name: &str| std::fs::read_to_string(shell.path("pages").join(name));
    for name in ["punctual.1", "punctual-serve.1", "punctual-jobs-list.1", "punctual-health.1"] {
        assert!(page(name).is_ok(), "{name}");
    }
    assert!(page("punctual-serve.1").unwrap().contains("PUNCTUAL_WORKERS"));
    assert!(page("punctual-man.1").is_err(), "it is for packages only");
}

#[test]
fn a_small_benchmark_runs_and_passes_its_own_check() {
    let shell = Shell::new();
    for (scenario, field) in [("lifecycle", "lifecycle_per_s"), ("single", "per_s_64"), ("pickup", "ms_p99")] {
        let result = shell.json(&["bench", scenario, "--jobs", "200"]);
        assert!(result[field].as_f64().unwrap() > 0.0, "{result}");
        assert_eq!(result["engine"], "sqlite");
    }
    let steady = shell.json(&["bench", "steady", "--seconds", "1"]);
    assert!(steady["per_s"].as_f64().unwrap() > 0.0);
    assert!(shell.json(&["bench", "report", "--jobs", "2000"])["ms"]["overview"].is_number());
    assert!(!shell.path("punctual.db").exists(), "it uses a store of its own");
}

/// As in `punctual stats | head -1`.
#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let shell = Shell::with_store();
    std::fs::write(shell.path("jobs.jsonl"), "{\"name\": \"noop\"}\n".repeat(3_000)).unwrap();
    for args in [
        vec!["stats"],
        vec!["stats", "--json"],
        vec!["jobs", "list"],
        vec!["enqueue", "noop"],
        vec!["enqueue", "--file", "jobs.jsonl"],
        vec!["completions", "bash"],
        vec!["completions", "fish", "--json"],
        vec!["--help"],
    ] {
        let mut child = shell.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before anything is written.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    }
    assert_eq!(shell.json(&["stats"])["jobs"]["queued"], 3_001, "all jobs of the file are enqueued");
    // A list longer than a page of the store is read page by page.
    let list = shell.json(&["jobs", "list", "--limit", "2500"]);
    assert!(list["jobs"].as_array().unwrap().len() == 2_500 && list["next"].is_string());
    assert_eq!(shell.ok(&["jobs", "list", "--limit", "9000"]).lines().count(), 3_002);
}

#[test]
fn tables_have_colours_only_where_they_are_wanted() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "noop"]);
    let list = |variables: &[(&str, &str)]| {
        let mut command = shell.command(&["jobs", "list"]);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(variables.iter().copied());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(!list(&[]).contains('\u{1b}'), "not a terminal");
    assert!(list(&[("CLICOLOR_FORCE", "1")]).contains('\u{1b}'));
    assert!(!list(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\u{1b}'));
}

/// Without a terminal nothing is cut, since other programs read it.
#[test]
fn odd_and_long_names_are_whole_and_aligned_in_a_pipe() {
    let shell = Shell::new();
    let long = "n".repeat(128);
    let names = ["{}", "{0:?} %s", "日本語", "שלום", &long];
    for name in names {
        shell.ok(&["enqueue", name, "--queue", name]);
    }
    for args in [["jobs", "list"].as_slice(), &["queues", "list"], &["stats"], &["report", "pending"]] {
        let table = shell.ok(args);
        assert!(names.iter().all(|name| table.contains(name)), "{args:?}: {table}");
    }
    for name in names {
        assert!(shell.ok(&["queues", "show", name]).starts_with(name), "{name}");
    }
}
