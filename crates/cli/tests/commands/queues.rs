//! `punctual queues`, unique keys, and the queue settings of `punctual.toml`.

use punctual::sqlite::rusqlite::Connection;
use serde_json::{Value, json};

use crate::shell::Shell;

fn status(shell: &Shell, id: &str) -> Value {
    shell.json(&["jobs", "show", id])["job"]["status"].clone()
}

#[test]
fn queues_are_listed_paused_by_pattern_and_resumed() {
    let shell = Shell::with_store();
    assert!(shell.ok(&["queues", "list"]).contains("no queues"));
    let id = |queue: &str| shell.ok(&["enqueue", "echo", "1", "--queue", queue]).trim().to_owned();
    let (eu, us, other) = (id("mail-eu"), id("mail-us"), id("other"));
    assert_eq!(shell.ok(&["queues", "pause", "mail-*"]), "mail-eu paused\nmail-us paused\n");
    shell.ok(&["work", "--until-empty"]);
    assert_eq!((status(&shell, &eu), status(&shell, &other)), (json!("queued"), json!("succeeded")));
    let listed = shell.ok(&["queues", "list"]);
    assert!(listed.contains("● paused") && listed.contains("● on"), "{listed}");
    let queues = shell.json(&["queues", "list"])["queues"].clone();
    assert_eq!(queues[0]["name"], "mail-eu");
    assert_eq!(queues[0]["paused"], true);
    assert_eq!(queues[0]["jobs"]["queued"], 1);
    shell.ok(&["queues", "resume", "mail-us"]);
    shell.ok(&["work", "--until-empty"]);
    assert_eq!((status(&shell, &eu), status(&shell, &us)), (json!("queued"), json!("succeeded")));
    let shown = shell.ok(&["queues", "show", "mail-us"]);
    assert!(shown.contains("resumed") && shown.contains("cli:"), "{shown}");
    let (code, output) = shell.fails(&["queues", "pause", "none-*"]);
    assert!(code == 3 && output.contains("no queue matches `none-*`"), "{output}");
}

#[test]
fn the_defaults_of_a_queue_are_set_by_a_command_or_in_a_file() {
    let shell = Shell::new();
    let output = shell.ok(&["queues", "defaults", "mail", "--priority", "8", "--timeout", "9s", "--retry", "fixed:3s"]);
    assert_eq!(output, "mail: priority 8, timeout 9.0 s, retry fixed:3s\n");
    let job = |args: &[&str]| {
        let id = shell.ok(&[&["enqueue", "echo", "1", "--queue", "mail"], args].concat());
        shell.json(&["jobs", "show", id.trim()])["job"].clone()
    };
    assert_eq!((&job(&[])["priority"], &job(&["--priority", "2"])["priority"]), (&json!(8), &json!(2)));
    std::fs::write(shell.path("punctual.toml"), "[queues.mail]\nmax_attempts = 9\n").unwrap();
    shell.ok(&["work", "--until-empty"]);
    let silent = job(&[]);
    assert_eq!(
        (&silent["priority"], &silent["max_attempts"]),
        (&json!(5), &json!(9)),
        "the file replaces all defaults"
    );
    assert!(shell.ok(&["queues", "show", "mail"]).contains("punctual.toml"));
    let (code, output) = shell.fails(&["queues", "defaults", "mail", "--priority", "11"]);
    assert!(code == 2 && output.contains("priority: must be between 0 and 10, not 11"), "{output}");
    std::fs::write(shell.path("punctual.toml"), "[queues.mail]\nmax_attempts = 0\n").unwrap();
    let (code, output) = shell.fails(&["work", "--until-empty"]);
    assert!(
        code == 2
            && output.contains("[queues.mail]")
            && output.contains("max_attempts: must be between 1 and 1000, not 0"),
        "{output}"
    );
}

#[test]
fn queues_have_an_order_if_they_are_given_one() {
    let shell = Shell::new();
    shell.ok(&["enqueue", "echo", "1", "--queue", "b"]);
    shell.ok(&["work", "--until-empty", "--queues", "a,b", "--strict"]);
    shell.ok(&["work", "--until-empty", "--queues", "a=5,b=1"]);
    for (queues, problem) in
        [("a=5,b", "expected a weight for every queue"), ("a=0", "between 1 and 1000"), ("a=x", "a weight is a number")]
    {
        let (code, output) = shell.fails(&["work", "--until-empty", "--queues", queues]);
        assert!(code == 2 && output.contains(problem), "{queues}: {output}");
    }
}

