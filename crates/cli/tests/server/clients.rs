//! The helpers for handlers in Python and Node, and the example, run with the real interpreters.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::shell::Shell;

/// A file of the repository.
fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).canonicalize().unwrap()
}

fn python() -> PathBuf {
    punctual_servers::program_on_path("python3", "python3").unwrap()
}

fn node() -> PathBuf {
    punctual_servers::program_on_path("node", "nodejs").unwrap()
}

fn passes(mut command: Command) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&text));
}

#[test]
fn the_python_helper_speaks_the_protocol() {
    let mut tests = Command::new(python());
    tests.arg(in_repository("clients/python/test_punctual.py")).env("PYTHONDONTWRITEBYTECODE", "1");
    passes(tests);
}

#[test]
fn the_node_helper_speaks_the_protocol() {
    let mut tests = Command::new(node());
    tests.arg("--test").arg(in_repository("clients/node/test.js"));
    passes(tests);
}

/// Enqueues a job; returns its id.
fn enqueue(shell: &Shell, name: &str, payload: &Value) -> String {
    shell.ok(&["enqueue", name, &payload.to_string(), "--max-attempts", "1"]).trim().to_owned()
}

fn history(shell: &Shell, id: &str) -> Value {
    shell.json(&["jobs", "show", id])
}

#[test]
fn the_example_in_python_runs() {
    python();
    let shell = Shell::new();
    let config = in_repository("examples/python-worker/punctual.toml");
    let counts = enqueue(&shell, "word-count", &json!({"text": "to be or\nnot to be"}));
    let small = enqueue(&shell, "thumbnail", &json!({"image": "P2 4 2 255  0 0 200 200  0 0 100 100"}));
    let wrong = enqueue(&shell, "thumbnail", &json!({"image": "a cat"}));
    shell.ok(&["--config", config.to_str().unwrap(), "work", "--until-empty"]);
    let actual = history(&shell, &counts);
    assert_eq!(actual["job"]["result_preview"], json!({"words": 6, "most_common": [["to", 2], ["be", 2], ["or", 1]]}));
    assert_eq!(actual["job"]["progress"]["message"], "line 2 of 2");
    let actual = history(&shell, &small);
    assert_eq!(actual["job"]["result_preview"], "P2 2 1 255 0 150");
    assert_eq!(actual["logs"][0]["message"], "4 x 2 pixels became 2 x 1");
    assert_eq!(history(&shell, &wrong)["job"]["error"]["message"], "invalid image: expected plain PGM");
}

#[test]
fn a_handler_in_node_of_three_lines_runs_in_both_ways() {
    let shell = Shell::new();
    let handler = "const { handler } = require(process.env.HELPER);
handler(async (job) => { console.log('adding'); return { sum: job.payload.a + job.payload.b }; });";
    std::fs::write(shell.path("add.js"), handler).unwrap();
    let (node, helper) = (node(), in_repository("clients/node/punctual.js"));
    let way = |name: &str, more: &str| {
        format!("[handlers.{name}]\ncommand = [{node:?}, \"add.js\"]\nenv = {{ HELPER = {helper:?} }}\n{more}\n")
    };
    std::fs::write(shell.path("punctual.toml"), way("once", "") + &way("pooled", "pool = 2")).unwrap();
    let jobs: Vec<(String, u64)> = (0..10u64)
        .map(|n| (enqueue(&shell, if n < 2 { "once" } else { "pooled" }, &json!({"a": n, "b": 1})), n + 1))
        .collect();
    shell.ok(&["work", "--until-empty"]);
    for (id, sum) in jobs {
        let actual = history(&shell, &id);
        assert_eq!(actual["job"]["result_preview"], json!({"sum": sum}), "{actual}");
        assert_eq!(actual["logs"][0]["message"], "adding");
    }
}
