//! `punctual move`, between SQLite and PostgreSQL.

use serde_json::{Value, json};

use crate::shell::{Server, Shell, until};

/// A PostgreSQL store in its own schema, on the server that was started for the tests.
fn postgres() -> String {
    let server = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
    format!("{server}?schema=move_{:016x}", fastrand::u64(..))
}

/// Fills a store with items of every kind.
pub(super) fn fill(shell: &Shell) {
    for (name, payload, options) in [
        ("echo", r#"{"n":1}"#, "--user ada --tag a --tag b --correlation order-1 --key once"),
        ("fail", r#"{"message":"no"}"#, "--queue bad --max-attempts 2 --retry fixed:1ms"),
        ("echo", "2", "--queue later --in 1h --priority 9 --concurrency-key k"),
        ("noop", "3", "--queue unserved --keep-for 1h"),
        ("noop", "4", "--queue unserved"),
    ] {
        let options: Vec<&str> = options.split_whitespace().collect();
        shell.ok(&[&["enqueue", name, payload][..], &options].concat());
    }
    shell.ok(&["schedules", "put", "report", "0 7 * * *", "echo", "--zone", "Europe/Berlin"]);
    std::fs::write(
        shell.path("flow.json"),
        json!({"name": "flow", "jobs": {"first": {"name": "echo", "queue": "unserved"}, "second": {"name": "noop", "queue": "unserved", "after": ["first"]}}})
            .to_string(),
    )
    .unwrap();
    shell.ok(&["workflows", "submit", "flow.json"]);
    shell.ok(&["queues", "limit", "bad", "--concurrency", "3"]);
    shell.ok(&["queues", "pause", "unserved"]);
    shell.ok(&["tokens", "create", "ops", "--role", "admin"]);
    shell.ok(&["work", "--until-empty", "--queues", "default,bad"]);
    let unserved = shell.json(&["jobs", "list", "--queue", "unserved", "--name", "noop"]);
    shell.ok(&["jobs", "cancel", unserved["jobs"][1]["id"].as_str().unwrap(), "--reason", "not wanted"]);
}

/// Everything that a store returns, without the ids of events, which differ between stores.
pub(super) fn contents(shell: &Shell, store: &str) -> Vec<Value> {
    let query = |args: &[&str]| shell.json(&[args, &["--store", store]].concat());
    let jobs = query(&["jobs", "list"]);
    let mut actual: Vec<Value> = jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            let mut history = query(&["jobs", "show", job["id"].as_str().unwrap()]);
            let events = history["events"].as_array_mut().unwrap();
            assert!(!events.is_empty());
            events.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("id")));
            history
        })
        .collect();
    assert_eq!(actual.len(), 7);
    for args in [
        &["stats"][..],
        &["schedules", "show", "report"],
        &["queues", "list"],
        &["queues", "show", "bad"],
        &["workflows", "list"],
        &["tokens", "list"],
        &["report", "success"],
        &["report", "durations"],
        &["jobs", "list", "--tag", "b"],
        &["jobs", "list", "--user", "ada"],
    ] {
        actual.push(query(args));
    }
    actual
}

