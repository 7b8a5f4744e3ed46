//! Invalid input, and input that is odd but valid.

use std::{io::Write, process::Stdio};

use serde_json::json;

use crate::shell::Shell;

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
fn the_options_of_the_command_line_are_the_defaults_of_a_files_lines() {
    let shell = Shell::new();
    let lines = "{\"name\": \"noop\"}\n{\"name\": \"noop\", \"queue\": \"own\", \"priority\": 1, \"tags\": [\"b\"]}\n";
    std::fs::write(shell.path("jobs.jsonl"), lines).unwrap();
    let options = "--queue mail --priority 9 --in 1h --user ada --tag a --max-attempts 2 --timeout 9s --retry none";
    let options: Vec<&str> = options.split(' ').collect();
    let ids = shell.ok(&[&["enqueue", "--file", "jobs.jsonl"], options.as_slice()].concat());
    let jobs: Vec<_> = ids.lines().map(|id| shell.json(&["jobs", "show", id])["job"].clone()).collect();
    for (field, plain, own) in [
        ("queue", json!("mail"), json!("own")),
        ("priority", json!(9), json!(1)),
        ("tags", json!(["a"]), json!(["b"])),
        ("status", json!("scheduled"), json!("scheduled")),
        ("user_id", json!("ada"), json!("ada")),
        ("max_attempts", json!(2), json!(2)),
        ("timeout_ms", json!(9_000), json!(9_000)),
    ] {
        assert_eq!((&jobs[0][field], &jobs[1][field]), (&plain, &own), "{field}");
    }
    let (code, stderr) = shell.fails(&["enqueue", "--file", "jobs.jsonl", "--priority", "11"]);
    assert!(code == 2 && stderr.contains("line 1; nothing was enqueued: priority: must be"), "{stderr}");
    assert!(shell.ok(&["enqueue", "--help"]).contains("are defaults"));
}

/// Every kind of invalid input: accepted, or refused with the field and the limit, and nothing is stored.
#[test]
fn bad_input_is_refused_with_the_field_and_the_limit() {
    let shell = Shell::with_store();
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
        (vec!["schedules", "list", "--limit", "5000"], 2, "limit: must be between 1 and 1000, not 5000"),
        (vec!["workflows", "list", "--limit", "5000"], 2, "limit: must be between 1 and 200, not 5000"),
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
        (vec!["locks", "release", "x"], 3, "lock x is not held"),
        (vec!["stats", "--store", "mysql://u:secret@h/db"], 2, "unsupported store URL scheme `mysql`"),
        (vec!["stats", "--store", "sqlite:"], 2, "name one, such as sqlite:punctual.db"),
        (vec!["stats", "--store", "sqlite:a.db?synchronos=full"], 2, "did you mean `synchronous`?"),
        (vec!["stats", "--store", "postgres://u:secret@h/db?schma=jobs"], 2, "did you mean `schema`?"),
        (
            vec!["stats", "--store", "postgres://u:secret@h/db?colour=red"],
            2,
            "unknown parameter `colour`: expected schema",
        ),
        (vec!["stats", "--store", "sqlserver://u:secret@h/db?encrypted=on"], 2, "did you mean `encrypt`?"),
        (
            vec!["stats", "--store", "postgres://u:secret@h/db", "--dispatch", "redis://:secret@h?protocl=resp3"],
            2,
            "did you mean `protocol`?",
        ),
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
