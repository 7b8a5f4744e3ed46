//! Secrets do not appear in the output of the program.

use crate::shell::Shell;

#[test]
fn errors_of_a_configuration_do_not_contain_its_values() {
    let shell = Shell::new();
    for (text, key) in [
        ("store = \"postgres://ada:hunter2@db/app\nconcurrency = 3", "line 1"),
        (
            "dispatch = \"redis://:hunter2@h\"\nstore = [\"postgres://ada:hunter2@db/app\"]",
            "line 2, column 9, key store",
        ),
        ("[worker]\nconcurrency = \"hunter2\"", "line 2, column 15, key worker.concurrency"),
        ("[worker]\nlease = \"hunter2\"", "line 2, column 9, key worker.lease"),
        ("store = \"postgres://ada:hunter2@db/app\" nonsense", "line 1"),
        ("store = 88123", "line 1, column 9, key store"),
    ] {
        std::fs::write(shell.path("punctual.toml"), text).unwrap();
        let (code, output) = shell.fails(&["stats"]);
        assert_eq!(code, 2, "{output}");
        assert!(output.contains("punctual.toml") && output.contains(key), "{text}: {output}");
        assert!(!output.contains("hunter2") && !output.contains("88123"), "{text}: {output}");
    }
}

#[test]
fn secrets_in_errors_and_logs_of_programs_are_hidden_everywhere() {
    let shell = Shell::new();
    let script = "echo 'login with password=hunter2 at https://ada:hunter2@mail' >&2; echo 'api_key=hunter2 refused' >&2; exit 1";
    let config = format!("[handlers.mail]\ncommand = [\"sh\", \"-c\", {script:?}]\n");
    std::fs::write(shell.path("punctual.toml"), config).unwrap();
    let id = shell.ok(&["enqueue", "mail", "--max-attempts", "1"]).trim().to_owned();
    let worked = shell.run(&["work", "--until-empty"]);
    let mut output = String::from_utf8_lossy(&worked.stderr).into_owned();
    for args in [&["jobs", "show", &id][..], &["jobs", "show", &id, "--json"], &["jobs", "explain", &id]] {
        output.push_str(&shell.ok(args));
    }
    assert!(output.contains("password=[redacted] at https://ada:[redacted]@mail"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
}