#[test]
fn everything_is_moved_and_continues() {
    let (shell, postgres) = (Shell::new(), postgres());
    fill(&shell);
    let output = shell.ok(&["move", "--from", "sqlite:punctual.db", "--to", &postgres]);
    assert!(output.starts_with("moved 7 jobs, 1 dependency, 1 workflow, 1 schedule, 2 queues, 1 token\n"), "{output}");
    let moved = shell.json(&["move", "--from", &postgres, "--to", "sqlite:back.db"]);
    assert_eq!((&moved["moved"]["jobs"], &moved["differences"]), (&json!(7), &json!([])));
    let before = contents(&shell, "sqlite:punctual.db");
    for store in [&postgres, "sqlite:back.db"] {
        for (there, here) in contents(&shell, store).iter().zip(&before) {
            assert_eq!(there, here, "{store}");
        }
        let diagnostics: Value =
            serde_json::from_slice(&shell.run(&["doctor", "--json", "--store", store]).stdout).unwrap();
        let of_store =
            |diagnostic: &&Value| ["counters", "indexes", "events"].contains(&diagnostic["check"].as_str().unwrap());
        let sound: Vec<&Value> = diagnostics["diagnostics"].as_array().unwrap().iter().filter(of_store).collect();
        assert!(sound.len() == 3 && sound.iter().all(|diagnostic| diagnostic["ok"] == true), "{diagnostics}");
        // A key is held as before, and waiting jobs continue.
        let again = shell.json(&["enqueue", "echo", "{}", "--key", "once", "--store", store]);
        assert_eq!(again["existing"], json!(true));
        shell.ok(&["queues", "resume", "unserved", "--store", store]);
        shell.ok(&["work", "--until-empty", "--store", store]);
        let workflows = shell.json(&["workflows", "list", "--store", store]);
        assert_eq!(workflows["workflows"][0]["status"], "succeeded", "{workflows}");
    }
}

#[test]
fn unsafe_moves_are_refused() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "noop", "--in", "1h"]);
    let refused = |args: &[&str]| shell.fails(&[&["move"], args].concat());
    let (code, output) = refused(&["--from", "sqlite:none.db", "--to", "sqlite:b.db"]);
    assert!(code == 3 && output.contains("file none.db not found"), "{output}");
    assert!(!shell.path("none.db").exists());
    let (code, output) = refused(&["--from", "sqlite:punctual.db", "--to", "sqlite:punctual.db"]);
    assert!(code == 5 && output.contains("both --from and --to"), "{output}");
    shell.ok(&["enqueue", "noop", "--store", "sqlite:full.db"]);
    let (code, output) = refused(&["--from", "sqlite:punctual.db", "--to", "sqlite:full.db"]);
    assert!(code == 5 && output.contains("has 1 jobs already"), "{output}");
    let (code, output) = refused(&["--from", "mysql://x", "--to", "sqlite:b.db"]);
    assert!(code == 2, "{output}");
    let _server = Server::start(&shell, &["work"]);
    until("a live worker", || !shell.json(&["workers", "list"])["workers"].as_array().unwrap().is_empty());
    let (code, output) = refused(&["--from", "sqlite:punctual.db", "--to", "sqlite:b.db"]);
    assert!(code == 5 && output.contains("has live workers, such as wrk_"), "{output}");
    let (code, output) = refused(&["--from", "sqlite:full.db", "--to", "sqlite:punctual.db"]);
    assert!(code == 5 && output.contains("stop them until the move is complete"), "{output}");
    shell.ok(&["move", "--from", "sqlite:punctual.db", "--to", "sqlite:b.db", "--force"]);
}

#[test]
fn a_move_that_was_killed_is_resumed() {
    let (shell, postgres) = (Shell::new(), postgres());
    const JOBS: u64 = 6_000;
    let lines: String = (0..JOBS).map(|number| format!("{{\"name\": \"noop\", \"payload\": {number}}}\n")).collect();
    std::fs::write(shell.path("jobs.jsonl"), lines).unwrap();
    shell.ok(&["enqueue", "--file", "jobs.jsonl"]);
    let args = ["move", "--from", "sqlite:punctual.db", "--to", &postgres];
    let jobs = || {
        let stats = shell.run(&["stats", "--json", "--store", &postgres]).stdout;
        serde_json::from_slice(&stats).map_or(0, |stats: Value| stats["jobs"]["queued"].as_u64().unwrap_or(0))
    };
    let moving = Server::start(&shell, &args);
    until("some have come", || jobs() > 0);
    drop(moving);
    assert!(jobs() < JOBS, "it was over before it was killed");
    let (code, output) = shell.fails(&args);
    assert!(code == 5 && output.contains("use --resume"), "{output}");
    let moved = shell.json(&[&args[..], &["--resume"]].concat());
    assert_eq!(moved["differences"], json!([]));
    assert_eq!(jobs(), JOBS);
}
