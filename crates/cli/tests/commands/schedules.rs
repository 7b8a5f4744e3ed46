//! `punctual schedules`, and the schedules of `punctual.toml`.

use punctual::sqlite::rusqlite::Connection;
use serde_json::Value;

use crate::shell::Shell;

/// Runs a worker that synchronises the schedules of the file and stops; returns its output.
fn synchronise(shell: &Shell, toml: &str) -> String {
    std::fs::write(shell.path("punctual.toml"), toml).unwrap();
    let output = shell.run(&["work", "--until-empty"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_schedule_is_put_shown_paused_triggered_filled_and_deleted() {
    let shell = Shell::new();
    let added = shell.ok(&[
        "schedules",
        "put",
        "nightly",
        "0 2 * * *",
        "echo",
        r#"{"token": "hush", "n": 1}"#,
        "--zone",
        "Asia/Tokyo",
        "--misfire",
        "catch-up-limited:3",
        "--overlap",
        "skip",
        "--jitter",
        "30s",
        "--queue",
        "reports",
        "--tag",
        "night",
    ]);
    assert!(added.starts_with("nightly added: At 02:00; next run in "), "{added}");
    let list = shell.json(&["schedules", "list"]);
    let schedule = &list["schedules"][0];
    assert_eq!((&schedule["cron"], &schedule["zone"]), (&"0 2 * * *".into(), &"Asia/Tokyo".into()));
    assert_eq!((&schedule["misfire"], &schedule["overlap"]), (&"catch-up-limited:3".into(), &"skip".into()));
    assert_eq!((&schedule["payload_preview"]["token"], &schedule["queue"]), (&"[redacted]".into(), &"reports".into()));
    for (command, state) in [("pause", "paused"), ("resume", "● on")] {
        shell.ok(&["schedules", command, "nightly"]);
        assert!(shell.ok(&["schedules", "list"]).contains(state), "{command}");
    }
    let id = shell.ok(&["schedules", "trigger", "nightly"]);
    let filled = shell.json(&["schedules", "backfill", "nightly", "--since", "72h"]);
    assert_eq!(filled["enqueued"].as_array().unwrap().len(), 3);
    let again = shell.json(&["schedules", "backfill", "nightly", "--since", "72h"]);
    assert_eq!((&again["enqueued"], &again["existing"]), (&Value::Array(Vec::new()), &3.into()));
    shell.ok(&["work", "--until-empty"]);
    let detail = shell.json(&["schedules", "show", "nightly"]);
    assert_eq!((detail["upcoming"].as_array().unwrap().len(), detail["jobs"].as_array().unwrap().len()), (5, 4));
    let listed = shell.json(&["jobs", "list", "--schedule", "nightly", "--tag", "night"]);
    assert!(listed["jobs"].as_array().unwrap().iter().any(|job| job["id"] == id.trim()));
    let text = shell.ok(&["schedules", "show", "nightly"]);
    assert!(text.contains("Next runs") && text.contains("Last jobs") && !text.contains("hush"), "{text}");
    assert!(shell.ok(&["jobs", "show", id.trim()]).contains("of nightly"));
    assert_eq!(shell.ok(&["schedules", "delete", "nightly"]), "nightly deleted\n");
    assert_eq!(shell.fails(&["schedules", "show", "nightly"]).0, 3);
}

#[test]
fn the_next_runs_of_an_expression_need_no_store() {
    let shell = Shell::new();
    let runs = shell.json(&["schedules", "preview", "--cron", "0 12 29 2 *", "--zone", "Asia/Tokyo", "-n", "2"]);
    let runs: Vec<&str> = runs["upcoming"].as_array().unwrap().iter().map(|run| run.as_str().unwrap()).collect();
    assert!(runs.len() == 2 && runs.iter().all(|run| run.ends_with("-02-29T03:00:00.000000Z")), "{runs:?}");
    assert!(!shell.path("punctual.db").exists());
}

/// The stored schedule is wrong, not the command line.
#[test]
fn a_broken_schedule_is_refused_and_not_wrong_usage() {
    let shell = Shell::new();
    shell.ok(&["schedules", "put", "nightly", "@daily", "echo", "--zone", "Europe/Berlin"]);
    let breaks = "update punctual_schedules set definition = replace(definition, 'Europe/Berlin', 'Atlantis/Centre'), \
                  enabled = 0, next_run_at = null, problem = 'zone: unknown time zone `Atlantis/Centre`'";
    assert_eq!(Connection::open(shell.path("punctual.db")).unwrap().execute(breaks, []).unwrap(), 1);
    for args in [["preview", "nightly"].as_slice(), &["resume", "nightly"], &["backfill", "nightly", "--since", "48h"]]
    {
        let (code, stderr) = shell.fails(&[&["schedules"], args].concat());
        assert!(code == 5 && stderr.contains("the schedule nightly is broken: zone: unknown"), "{args:?}: {stderr}");
    }
    let (code, stderr) = shell.fails(&["schedules", "preview", "--cron", "@daily", "--zone", "Atlantis/Centre"]);
    assert!(code == 2 && stderr.contains("zone: unknown time zone"), "{stderr}");
}

#[test]
fn bad_schedules_are_refused_with_the_field_and_a_caret() {
    let shell = Shell::with_store();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["put", "x", "0 25 * * *", "echo"], 2, "  0 25 * * *\n    ^^"),
        (&["put", "x", "0 0 31 2 *", "echo"], 2, "`0 0 31 2 *` never runs: no such date exists"),
        (&["put", "x", "@daily", "echo", "--zone", "Mars/Base"], 2, "zone: unknown time zone `Mars/Base`"),
        (&["put", "x", "@daily", "echo", "--overlap", "maybe"], 2, "expected allow, skip or cancel-previous"),
        (&["put", "x", "@daily", "echo", "--priority", "11"], 2, "priority: must be between 0 and 10, not 11"),
        (&["put", "x", "@daily", "echo", "{"], 2, "is not JSON"),
        (&["backfill", "x", "--since", "1h"], 3, "schedule `x` not found"),
        (&["pause", "x"], 3, "schedule `x` not found"),
    ];
    for (args, code, problem) in cases {
        let (found, stderr) = shell.fails(&[&["schedules"], args].concat());
        assert!(found == code && stderr.contains(problem), "{args:?}: {found}, {stderr}");
    }
    assert_eq!(shell.json(&["schedules", "list"])["schedules"], Value::Array(Vec::new()));
}

#[test]
fn the_files_schedules_are_synchronised_and_others_skipped() {
    let shell = Shell::new();
    shell.ok(&["schedules", "put", "mine", "@daily", "echo"]);
    let first = "[schedules.a]\ncron = \"@hourly\"\njob = \"echo\"\npayload = { n = [1, 2] }\n\
                 [schedules.b]\ncron = \"@every 90s\"\njob = \"noop\"\nstart = 2026-12-01T00:00:00Z\ntags = [\"t\"]\n\
                 [schedules.mine]\ncron = \"@hourly\"\njob = \"noop\"\n";
    let stderr = synchronise(&shell, first);
    assert!(stderr.contains("schedules added: a, b") && stderr.contains("schedule mine not changed"), "{stderr}");
    let view = shell.json(&["schedules", "show", "a"]);
    assert_eq!(
        (&view["schedule"]["owner"], &view["schedule"]["payload_preview"]["n"][1]),
        (&"punctual.toml".into(), &2.into())
    );
    let stderr = synchronise(&shell, "[schedules.a]\ncron = \"@daily\"\njob = \"echo\"\n");
    assert!(stderr.contains("schedules changed: a") && stderr.contains("warning: removed the schedule b"), "{stderr}");
    let (code, stderr) = shell.fails(&["schedules", "put", "a", "@hourly", "echo"]);
    assert!(code == 5 && stderr.contains("is defined by punctual.toml; change it there"), "{stderr}");
    // A file without schedules changes nothing; one with an empty table removes them.
    synchronise(&shell, "[worker]\nconcurrency = 2\n");
    assert_eq!(shell.json(&["schedules", "list"])["schedules"].as_array().unwrap().len(), 2);
    synchronise(&shell, "[schedules]\n");
    assert_eq!(shell.json(&["schedules", "list"])["schedules"].as_array().unwrap().len(), 1);
    for (toml, problem) in [
        ("[schedules.x]\ncron = \"* * *\"\njob = \"echo\"\n", "needs five fields"),
        ("[schedules.x]\ncron = \"@daily\"\n", "[schedules.x] of the configuration: key `job` is missing"),
        ("[schedules.x]\ncron = \"@daily\"\njob = \"echo\"\ncolour = 1\n", "unknown key `colour`"),
        ("[schedules.x]\ncron = \"@daily\"\njob = \"echo\"\nmisfire = \"often\"\n", "expected run-once"),
        ("[schedules.x]\ncron = \"@daily\"\njob = \"echo\"\npriority = 77\n", "[schedules.x] of the configuration"),
    ] {
        std::fs::write(shell.path("punctual.toml"), toml).unwrap();
        let (code, stderr) = shell.fails(&["work", "--until-empty"]);
        assert!(code == 2 && stderr.contains(problem), "{toml}: {code}, {stderr}");
    }
}
