//! Stores that cannot be used, are damaged, or run out of space.

use std::{path::Path, process::Command};

use serde_json::Value;

use crate::shell::Shell;

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

/// Commands that read or change what a store has, in a folder without one.
const OF_EXISTING_STORES: [&[&str]; 20] = [
    &["stats"],
    &["jobs", "list"],
    &["jobs", "cancel", "--queue", "a", "--yes"],
    &["queues", "list"],
    &["queues", "pause", "mail"],
    &["queues", "resume", "mail"],
    &["schedules", "list"],
    &["schedules", "pause", "nightly"],
    &["workflows", "list"],
    &["workers", "list"],
    &["locks", "list"],
    &["locks", "release", "x"],
    &["tokens", "list"],
    &["tokens", "open"],
    &["report", "pending"],
    &["cleanup"],
    &["doctor"],
    &["top", "--once"],
    &["jobs", "show", "job_00000000000070008000000000000000"],
    &["schedules", "delete", "nightly"],
];
/// Commands that store something new.
const OF_NEW_STORES: [&[&str]; 7] = [
    &["enqueue", "noop"],
    &["work", "--until-empty"],
    &["migrate"],
    &["queues", "limit", "mail", "--concurrency", "3"],
    &["queues", "defaults", "mail", "--priority", "3"],
    &["schedules", "put", "nightly", "@daily", "noop"],
    &["tokens", "create", "ops", "--role", "admin"],
];

#[test]
fn only_commands_that_store_something_new_create_a_store() {
    for args in OF_EXISTING_STORES {
        let shell = Shell::new();
        let (code, stderr) = shell.fails(args);
        let expected = "no database at sqlite:punctual.db: create it with `punctual migrate` or `punctual up`";
        assert!(code == 4 && stderr.contains(expected), "{args:?}: {code} {stderr}");
        assert_eq!(std::fs::read_dir(shell.0.path()).unwrap().count(), 0, "{args:?}");
    }
    for args in OF_NEW_STORES {
        let shell = Shell::new();
        shell.ok(args);
        assert_eq!(shell.json(&["stats"])["jobs"]["dead"], 0, "{args:?}");
    }
    let shell = Shell::new();
    std::fs::write(shell.path("punctual.db"), "").unwrap();
    let (code, stderr) = shell.fails(&["stats"]);
    assert!(code == 4 && stderr.contains("no Punctual schema at sqlite:punctual.db"), "{code} {stderr}");
    assert_eq!(std::fs::read(shell.path("punctual.db")).unwrap(), b"");
}

#[test]
fn nothing_is_added_to_the_file_of_another_program_unless_it_is_to_be_shared() {
    let shell = Shell::new();
    sqlite(&shell.path("punctual.db"), "create table orders (id integer); insert into orders values (7)");
    let before = std::fs::read(shell.path("punctual.db")).unwrap();
    for args in OF_EXISTING_STORES.iter().chain(&OF_NEW_STORES) {
        let (code, stderr) = shell.fails(args);
        let expected = "belongs to another program: it has tables such as `orders`";
        assert!(code == 4 && stderr.contains(expected), "{args:?}: {code} {stderr}");
        assert_eq!(std::fs::read(shell.path("punctual.db")).unwrap(), before, "{args:?}");
        assert_eq!(std::fs::read_dir(shell.0.path()).unwrap().count(), 1, "{args:?}");
    }
    shell.ok(&["migrate", "--alongside"]);
    shell.ok(&["enqueue", "noop"]);
    shell.ok(&["work", "--until-empty"]);
    assert_eq!(shell.json(&["stats"])["jobs"]["succeeded"], 1);
    sqlite(&shell.path("punctual.db"), "update orders set id = id + 1");
}

#[test]
fn a_missing_schema_of_a_server_is_reported_and_not_created() {
    let shell = Shell::new();
    let server = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
    let store = format!("{server}?schema=absent_{:016x}", fastrand::u64(..));
    for _ in 0..2 {
        let (code, stderr) = shell.fails(&["stats", "--store", &store]);
        assert!(code == 4 && stderr.contains("no Punctual schema at postgres://"), "{code} {stderr}");
    }
    shell.ok(&["migrate", "--store", &store]);
    assert_eq!(shell.json(&["stats", "--store", &store])["jobs"]["dead"], 0);
}

#[test]
fn an_error_of_a_server_does_not_name_the_lines_of_its_source() {
    let server = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
    let (code, stderr) = Shell::new().fails(&["stats", "--store", &format!("{server}?user=no_such_role")]);
    assert!(code == 4 && stderr.contains("check user, password and database"), "{code} {stderr}");
    assert!(!stderr.contains("at line"), "{stderr}");
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

#[test]
fn doctor_finds_problems() {
    let shell = Shell::with_store();
    assert_eq!(shell.json(&["doctor"])["ok"], true);
    shell.ok(&["enqueue", "nobody-runs-this"]);
    let output = shell.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("no live worker has a handler for `nobody-runs-this` in queue `default`"), "{stdout}");
    sqlite(&shell.path("punctual.db"), "update punctual_counts set n = 7");
    let stdout = String::from_utf8_lossy(&shell.run(&["doctor"]).stdout).into_owned();
    assert!(stdout.contains("counters are wrong"), "{stdout}");
    sqlite(&shell.path("punctual.db"), "delete from punctual_ready");
    let stdout = String::from_utf8_lossy(&shell.run(&["doctor"]).stdout).into_owned();
    assert!(stdout.contains("inconsistent index entries: 1"), "{stdout}");
}
