//! `punctual config`, and settings in variables and files.

use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::shell::Shell;

fn run(shell: &Shell, args: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = shell.command(args);
    let Output { status, stdout, stderr } =
        command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn write(shell: &Shell, name: &str, text: &str) {
    std::fs::write(shell.path(name), text).unwrap();
}

/// The value and the source of a key that `config show` lists.
fn shown(shell: &Shell, key: &str, variables: &[(&str, &str)]) -> (Value, String) {
    let (code, stdout, stderr) = run(shell, &["config", "show", "--json"], variables);
    assert_eq!(code, 0, "{stderr}");
    let shown: Value = serde_json::from_str(&stdout).unwrap();
    let row = shown["keys"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap();
    (row["value"].clone(), row["source"].as_str().unwrap().to_owned())
}

#[test]
fn flags_take_precedence_over_variables_and_these_over_the_file() {
    let shell = Shell::new();
    write(&shell, "punctual.toml", "store = \"sqlite:file.db\"\n[worker]\nconcurrency = 1\n");
    shell.ok(&["migrate"]);
    assert!(shell.path("file.db").exists());
    assert_eq!(run(&shell, &["migrate"], &[("PUNCTUAL_STORE", "sqlite:variable.db")]).0, 0);
    assert!(shell.path("variable.db").exists());
    let flag = ["--store", "sqlite:flag.db", "migrate"];
    assert_eq!(run(&shell, &flag, &[("PUNCTUAL_STORE", "sqlite:other.db")]).0, 0);
    assert!(shell.path("flag.db").exists() && !shell.path("other.db").exists());
    assert_eq!(shown(&shell, "worker.concurrency", &[]), (json!(1), "punctual.toml:3".to_owned()));
    let variables = [("PUNCTUAL_WORKER__CONCURRENCY", "2"), ("PUNCTUAL_RETENTION__DEAD", "9d")];
    assert_eq!(shown(&shell, "worker.concurrency", &variables), (json!(2), "PUNCTUAL_WORKER__CONCURRENCY".to_owned()));
    assert_eq!(shown(&shell, "retention.dead", &variables), (json!("9d"), "PUNCTUAL_RETENTION__DEAD".to_owned()));
    assert_eq!(shown(&shell, "retention.succeeded", &[]), (json!("7d"), "default".to_owned()));
}

#[test]
fn variables_configure_queues_schedules_and_handlers_without_a_file() {
    let shell = Shell::new();
    let variables = [
        ("PUNCTUAL_QUEUES__mail__PRIORITY", "8"),
        ("PUNCTUAL_QUEUES__mail__LIMITS__RATE", "100/1m"),
        ("PUNCTUAL_SCHEDULES__nightly__CRON", "@daily"),
        ("PUNCTUAL_SCHEDULES__nightly__JOB", "echo"),
        ("PUNCTUAL_SCHEDULES__nightly__PAYLOAD", "{\"n\": [1, 2]}"),
        ("PUNCTUAL_HANDLERS__greet__COMMAND", "[\"sh\", \"-c\", \"echo '\\\"hello\\\"'\"]"),
    ];
    let id = shell.ok(&["enqueue", "greet"]).trim().to_owned();
    let (code, _, stderr) = run(&shell, &["work", "--until-empty"], &variables);
    assert_eq!(code, 0, "{stderr}");
    assert!(!stderr.contains("warning"), "{stderr}");
    assert_eq!(shell.json(&["jobs", "show", &id])["job"]["result_preview"], "hello");
    assert_eq!(shell.json(&["schedules", "show", "nightly"])["schedule"]["payload_preview"]["n"][1], 2);
    let id = shell.ok(&["enqueue", "echo", "1", "--queue", "mail"]);
    assert_eq!(shell.json(&["jobs", "show", id.trim()])["job"]["priority"], 8);
}

#[test]
fn unknown_variables_are_warned_about_once() {
    let shell = Shell::with_store();
    let (code, _, stderr) = run(&shell, &["stats"], &[("PUNCTUAL_STOER", "hunter2"), ("PUNCTUAL_JOB_ID", "job_1")]);
    assert_eq!(code, 0);
    assert_eq!(stderr, "warning: unknown variable PUNCTUAL_STOER; did you mean PUNCTUAL_STORE?\n");
}

#[test]
fn secrets_may_be_in_files() {
    let shell = Shell::new();
    write(&shell, "url", "sqlite:secret.db\n");
    let (code, _, stderr) = run(&shell, &["migrate"], &[("PUNCTUAL_STORE_FILE", "url")]);
    assert_eq!(code, 0, "{stderr}");
    assert!(shell.path("secret.db").exists());
    write(&shell, "punctual.toml", "store_file = \"url\"\n");
    assert_eq!(shown(&shell, "store", &[]), (json!("sqlite:secret.db"), "punctual.toml:1".to_owned()));
    for (variables, expected) in [
        (vec![("PUNCTUAL_STORE_FILE", "absent")], "PUNCTUAL_STORE_FILE: cannot read absent"),
        (vec![("PUNCTUAL_STORE_FILE", "url"), ("PUNCTUAL_STORE", "hunter2")], "are both set; set one of them"),
        (vec![("PUNCTUAL_WORKER__LEASE", "hunter2")], "PUNCTUAL_WORKER__LEASE: expected a duration"),
    ] {
        let (code, stdout, stderr) = run(&shell, &["stats"], &variables);
        assert!(code == 2 && stderr.contains(expected), "{code}: {stderr}");
        assert!(!stderr.contains("hunter2") && !stdout.contains("hunter2"), "{stderr}");
    }
}

#[test]
fn config_check_finds_what_would_fail_later() {
    let shell = Shell::new();
    assert!(shell.ok(&["config", "check"]).contains("the configuration is valid"));
    assert!(!shell.path("punctual.db").exists(), "it does not connect");
    let text = "dispatch = \"nonsense\"\n[schedules.x]\ncron = \"61 * * * *\"\njob = \"echo\"\n\
                [queues.mail]\npriority = 77\n[handlers.gone]\ncommand = [\"no-such-program\"]\n\
                [alerts.webhooks.ops]\nurl = \"https://x/\"\nsecret_file = \"absent\"\n";
    write(&shell, "punctual.toml", text);
    let variables = [("PUNCTUAL_BOOTSTRAP_TOKEN", "hunter2"), ("PUNCTUAL_WORKERS", "hunter2")];
    let (code, stdout, stderr) = run(&shell, &["config", "check", "--json"], &variables);
    assert_eq!(code, 2, "{stderr}");
    let checked: Value = serde_json::from_str(&stdout).unwrap();
    let problems = checked["problems"].to_string();
    for expected in [
        "dispatch is not supported by SQLite",
        "[schedules.x] of the configuration",
        "[queues.mail] of the configuration: priority",
        "program `no-such-program` not found",
        "alerts.webhooks.ops.secret_file: cannot read",
        "PUNCTUAL_BOOTSTRAP_TOKEN must be 24 to 256",
        "PUNCTUAL_WORKERS: invalid",
    ] {
        assert!(problems.contains(expected), "{expected}: {problems}");
    }
    assert!(!problems.contains("hunter2"), "{problems}");
    write(&shell, "punctual.toml", "[handlers.gone]\ncommand = [\"no-such-program\"]\n");
    shell.ok(&["migrate"]);
    let doctor = shell.run(&["doctor"]);
    let stdout = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(!doctor.status.success() && stdout.contains("program `no-such-program` not found"), "{stdout}");
}

#[test]
fn config_show_hides_secrets() {
    let shell = Shell::new();
    write(&shell, "punctual.toml", "[handlers.x]\ncommand = [\"true\"]\nenv = { KEY = \"hunter2\" }\n");
    let variables = [("PUNCTUAL_STORE", "postgres://ada:hunter2@db/app"), ("PUNCTUAL_DISPATCH", "redis://:hunter2@h")];
    for args in [&["config", "show"][..], &["config", "show", "--json"]] {
        let (code, stdout, stderr) = run(&shell, args, &variables);
        assert_eq!(code, 0, "{stderr}");
        assert!(stdout.contains("postgres://[redacted]") && stdout.contains("handlers.x.env.KEY"), "{stdout}");
        assert!(!stdout.contains("hunter2") && !stderr.contains("hunter2"), "{stdout}");
    }
    let keys = shell.ok(&["config", "keys"]);
    assert!(keys.contains("PUNCTUAL_RETENTION__SUCCEEDED") && keys.contains("--drain-timeout"), "{keys}");
}

#[test]
fn nonsense_in_the_variables_of_the_log_is_reported() {
    let shell = Shell::with_store();
    for (variable, value, expected) in [
        ("PUNCTUAL_LOG", "nonsense", "warning: PUNCTUAL_LOG: invalid level `nonsense`"),
        ("PUNCTUAL_LOG", "info,punctual=loud", "warning: PUNCTUAL_LOG: invalid level `punctual=loud`"),
        ("PUNCTUAL_LOG_FORMAT", "xml", "warning: PUNCTUAL_LOG_FORMAT: unknown format `xml`"),
    ] {
        let (code, _, stderr) = run(&shell, &["stats"], &[(variable, value)]);
        assert!(code == 0 && stderr.starts_with(expected), "{stderr}");
    }
    let (_, _, stderr) = run(&shell, &["stats"], &[("PUNCTUAL_LOG", "off"), ("PUNCTUAL_LOG_FORMAT", "json")]);
    assert_eq!(stderr, "");
}
