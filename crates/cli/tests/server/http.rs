//! The API of `up` and `serve`: tokens, listen addresses, and the examples of docs/http.md.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use crate::shell::{Server, Shell, until};

/// The commands that a page of the documentation shows.
fn typed(page: &str) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.collect::<Vec<_>>().join("\n")
}

#[test]
fn commands_of_the_documentation_work() {
    punctual_servers::program_on_path("curl", "curl").unwrap();
    let shell = Shell::new();
    let server = Server::start(&shell, &["up"]);
    let script = typed("http.md").replace("http://127.0.0.1:7878", &server.url(&shell));
    let folder = Path::new(env!("CARGO_BIN_EXE_punctual")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    let bash = bash.args(["-euo", "pipefail", "-c", &script]).current_dir(shell.0.path()).env("PATH", path);
    let output = bash.env_remove("PUNCTUAL_STORE").stdin(Stdio::null()).output().unwrap();
    let (stdout, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}\n{stdout}");
    assert_eq!(stdout.matches("urn:punctual:problem").count(), 1, "the one that is shown: {stdout}");
    assert!(stdout.contains(r#""code":"invalid","detail":"priority: must be between 0 and 10, not 11""#), "{stdout}");
    assert!(stdout.contains(r#"{"held":[true]}{"settled":[true]}{"jobs":0}"#), "{stdout}");
    let start = stdout.find(r#"{"jobs":[{"id":"#).unwrap();
    let (first, rest) = stdout[start..].split_at(stdout[start..].find("]}").unwrap() + 2);
    assert!(rest.starts_with(first), "twice the same jobs: {stdout}");
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let shell = Shell::new();
    let secret = shell.ok(&["tokens", "create", "deploy", "--role", "read,enqueue", "--expires", "90d"]);
    assert!(secret.starts_with("punctual_") && secret.lines().count() == 1, "only the secret: {secret}");
    let list = shell.json(&["tokens", "list"]);
    let id = list["tokens"][0]["id"].as_str().unwrap();
    assert_eq!(list["tokens"][0]["roles"], serde_json::json!(["read", "enqueue"]));
    assert!(!list.to_string().contains(secret.trim()));
    assert!(shell.ok(&["tokens", "list"]).contains("read, enqueue"));
    assert!(shell.ok(&["tokens", "revoke", id]).contains("is revoked"));
    assert_eq!(shell.fails(&["tokens", "revoke", id]).0, 3);
    assert_eq!(shell.json(&["tokens", "list"])["tokens"], serde_json::json!([]));
    let access = || {
        let actual: serde_json::Value = serde_json::from_slice(&shell.run(&["doctor", "--json"]).stdout).unwrap();
        let diagnostics = actual["diagnostics"].as_array().unwrap();
        diagnostics.iter().find(|diagnostic| diagnostic["check"] == "access").unwrap()["message"].to_string()
    };
    assert!(access().contains("no token is valid; create one with `punctual tokens create`"), "{}", access());
    shell.ok(&["tokens", "create", "ada", "--role", "admin"]);
    assert!(access().contains("closed: 1 valid tokens"), "{}", access());
    assert_eq!(shell.fails(&["tokens", "open"]).0, 5);
    let id = shell.json(&["tokens", "list"])["tokens"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(shell.fails(&["tokens", "revoke", &id]).0, 5);
    shell.ok(&["tokens", "revoke", "--allow-last-admin", &id]);
    shell.ok(&["tokens", "open"]);
    assert!(access().contains("open: no token was created yet"), "{}", access());
    for wrong in [
        &["tokens", "create", "x", "--role", "root"][..],
        &["tokens", "create", "x"],
        &["tokens", "create", "", "--role", "read"],
    ] {
        assert_eq!(shell.fails(wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn a_server_is_not_open_to_other_machines() {
    let shell = Shell::new();
    let serve = ["serve", "--workers", "0", "--listen", "0.0.0.0:0"];
    let (code, stderr) = shell.fails(&serve);
    assert_eq!(code, 5);
    assert!(stderr.contains("punctual tokens create"), "{stderr}");
    shell.ok(&["tokens", "create", "admin", "--role", "admin"]);
    let (code, stderr) = shell.fails(&serve);
    assert_eq!(code, 5);
    assert!(stderr.contains("--tls-cert"), "{stderr}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stderr) = shell.fails(&["serve", "--workers", "0", "--listen", &address]);
    assert_eq!(code, 1);
    assert!(stderr.contains("--listen"), "{stderr}");
    assert_eq!(shell.fails(&["serve", "--listen", "everywhere"]).0, 2);
    assert_eq!(shell.fails(&["up", "--tls-cert", "a.pem"]).0, 2);
}

/// A worker in Python that is killed at the end of its test.
struct Remote(std::process::Child);

impl Remote {
    fn start(shell: &Shell, url: &str) -> Self {
        let python = punctual_servers::program_on_path("python3", "python3").unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/remote-worker/worker.py");
        let log = std::fs::File::options().create(true).append(true).open(shell.path("worker")).unwrap();
        let mut command = Command::new(python);
        command.arg(example).env("PUNCTUAL_URL", url).env("LEASE", "2").stdin(Stdio::null());
        Self(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_remote_worker_or_the_server_is_killed_and_another_worker_continues() {
    let shell = Shell::new();
    let mut server = Server::start(&shell, &["serve", "--workers", "0"]);
    let url = server.url(&shell);
    let history = |id: &str| shell.json(&["jobs", "show", id]);
    let status = |id: &str| history(id)["job"]["status"].clone();

    let id = shell.ok(&["enqueue", "resize", r#"{"image": 7, "seconds": 5}"#]).trim().to_owned();
    let first = Remote::start(&shell, &url);
    until("the job to run", || status(&id) == "processing");
    drop(first);
    let second = Remote::start(&shell, &url);
    until("the job to end", || status(&id) == "succeeded");
    let actual = history(&id);
    assert_eq!(actual["job"]["result_preview"], serde_json::json!({"resized": 7}));
    let attempts: Vec<_> = actual["attempts"].as_array().unwrap().iter().map(|one| one["status"].clone()).collect();
    assert_eq!(attempts, ["lost", "succeeded"]);

    let _ = server.0.kill();
    let _ = server.0.wait();
    let later = shell.ok(&["enqueue", "resize", r#"{"image": 8}"#]).trim().to_owned();
    let address = url.strip_prefix("http://").unwrap();
    let server = Server::start(&shell, &["serve", "--workers", "0", "--listen", address]);
    until("the next job to end", || status(&later) == "succeeded");

    nix::sys::signal::kill(nix::unistd::Pid::from_raw(second.0.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let pids = || {
        shell.json(&["workers", "list"])["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| worker["pid"].clone())
            .collect::<Vec<_>>()
    };
    until("the worker to leave", || !pids().contains(&second.0.id().into()));
    drop(server);
}
