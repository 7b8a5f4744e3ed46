//! `punctual workflows`, and jobs that depend on others.

use serde_json::{Value, json};

use crate::shell::Shell;

const CONFIG: &str = r#"
[handlers.collect]
command = ["sh", "-c", "cat $PUNCTUAL_PARENT_RESULTS"]
parent_results = true
[handlers.flaky]
command = ["sh", "-c", "test -e works"]
"#;

const NIGHTLY: &str = "
name: nightly
jobs:
  extract: {job: echo, payload: {rows: 3}}
  flaky: {after: [extract], max_attempts: 1}
  collect: {after: [extract, flaky]}
on_success: {job: echo, payload: all is well}
on_failure: {job: echo, payload: {token: hush}}
";

/// A shell with the handlers and the file of the workflow.
fn shell() -> Shell {
    let shell = Shell::with_store();
    std::fs::write(shell.path("punctual.toml"), CONFIG).unwrap();
    std::fs::write(shell.path("nightly.yaml"), NIGHTLY).unwrap();
    shell
}

fn statuses(shell: &Shell, id: &str) -> Value {
    let nodes = shell.json(&["workflows", "show", id])["nodes"].as_array().unwrap().clone();
    nodes.iter().map(|node| (node["node"].as_str().unwrap().to_owned(), node["status"].clone())).collect()
}