#[test]
fn a_unique_key_has_its_options_on_the_command_line_and_in_files() {
    let shell = Shell::new();
    let enqueue = |args: &[&str]| shell.json(&[&["enqueue", "index"], args].concat());
    let first = enqueue(&[r#"{"doc": 1, "v": 1}"#, "--unique-by", "/doc", "--on-conflict", "replace", "--in", "1h"]);
    let second =
        enqueue(&[r#"{"doc": 1, "v": 2}"#, "--unique-by", "/doc", "--on-conflict", "replace,debounce", "--in", "2h"]);
    assert_eq!(second["id"], first["id"]);
    assert_eq!(second["existing"], true);
    assert_eq!(second["updated"], true);
    let job = shell.json(&["jobs", "show", first["id"].as_str().unwrap()])["job"].clone();
    assert_eq!(job["payload_preview"], json!({"doc": 1, "v": 2}));
    let (short, again) = (["1", "--key", "k", "--unique-for", "1ms"], ["1", "--key", "k"]);
    assert_ne!(enqueue(&short)["id"], enqueue(&again)["id"], "its time was over");
    let line = r#"{"name": "index", "payload": {"doc": 1}, "unique": {"by": ["/doc"]}}"#;
    std::fs::write(shell.path("jobs.jsonl"), line).unwrap();
    assert_eq!(shell.ok(&["enqueue", "--file", "jobs.jsonl"]).trim(), first["id"].as_str().unwrap());
    for (args, problem) in [
        (["--unique-by", "doc"], "invalid JSON pointer `doc`"),
        (["--unique-in", "deleted"], "unique.by: must not be empty"),
        (["--unique-for", "1h"], "unique.by: must not be empty"),
    ] {
        let (code, output) = shell.fails(&[&["enqueue", "index", "1"], &args[..]].concat());
        assert!(code == 2 && output.contains(problem), "{args:?}: {output}");
    }
}

#[test]
fn limits_are_set_by_a_command_or_in_a_file_and_hold() {
    let shell = Shell::new();
    let output =
        shell.ok(&["queues", "limit", "post", "--concurrency", "5", "--rate", "100/1m", "--key-concurrency", "2"]);
    assert_eq!(output, "post: 5 concurrent, 100/1m, 2 per key\n");
    let output = shell.ok(&["queues", "limit", "post", "--rate", "none", "--fair", "--weight", "acme=3"]);
    assert_eq!(output, "post: 5 concurrent, 2 per key, fair, acme 3×\n", "what is not given stays");
    assert_eq!(shell.json(&["queues", "show", "post"])["limits"]["weights"]["acme"], json!(3));
    let output =
        shell.ok(&["queues", "limit", "post", "--no-fair", "--concurrency", "none", "--key-concurrency", "none"]);
    assert_eq!(output, "post: no limits\n");
    std::fs::write(shell.path("punctual.toml"), "[queues.post.limits]\nrate = \"3/2s\"\nkey_concurrency = 0\n")
        .unwrap();
    let ids: Vec<String> = (0..5).map(|_| shell.ok(&["enqueue", "echo", "1", "--queue", "post"])).collect();
    shell.ok(&["work", "--until-empty"]);
    assert!(shell.ok(&["queues", "list"]).contains("3/2s, no limit per key"));
    assert!(
        ids.iter().all(|id| status(&shell, id.trim()) == json!("succeeded")),
        "it waits for what a rate holds back"
    );
    for (args, problem) in [
        (["--concurrency", "0"], "concurrency: must be between 1 and 1000000, not 0"),
        (["--rate", "fast"], "invalid rate `fast`: expected a number per period, such as 100/1m or 5/s"),
        (["--weight", "acme=3"], "weights: allowed only together with `fair`"),
        (["--weight", "acme"], "invalid weight `acme`"),
    ] {
        let (code, output) = shell.fails(&[&["queues", "limit", "post"], &args[..]].concat());
        assert!(code == 2 && output.contains(problem), "{output}");
    }
}

#[test]
fn explain_reports_why_a_job_does_not_run() {
    let shell = Shell::new();
    let id = shell.ok(&["enqueue", "echo", "1", "--queue", "post", "--concurrency-key", "acme"]);
    let actual = shell.ok(&["jobs", "explain", id.trim()]);
    assert!(actual.contains("● queued") && actual.contains("No live workers."), "{actual}");
    assert!(actual.contains("→ Start one: punctual work --queues post"), "{actual}");
    shell.ok(&["queues", "pause", "post"]);
    let actual = shell.json(&["jobs", "explain", id.trim()]);
    let causes: Vec<&str> =
        actual["reasons"].as_array().unwrap().iter().filter_map(|one| one["cause"].as_str()).collect();
    assert_eq!(causes, ["queue_paused", "no_worker"]);
    assert_eq!(shell.json(&["jobs", "show", id.trim()])["job"]["concurrency_key"], json!("acme"));
    let (code, output) = shell.fails(&["jobs", "explain", "job_0190000000007000800000000000000a"]);
    assert!(code == 3 && output.contains("job_0190000000007000800000000000000a"), "{output}");
}

#[test]
fn settings_of_a_queue_that_cannot_be_read_are_reported_until_they_are_saved_again() {
    let shell = Shell::new();
    shell.ok(&["queues", "limit", "post", "--concurrency", "1"]);
    let id = shell.ok(&["enqueue", "echo", "1", "--queue", "post"]);
    let corrupt = "update punctual_queues set settings = '{'";
    assert_eq!(Connection::open(shell.path("punctual.db")).unwrap().execute(corrupt, []).unwrap(), 1);
    let reasons = shell.json(&["jobs", "explain", id.trim()])["reasons"].clone();
    assert_eq!(reasons[0]["cause"], "queue_unreadable");
    let listed = shell.ok(&["queues", "list"]);
    assert!(listed.contains("● unreadable"), "{listed}");
    shell.ok(&["queues", "limit", "post", "--concurrency", "2"]);
    let listed = shell.ok(&["queues", "list"]);
    assert!(listed.contains("● on") && listed.contains('2'), "{listed}");
    shell.ok(&["work", "--until-empty"]);
    assert_eq!(status(&shell, id.trim()), json!("succeeded"));
}
