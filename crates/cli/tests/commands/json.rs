//! `--json`: every command prints one JSON document, and an error is one JSON object.

use serde_json::{Value, json};

use crate::shell::Shell;

/// The document that a command prints, although it fails; and its error.
fn failed(shell: &Shell, args: &[&str]) -> (Value, Value) {
    let output = shell.run(&[args, &["--json"]].concat());
    assert!(!output.status.success(), "{args:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    let error: Value = serde_json::from_str(&stderr).unwrap_or_else(|error| panic!("{args:?}: {error}: {stderr}"));
    assert_eq!(error["exit_code"], json!(output.status.code()), "{args:?}: {error}");
    (serde_json::from_slice(&output.stdout).unwrap_or_default(), error)
}

#[test]
fn changes_of_queues_are_json() {
    let shell = Shell::with_store();
    for queue in ["mail-eu", "mail-us"] {
        assert!(shell.json(&["enqueue", "noop", "--queue", queue])["id"].is_string());
    }
    let paused = shell.json(&["queues", "pause", "mail-*"]);
    let expected = json!([{"name": "mail-eu", "paused": true}, {"name": "mail-us", "paused": true}]);
    assert_eq!(paused["queues"], expected);
    let resumed = shell.json(&["queues", "resume", "mail-eu"]);
    assert_eq!(resumed["queues"], json!([{"name": "mail-eu", "paused": false}]));
    let limited = shell.json(&["queues", "limit", "mail-eu", "--concurrency", "5"]);
    assert_eq!((&limited["name"], &limited["limits"]["concurrency"]), (&json!("mail-eu"), &json!(5)));
    let changed = shell.json(&["queues", "defaults", "mail-eu", "--priority", "8"]);
    assert_eq!((&changed["name"], &changed["defaults"]["priority"]), (&json!("mail-eu"), &json!(8)));
}

#[test]
fn changes_of_schedules_are_json_also_when_one_of_several_fails() {
    let shell = Shell::with_store();
    assert_eq!(shell.json(&["schedules", "put", "nightly", "@daily", "noop"])["put"], "added");
    let paused = shell.json(&["schedules", "pause", "nightly"]);
    assert_eq!(paused["schedules"], json!([{"name": "nightly", "enabled": false}]));
    let resumed = shell.json(&["schedules", "resume", "nightly"])["schedules"][0].clone();
    assert!(resumed["enabled"] == true && resumed["next_run_at"].is_string(), "{resumed}");
    assert!(shell.json(&["schedules", "trigger", "nightly"])["job"].as_str().unwrap().starts_with("job_"));
    let (done, error) = failed(&shell, &["schedules", "pause", "nightly", "absent"]);
    assert_eq!(done["schedules"], json!([{"name": "nightly", "enabled": false}]));
    assert!(error["error"].as_str().unwrap().contains("schedule `absent` not found"), "{error}");
    let deleted = shell.json(&["schedules", "delete", "nightly"]);
    assert_eq!(deleted["schedules"], json!([{"name": "nightly", "deleted": true, "owner": null}]));
}

#[test]
fn changes_of_jobs_are_json_with_each_error() {
    let shell = Shell::with_store();
    let id = shell.json(&["enqueue", "noop"])["id"].as_str().unwrap().to_owned();
    let absent = "job_00000000000070008000000000000000";
    let (done, error) = failed(&shell, &["jobs", "cancel", &id, absent]);
    assert_eq!(done["jobs"][0], json!({"id": id, "done": "cancelled"}));
    assert!(done["jobs"][1]["error"].as_str().unwrap().contains("not found"), "{done}");
    assert_eq!(error["exit_code"], 3);
    shell.ok(&["enqueue", "noop", "--queue", "a"]);
    let (_, error) = failed(&shell, &["jobs", "cancel", "--queue", "a"]);
    assert!(error["error"].as_str().unwrap().contains("confirm with --yes"), "{error}");
    let document = shell.json(&["jobs", "explain", &id]);
    assert!(document["reasons"].is_array(), "{document}");
}

#[test]
fn other_changes_are_json() {
    let shell = Shell::with_store();
    assert!(shell.json(&["migrate"])["migrations"].is_array());
    assert_eq!(shell.json(&["cleanup"])["deleted"], 0);
    let created = shell.json(&["tokens", "create", "ops", "--role", "read"]);
    assert!(created["secret"].is_string(), "{created}");
    let id = created["id"].as_str().unwrap();
    assert_eq!(shell.json(&["tokens", "revoke", id]), json!({"token": id, "revoked": true}));
    assert_eq!(shell.json(&["tokens", "open"]), json!({"access": "open"}));
    let (_, error) = failed(&shell, &["locks", "release", "x"]);
    assert_eq!(error["exit_code"], 3);
    std::fs::write(shell.path("flow.yaml"), "name: flow\njobs:\n  a: {job: noop, in: 1h}\n").unwrap();
    let id = shell.json(&["workflows", "submit", "flow.yaml"])["workflow"].as_str().unwrap().to_owned();
    let written = shell.json(&["workflows", "show", &id, "--dot", "flow.dot"]);
    assert_eq!(written, json!({"written": ["flow.dot"]}));
    let (_, error) = failed(&shell, &["workflows", "show", &id, "--dot", "-"]);
    assert_eq!(error["exit_code"], 2);
    assert_eq!(shell.json(&["workflows", "cancel", &id])["workflows"], json!([{"id": id, "cancelled": 1}]));
    assert_eq!(shell.json(&["workflows", "retry", &id])["workflows"][0]["id"], json!(id));
    assert_eq!(shell.json(&["enqueue", "fail", "--max-attempts", "1"])["existing"], false);
    let worked = shell.json(&["work", "--until-empty", "--queues", "default", "--concurrency", "1"]);
    assert!(worked["stopped"].as_str().unwrap().starts_with("wrk_"), "{worked}");
    assert_eq!(worked["died"], 1, "{worked}");
    let completions = shell.json(&["completions", "bash"]);
    assert!(completions["shell"] == "bash" && completions["script"].as_str().unwrap().contains("_punctual"));
}

#[test]
fn reports_of_an_empty_store_are_json() {
    let shell = Shell::with_store();
    let reports: [(&[&str], &str); 18] = [
        (&["stats"], "jobs"),
        (&["jobs", "list"], "jobs"),
        (&["schedules", "list"], "schedules"),
        (&["workflows", "list"], "workflows"),
        (&["queues", "list"], "queues"),
        (&["queues", "show", "mail"], "events"),
        (&["workers", "list"], "workers"),
        (&["locks", "list"], "locks"),
        (&["tokens", "list"], "tokens"),
        (&["report", "failures"], "by_name"),
        (&["report", "stuck"], "jobs"),
        (&["report", "pending"], "pending"),
        (&["report", "success"], "names"),
        (&["report", "durations"], "names"),
        (&["doctor"], "diagnostics"),
        (&["top", "--every", "200ms"], "per_second"),
        (&["schedules", "preview", "--cron", "@daily"], "upcoming"),
        (&["move", "--from", "sqlite:punctual.db", "--to", "sqlite:other.db"], "moved"),
    ];
    for (args, field) in reports {
        let document = shell.json(args);
        assert!(!document[field].is_null(), "{args:?}: {document}");
    }
}

#[test]
fn an_error_of_the_command_line_is_json_too() {
    let shell = Shell::new();
    let cases: [(&[&str], &str); 6] = [
        (&["nonsense"], "unrecognized subcommand 'nonsense'"),
        (&["enqueue"], "the following required arguments were not provided: <NAME>"),
        (&["stats", "--limit", "3"], "unexpected argument '--limit' found"),
        (&["enqueue", "noop", "--timeout", "soon"], "invalid duration `soon`"),
        (&["stats", "--store", "mysql://u:secret@h/db"], "unsupported store URL scheme `mysql`"),
        (&["stats", "--config", "absent.toml"], "cannot read the configuration"),
    ];
    for (args, problem) in cases {
        let (_, error) = failed(&shell, args);
        assert!(error["error"].as_str().unwrap().contains(problem), "{args:?}: {error}");
        assert!(error["exit_code"] == 2 && !error.to_string().contains("secret"), "{args:?}: {error}");
    }
    let (_, stderr) = shell.fails(&["nonsense"]);
    assert!(stderr.starts_with("error: unrecognized subcommand") && stderr.contains("Usage: punctual"), "{stderr}");
    assert!(shell.ok(&["stats", "--json", "--help"]).contains("Usage: punctual stats"));
}