#[test]
fn a_workflow_is_submitted_run_shown_drawn_and_retried() {
    let shell = shell();
    let id = shell.ok(&["workflows", "submit", "nightly.yaml"]).trim().to_owned();
    assert!(id.starts_with("wfl_"), "{id}");
    shell.ok(&["work", "--until-empty"]);
    let failed = json!({"extract": "succeeded", "flaky": "dead", "collect": "cancelled", "on_success": "cancelled", "on_failure": "succeeded"});
    assert_eq!(statuses(&shell, &id), failed);
    let shown = shell.ok(&["workflows", "show", &id]);
    assert!(shown.contains("Failed") && shown.contains(&format!("punctual workflows retry {id}")), "{shown}");
    let drawn = shell.ok(&["workflows", "show", &id, "--graph"]);
    assert!(drawn.contains("● extract") && drawn.contains("dead"), "{drawn}");
    assert!(shell.ok(&["workflows", "show", &id, "--dot", "-"]).starts_with("digraph"));
    shell.ok(&["workflows", "show", &id, "--svg", "nightly.svg"]);
    let svg = std::fs::read_to_string(shell.path("nightly.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("extract") && svg.trim_end().ends_with("</svg>"), "{svg}");
    std::fs::write(shell.path("works"), "").unwrap();
    shell.ok(&["workflows", "retry", &id]);
    shell.ok(&["work", "--until-empty"]);
    let detail = shell.json(&["workflows", "show", &id]);
    assert_eq!((&detail["status"], &detail["progress"]), (&json!("succeeded"), &json!(100.0)));
    assert_eq!(detail["result"]["collect"]["extract"], json!({"rows": 3}), "results reach a program");
    let listed = shell.json(&["workflows", "list"]);
    assert_eq!((&listed["workflows"][0]["id"], &listed["next"]), (&json!(id), &Value::Null));
    let table = shell.ok(&["workflows", "list"]);
    assert!(table.contains("● succeeded") && table.contains("100 %"), "{table}");
    let job = detail["nodes"].as_array().unwrap().iter().find(|node| node["node"] == "collect").unwrap()["id"].clone();
    let history = shell.ok(&["jobs", "show", job.as_str().unwrap()]);
    assert!(history.contains(&format!("collect of {id}")) && history.contains("extract job_"), "{history}");
    let (code, output) = shell.fails(&["workflows", "retry", &id]);
    assert_eq!(code, 5, "{output}");
}

#[test]
fn a_workflow_is_waited_for_and_cancelled() {
    let shell = shell();
    std::fs::write(shell.path("works"), "").unwrap();
    let mut worker = shell.command(&["work"]).spawn().unwrap();
    let waited = shell.ok(&["workflows", "submit", "nightly.yaml", "--wait"]);
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(waited.contains(r#"{"collect":{"#), "{waited}");
    let id = shell.ok(&["workflows", "submit", "nightly.yaml"]).trim().to_owned();
    let done = shell.json(&["workflows", "cancel", &id, "--reason", "not tonight"]);
    assert_eq!(done["workflows"][0]["cancelled"], 3);
    assert_eq!(shell.json(&["workflows", "show", &id])["status"], "cancelled");
    let (code, _) = shell.fails(&["workflows", "show", "wfl_00000000000000000000000000000009"]);
    assert_eq!(code, 3);
}

#[test]
fn an_invalid_file_is_reported_and_submits_nothing() {
    let shell = shell();
    let cases = [
        ("name: x\njobs: {}\n", "jobs: must not be empty"),
        ("name: x\njobs:\n  a: {after: [b]}\n  b: {after: [a]}\n", "form a cycle"),
        ("name: x\njobs:\n  a: {after: [c]}\n", "`c` is not a job of this workflow (job `a`)"),
        ("name: x\njobs:\n  a: {afterr: [c]}\n", "line 3"),
        ("name: x\njobs:\n  a: {afterr: [c]}\n", "unknown key `afterr`"),
        ("name: x\njobs:\n  a: {priority: 11}\n", "priority: must be between 0 and 10, not 11"),
        ("name: x\njobs:\n  a: {key: k}\n", "unique_key"),
        (r#"{"name": "x", "jobs": {"a": {"in": "soon"}}}"#, "invalid duration `soon`"),
        ("{\"name\": \"x\"", "the JSON ends too early"),
    ];
    for (text, problem) in cases {
        std::fs::write(shell.path("wrong"), text).unwrap();
        let (code, output) = shell.fails(&["workflows", "submit", "wrong"]);
        assert!(code == 2 && output.contains(problem), "{text}: {code} {output}");
    }
    let (code, output) = shell.fails(&["workflows", "submit", "nowhere.yaml"]);
    assert!(code == 2 && output.contains("cannot read nowhere.yaml"), "{output}");
    assert_eq!(shell.json(&["workflows", "list"])["workflows"], json!([]));
}

#[test]
fn a_job_may_wait_for_others_from_the_command_line() {
    let shell = shell();
    let parent = shell.ok(&["enqueue", "echo", "1"]).trim().to_owned();
    let child = shell.ok(&["enqueue", "echo", "2", "--after", &parent]).trim().to_owned();
    let needless =
        shell.ok(&["enqueue", "echo", "3", "--after", &parent, "--on-parent-failure", "only"]).trim().to_owned();
    let shown = shell.ok(&["jobs", "show", &child]);
    assert!(shown.contains("Waiting for 1 other job") && shown.contains(&parent), "{shown}");
    shell.ok(&["work", "--until-empty"]);
    let status = |id: &str| shell.json(&["jobs", "show", id])["job"]["status"].clone();
    assert_eq!((status(&child), status(&needless)), (json!("succeeded"), json!("cancelled")));
    let (code, output) = shell.fails(&["enqueue", "echo", "--after", "job_00000000000000000000000000000009"]);
    assert!(code == 3 && output.contains("not found or deleted"), "{output}");
    let (code, output) = shell.fails(&["enqueue", "echo", "--after", &parent, "--on-parent-failure", "panic"]);
    assert!(code == 2 && output.contains("expected cancel, run, wait or only"), "{output}");
    std::fs::write(shell.path("jobs.jsonl"), format!("{{\"name\": \"echo\", \"after\": [\"{parent}\"]}}\n")).unwrap();
    assert!(shell.ok(&["enqueue", "--file", "jobs.jsonl"]).starts_with("job_"));
}
