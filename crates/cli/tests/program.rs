//! The program as users run it: a real process, real files, real exit codes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod shell;

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use shell::Shell;

#[test]
fn a_newcomer_enqueues_works_and_reads_the_history() {
    let shell = Shell::new();
    let id = shell.ok(&[
        "enqueue",
        "echo",
        r#"{"hello": "world", "password": "hunter2"}"#,
        "--tag",
        "first",
        "--user",
        "ada",
    ]);
    let id = id.trim();
    shell.ok(&["work", "--until-empty"]);
    let history = shell.json(&["jobs", "show", id]);
    assert_eq!(history["job"]["status"], "succeeded");
    assert_eq!(history["job"]["payload_preview"]["password"], "[redacted]");
    assert_eq!(history["job"]["result_preview"]["password"], "[redacted]");
    assert_eq!(history["attempts"][0]["status"], "succeeded");
    let events: Vec<_> =
        history["events"].as_array().unwrap().iter().map(|event| event["status"].as_str().unwrap()).collect();
    assert_eq!(events, ["queued", "processing", "succeeded"]);
    let text = shell.ok(&["jobs", "show", id]);
    assert!(text.contains("Succeeded") && text.contains("Events") && !text.contains("hunter2"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours when piped");
    let stats = shell.json(&["stats"]);
    assert_eq!(stats["jobs"]["succeeded"], 1);
    assert_eq!(stats["jobs"]["dead"], 0);
    assert_eq!(stats["queues"]["default"]["succeeded"], 1);
}

#[test]
fn failing_jobs_retry_die_and_are_retried_by_hand() {
    let shell = Shell::new();
    let dead = shell.ok(&[
        "enqueue",
        "fail",
        r#"{"message": "no such account"}"#,
        "--retry",
        "fixed:0s",
        "--max-attempts",
        "2",
    ]);
    let recovers = shell.ok(&["enqueue", "fail", r#"{"times": 1}"#, "--retry", "fixed:0s"]);
    shell.ok(&["work", "--until-empty"]);
    let list = shell.json(&["jobs", "list", "--status", "dead"]);
    assert_eq!(list["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(list["jobs"][0]["id"], dead.trim());
    assert_eq!(list["next"], Value::Null);
    let history = shell.json(&["jobs", "show", dead.trim()]);
    assert_eq!(history["attempts"].as_array().unwrap().len(), 2);
    assert_eq!(history["attempts"][1]["error"]["message"], "no such account");
    assert_eq!(history["logs"].as_array().unwrap().len(), 2);
    assert_eq!(shell.json(&["jobs", "show", recovers.trim()])["job"]["attempt"], 2);
    assert_eq!(shell.json(&["report", "failures"])["by_name"][0]["count"], 1);
    let success = shell.json(&["report", "success"]);
    assert_eq!(success["names"][0]["success_percent"], 50.0);
    shell.ok(&["jobs", "retry", dead.trim()]);
    assert_eq!(shell.json(&["jobs", "show", dead.trim()])["job"]["status"], "queued");
    let actor =
        shell.json(&["jobs", "show", dead.trim()])["events"].as_array().unwrap().last().unwrap()["actor"].clone();
    assert!(actor.as_str().unwrap().starts_with("cli"));
    // Refused: a succeeded job cannot be retried; enqueue a copy instead.
    let (code, stderr) = shell.fails(&["jobs", "retry", recovers.trim()]);
    assert!(code == 5 && stderr.contains("is succeeded and cannot become queued"), "{code} {stderr}");
    let again = shell.ok(&["jobs", "run", recovers.trim()]);
    assert!(again.contains("enqueued again as job_"), "{again}");
}

#[test]
fn a_file_of_jobs_is_enqueued_whole_or_not_at_all() {
    let shell = Shell::new();
    let good = "{\"name\": \"noop\", \"payload\": 1, \"priority\": 9, \"in\": \"1h\", \"tags\": [\"a\"]}\n\n{\"name\": \"noop\"}\n";
    std::fs::write(shell.path("jobs.jsonl"), good).unwrap();
    assert_eq!(shell.ok(&["enqueue", "--file", "jobs.jsonl"]).lines().count(), 2);
    for (bad, problem) in [
        ("{\"name\": \"noop\"}\n{\"name\": \"\"}\n", "line 2"),
        ("{\"name\": \"noop\"}\nnonsense\n", "line 2"),
        ("{\"name\": \"noop\", \"prioritiy\": 1}\n", "unknown field"),
        ("{\"name\": \"noop\", \"priority\": -1}\n", "priority"),
    ] {
        std::fs::write(shell.path("bad.jsonl"), bad).unwrap();
        let (code, stderr) = shell.fails(&["enqueue", "--file", "bad.jsonl"]);
        assert!(code == 2 && stderr.contains(problem) && stderr.contains("nothing was enqueued"), "{code} {stderr}");
    }
    let mut child =
        shell.command(&["enqueue", "--file", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"name\": \"echo\"}\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let stats = shell.json(&["stats"]);
    assert_eq!((&stats["jobs"]["queued"], &stats["jobs"]["scheduled"]), (&2.into(), &1.into()));
}

#[test]
fn bulk_actions_show_what_they_would_change_and_need_confirmation() {
    let shell = Shell::new();
    for queue in ["a", "a", "b"] {
        shell.ok(&["enqueue", "noop", "--queue", queue]);
    }
    let preview = shell.json(&["jobs", "cancel", "--queue", "a", "--dry-run"]);
    assert_eq!(preview["count"], 2);
    let (code, stderr) = shell.fails(&["jobs", "cancel", "--queue", "a"]);
    assert!(code == 2 && stderr.contains("would change 2 jobs; confirm with --yes"), "{stderr}");
    assert_eq!(shell.json(&["jobs", "cancel", "--queue", "a", "--yes"])["changed"], 2);
    assert_eq!(shell.json(&["stats"])["jobs"]["cancelled"], 2);
    let (code, stderr) = shell.fails(&["jobs", "retry", "--status", "queued", "--yes"]);
    assert!(code == 2 && stderr.contains("retry applies only to jobs that are dead, retrying"), "{stderr}");
}

/// Every kind of invalid input: accepted, or refused with the field and the limit, and nothing is stored.
#[test]
fn bad_input_is_refused_with_the_field_and_the_limit() {
    let shell = Shell::new();
    let (long_name, long_key) = ("n".repeat(129), "k".repeat(513));
    // From a file, since no command line is long enough for it.
    std::fs::write(
        shell.path("large.jsonl"),
        format!("{{\"name\": \"noop\", \"payload\": \"{}\"}}\n", "x".repeat(1 << 20)),
    )
    .unwrap();
    std::fs::write(shell.path("nul.jsonl"), "{\"name\": \"a\\u0000b\"}\n").unwrap();
    std::fs::write(
        shell.path("deep.jsonl"),
        format!("{{\"name\": \"x\", \"payload\": {}1{}}}\n", "[".repeat(101), "]".repeat(101)),
    )
    .unwrap();
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["enqueue", "noop", "{nonsense"], 2, "payload: is not JSON"),
        (vec!["enqueue", "noop", "{'a': 1}"], 2, "payload: is not JSON"),
        (vec!["enqueue", "--file", "large.jsonl"], 2, "payload: 1048578 bytes, at most 1048576 are allowed"),
        (vec!["enqueue", "--file", "deep.jsonl"], 2, "payload: 101 levels of nesting, at most 100 are allowed"),
        (vec!["enqueue", "--file", "nul.jsonl"], 2, "name: contains the control character U+0000"),
        (vec!["enqueue", "--file", "absent.jsonl"], 2, "cannot read absent.jsonl"),
        (vec!["enqueue", ""], 2, "name: must not be empty"),
        (vec!["enqueue", " padded "], 2, "name: begins or ends with white space"),
        (vec!["enqueue", "two\nlines"], 2, "name: contains the control character U+000A"),
        (vec!["enqueue", &long_name], 2, "name: 129 characters, at most 128 are allowed"),
        (vec!["enqueue", "noop", "--key", &long_key], 2, "unique_key: 513 characters, at most 512 are allowed"),
        (vec!["enqueue", "noop", "--key", ""], 2, "unique_key: must not be empty"),
        (vec!["enqueue", "noop", "--queue", ""], 2, "queue: must not be empty"),
        (vec!["enqueue", "noop", "--priority", "-1"], 2, "priority: must be between 0 and 10, not -1"),
        (vec!["enqueue", "noop", "--priority", "11"], 2, "priority: must be between 0 and 10, not 11"),
        (vec!["enqueue", "noop", "--max-attempts", "0"], 2, "max_attempts: must be between 1 and 1000, not 0"),
        (vec!["enqueue", "noop", "--max-attempts", "-3"], 2, "max_attempts: must be between 0 and 1000, not -3"),
        (vec!["enqueue", "noop", "--timeout", "0s"], 2, "timeout: must be between 1ms and 7d, not 0s"),
        (vec!["enqueue", "noop", "--timeout", "soon"], 2, "invalid duration `soon`"),
        (vec!["enqueue", "noop", "--in", "-5m"], 2, "invalid duration `-5m`"),
        (vec!["enqueue", "noop", "--at", "tomorrow"], 2, "between 1970 and 9999"),
        (vec!["enqueue", "noop", "--at", "0001-01-01T00:00:00Z"], 2, "between 1970 and 9999"),
        (vec!["enqueue", "noop", "--at", "99999-01-01T00:00:00Z"], 2, "between 1970 and 9999"),
        (vec!["enqueue", "noop", "--at", "2026-02-30 12:00"], 2, "between 1970 and 9999"),
        (vec!["enqueue", "noop", "--retry", "sometimes"], 2, "retry: invalid retry policy `sometimes`"),
        (vec!["enqueue", "noop", "--metadata", "{"], 2, "metadata: is not JSON"),
        (vec!["jobs", "list", "--status", "pending"], 2, "unknown status `pending`: expected waiting"),
        (vec!["jobs", "list", "--limit", "0"], 2, "limit: must be between 1 and 1000, not 0"),
        (vec!["jobs", "list", "--after", "nonsense"], 2, "does not continue this list"),
        (vec!["jobs", "show", "job_12"], 2, "expected `job_` and 32 hexadecimal digits"),
        (
            vec!["jobs", "show", "job_00000000000070008000000000000000"],
            3,
            "job job_00000000000070008000000000000000 not found",
        ),
        (
            vec!["jobs", "cancel", "job_00000000000070008000000000000000"],
            3,
            "job job_00000000000070008000000000000000 not found",
        ),
        (vec!["jobs", "cancel"], 2, "name the jobs to cancel"),
        (vec!["work", "--concurrency", "0"], 2, "concurrency: must be between 1 and 100000, not 0"),
        (vec!["work", "--lease", "1ms"], 2, "lease: must be between 100ms and 1d, not 1ms"),
        (vec!["locks", "release", "x"], 2, "lock x is not held"),
        (vec!["stats", "--store", "mysql://u:secret@h/db"], 4, "unsupported store URL scheme `mysql`"),
        (vec!["stats", "--store", "sqlite:"], 4, "name one, such as sqlite:punctual.db"),
        (vec!["stats", "--config", "absent.toml"], 2, "cannot read the configuration absent.toml"),
        (vec!["bench", "everything"], 2, "unknown scenario everything"),
        (vec!["nonsense"], 2, "unrecognized subcommand"),
    ];
    for (args, code, problem) in cases {
        let (found, stderr) = shell.fails(&args);
        assert!(
            found == code && stderr.contains(problem),
            "{args:?}\nexpected {code}: {problem}\nfound    {found}: {stderr}"
        );
        assert!(!stderr.contains("secret"), "{stderr}");
    }
    let stats = shell.json(&["stats"]);
    assert!(stats["jobs"].as_object().unwrap().values().all(|count| count == 0), "{stats}");
}

#[test]
fn odd_but_legal_text_is_kept_in_every_field() {
    let shell = Shell::new();
    let odd = "🦀 ünï'\"%_\\;--";
    let id = shell.ok(&[
        "enqueue",
        odd,
        "\"🦀\\u0000\"",
        "--queue",
        odd,
        "--key",
        odd,
        "--user",
        odd,
        "--tag",
        odd,
        "--correlation",
        odd,
        "--description",
        "two\nlines 👩‍💻",
        "--metadata",
        "{\"🦀\": 1}",
    ]);
    let job = shell.json(&["jobs", "show", id.trim()])["job"].clone();
    for field in ["name", "queue", "unique_key", "user_id", "correlation_id"] {
        assert_eq!(job[field], odd, "{field}");
    }
    assert_eq!(job["payload_preview"], "🦀\0");
    assert_eq!(job["tags"][0], odd);
    assert_eq!(
        shell.json(&["jobs", "list", "--name", odd, "--queue", odd, "--user", odd, "--tag", odd])["jobs"][0]["id"],
        id.trim()
    );
}

#[test]
fn a_program_of_the_configuration_runs_as_a_handler() {
    let shell = Shell::new();
    let config = r#"
        store = "sqlite:other.db"
        [handlers.double]
        command = ["sh", "-c", "read n; echo working on $n >&2; echo $PUNCTUAL_ATTEMPT >&2; echo; echo $((n * 2))"]
        env = { SECRET = "x" }
        [handlers.breaks]
        command = ["sh", "-c", "echo no luck >&2; exit 3"]
        [handlers.hangs]
        command = ["sh", "-c", "trap '' TERM; sleep 600 & wait"]
        [handlers.absent]
        command = ["/no/such/program"]
    "#;
    std::fs::write(shell.path("punctual.toml"), config).unwrap();
    let double = shell.ok(&["enqueue", "double", "21"]);
    let breaks = shell.ok(&["enqueue", "breaks", "--max-attempts", "1"]);
    let hangs = shell.ok(&["enqueue", "hangs", "--max-attempts", "1", "--timeout", "200ms"]);
    let absent = shell.ok(&["enqueue", "absent", "--max-attempts", "1"]);
    shell.ok(&["work", "--until-empty"]);
    let history = shell.json(&["jobs", "show", double.trim()]);
    assert_eq!(history["job"]["result_preview"], 42);
    assert_eq!(history["logs"][0]["message"], "working on 21");
    assert_eq!(history["logs"][1]["message"], "1");
    let history = shell.json(&["jobs", "show", breaks.trim()]);
    assert_eq!(history["job"]["error"]["message"], "the program ended with exit status: 3: no luck");
    assert_eq!(history["logs"][0]["message"], "no luck");
    assert_eq!(shell.json(&["jobs", "show", hangs.trim()])["job"]["error"]["code"], "PUNCTUAL_E_TIMEOUT");
    let message = shell.json(&["jobs", "show", absent.trim()])["job"]["error"]["message"].to_string();
    assert!(message.contains("cannot start /no/such/program"), "{message}");
    assert!(shell.path("other.db").exists(), "the configuration names the store");
    std::fs::write(shell.path("punctual.toml"), "[worker]\nconcurency = 3\n").unwrap();
    let (code, stderr) = shell.fails(&["stats"]);
    assert!(code == 2 && stderr.contains("unknown field `concurency`"), "{stderr}");
}

#[test]
fn a_store_that_cannot_be_used_is_reported_and_not_changed() {
    let shell = Shell::new();
    let check = |file: &str, problem: &str| {
        let before = std::fs::read(shell.path(file)).unwrap_or_default();
        let store = format!("sqlite:{file}");
        for args in [vec!["stats"], vec!["enqueue", "noop"], vec!["work", "--until-empty"]] {
            let (code, stderr) = shell.fails(&[&["--store", &store], args.as_slice()].concat());
            assert!(code == 4 && stderr.contains(problem), "{file}: {code} {stderr}");
        }
        assert_eq!(std::fs::read(shell.path(file)).unwrap_or_default(), before, "{file} was changed");
    };
    std::fs::create_dir(shell.path("folder")).unwrap();
    check("folder", "it is a folder");
    check("absent/punctual.db", "the folder absent does not exist");
    std::fs::write(shell.path("text.db"), "this is a letter to my aunt\n".repeat(500)).unwrap();
    check("text.db", "the store is damaged or not a Punctual store");
    // A valid file with its middle overwritten.
    shell.ok(&["--store", "sqlite:corrupt.db", "enqueue", "noop"]);
    let mut bytes = std::fs::read(shell.path("corrupt.db")).unwrap();
    let end = bytes.len().min(3 * 4096);
    bytes[100..end].fill(0xa5);
    std::fs::write(shell.path("corrupt.db"), bytes).unwrap();
    check("corrupt.db", "the store is damaged or not a Punctual store");
    // A file of a newer version.
    shell.ok(&["--store", "sqlite:newer.db", "migrate"]);
    sqlite(
        &shell.path("newer.db"),
        "insert into punctual_schema values (999, 'future', 'x', 0); pragma wal_checkpoint(truncate)",
    );
    check("newer.db", "the store has schema version 999, but this version of Punctual supports up to ");
    sqlite(&shell.path("newer.db"), "delete from punctual_schema where version = 999");
    sqlite(&shell.path("newer.db"), "update punctual_schema set checksum = 'other'; pragma wal_checkpoint(truncate)");
    check("newer.db", "was applied with another content");
}

/// Runs SQL as another program would.
fn sqlite(path: &Path, sql: &str) {
    punctual::sqlite::rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Root may write any file, so the program runs as the user `nobody`.
#[test]
fn a_file_without_write_permission_is_refused() {
    use std::os::unix::{fs::PermissionsExt, process::CommandExt};
    let shell = Shell::new();
    shell.ok(&["enqueue", "noop"]);
    let permit = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    // The program's own folder may not be accessible to `nobody`.
    let program = shell.path("punctual");
    // Copied by a separate process: a file that this process has open for writing may for a moment be open in the
    // children of concurrent tests too, and could not be executed.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_punctual")).arg(&program).status().unwrap().success());
    permit(&program, 0o755);
    permit(&shell.path("punctual.db"), 0o444);
    permit(shell.0.path(), 0o555);
    let mut command = Command::new(&program);
    command.args(["enqueue", "noop"]).current_dir(shell.0.path());
    if nix::unistd::getuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    permit(shell.0.path(), 0o755);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(
        stderr.contains("the store is not writable") || stderr.contains("check that you may read and write it"),
        "{stderr}"
    );
    assert_eq!(shell.json(&["stats"])["jobs"]["queued"], 1);
}

/// A limit on the file size simulates a full disk: the write fails in the same place.
#[test]
fn a_full_disk_is_a_clear_error_and_loses_nothing() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "noop"]);
    let line = format!("{{\"name\": \"noop\", \"payload\": \"{}\"}}\n", "x".repeat(50_000));
    std::fs::write(shell.path("many.jsonl"), line.repeat(100)).unwrap();
    // In kilobytes. The signal of the limit is ignored, so that writes fail as they do on a full disk.
    let script =
        format!("trap '' XFSZ; ulimit -f 1000; exec {} enqueue --file many.jsonl", env!("CARGO_BIN_EXE_punctual"));
    let output = Command::new("bash").args(["-c", &script]).current_dir(shell.0.path()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(output.stdout.is_empty(), "nothing was acknowledged");
    assert_eq!(shell.json(&["stats"])["jobs"]["queued"], 1, "{stderr}");
    assert!(stderr.contains("disk"), "{stderr}");
    let doctor: Value = serde_json::from_slice(&shell.run(&["doctor", "--json"]).stdout).unwrap();
    assert_eq!(doctor["diagnostics"][0]["check"], "integrity");
    assert_eq!(doctor["diagnostics"][0]["ok"], true, "{doctor}");
    shell.ok(&["enqueue", "--file", "many.jsonl"]);
    assert_eq!(shell.json(&["stats"])["jobs"]["queued"], 101);
}

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
    let shell = Shell::new();
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
fn doctor_finds_problems() {
    let shell = Shell::new();
    assert_eq!(shell.json(&["doctor"])["ok"], true);
    shell.ok(&["enqueue", "nobody-runs-this"]);
    let output = shell.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("no live worker has a handler for `nobody-runs-this` in queue `default`"), "{stdout}");
    sqlite(&shell.path("punctual.db"), "update punctual_counts set n = 7");
    let stdout = String::from_utf8_lossy(&shell.run(&["doctor"]).stdout).into_owned();
    assert!(stdout.contains("counters are wrong"), "{stdout}");
}

#[test]
fn help_shows_no_password() {
    let shell = Shell::new();
    for name in ["PUNCTUAL_STORE", "PUNCTUAL_DISPATCH", "PUNCTUAL_LOCKS", "PUNCTUAL_ALERT_URL"] {
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
        "doctor", "bench",
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
    let shell = Shell::new();
    for args in [vec!["stats"], vec!["stats", "--json"], vec!["jobs", "list"], vec!["enqueue", "noop"]] {
        let mut child = shell.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before anything is written.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    }
}
