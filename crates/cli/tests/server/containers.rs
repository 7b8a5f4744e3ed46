//! What containers need: the first token from the environment, health endpoints of workers, and a port that is bound
//! before anything runs.

use nix::sys::signal::Signal;

use crate::shell::{Server, Shell, get, until};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Starts a command under a variable.
fn start(shell: &Shell, args: &[&str], variable: (&str, &str)) -> Server {
    let mut command = shell.command(args);
    let errors = std::fs::File::create(shell.path("stderr")).unwrap();
    command.env(variable.0, variable.1).env("PUNCTUAL_LOG", "info").env("PUNCTUAL_LOG_FORMAT", "json");
    let (stdin, stdout) = (std::process::Stdio::null(), std::process::Stdio::null());
    Server(command.stdin(stdin).stdout(stdout).stderr(errors).spawn().unwrap())
}

fn names(shell: &Shell) -> Vec<String> {
    let tokens = shell.json(&["tokens", "list"])["tokens"].as_array().unwrap().clone();
    tokens.iter().map(|token| token["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_first_token_comes_from_the_environment_and_closes_the_store() {
    let shell = Shell::new();
    std::fs::write(shell.path("token"), format!("{SECRET}\n")).unwrap();
    let server = start(&shell, &["serve", "--workers", "0"], ("PUNCTUAL_BOOTSTRAP_TOKEN_FILE", "token"));
    let url = server.url(&shell);
    assert_eq!(get(&url, "/v1/tokens").unwrap().0, 401, "it is closed");
    let authorized = |secret: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
        let header = format!("Authorization: Bearer {secret}\r\nConnection: close\r\n\r\n");
        write!(stream, "GET /v1/tokens HTTP/1.1\r\nHost: localhost\r\n{header}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 200")
    };
    assert!(authorized(SECRET));
    assert_eq!(names(&shell), ["bootstrap"]);
    drop(server);
    // Later starts change nothing, with the same or another secret, also after the token was revoked.
    shell.ok(&["tokens", "create", "ada", "--role", "admin"]);
    let id = shell.json(&["tokens", "list"])["tokens"][0]["id"].as_str().unwrap().to_owned();
    shell.ok(&["tokens", "revoke", &id]);
    let server = start(&shell, &["serve", "--workers", "0"], ("PUNCTUAL_BOOTSTRAP_TOKEN", SECRET));
    server.url(&shell);
    assert_eq!(names(&shell), ["ada"]);
    let stderr = std::fs::read_to_string(shell.path("stderr")).unwrap();
    assert!(!stderr.contains(SECRET), "{stderr}");
}

#[test]
fn servers_that_start_at_once_create_one_token() {
    // The list of tokens is read before a server has created the store.
    let shell = Shell::with_store();
    let servers: Vec<_> =
        (0..4).map(|_| start(&shell, &["serve", "--workers", "0"], ("PUNCTUAL_BOOTSTRAP_TOKEN", SECRET))).collect();
    until("a token", || !names(&shell).is_empty());
    for server in servers {
        server.signal(Signal::SIGTERM);
        let mut server = server;
        server.0.wait().unwrap();
    }
    assert_eq!(names(&shell), ["bootstrap"]);
}

#[test]
fn a_weak_first_token_is_refused_without_being_shown() {
    let shell = Shell::new();
    let mut command = shell.command(&["serve", "--workers", "0"]);
    let output = command.env("PUNCTUAL_BOOTSTRAP_TOKEN", "hunter2").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("PUNCTUAL_BOOTSTRAP_TOKEN must be") && !stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn a_worker_has_health_endpoints_and_nothing_else() {
    let shell = Shell::new();
    let worker = start(&shell, &["work"], ("PUNCTUAL_WORK_LISTEN", "127.0.0.1:0"));
    let url = worker.url(&shell);
    assert_eq!(get(&url, "/healthz").unwrap().0, 200);
    until("it claims", || get(&url, "/readyz").is_some_and(|(status, _)| status == 200));
    let (status, metrics) = get(&url, "/metrics").unwrap();
    assert!(status == 200 && metrics.contains("punctual_worker_claimed_total"), "{metrics}");
    for path in ["/", "/v1/jobs", "/v1/openapi.json"] {
        assert_eq!(get(&url, path).unwrap().0, 404, "{path}");
    }
    let id = shell.ok(&["enqueue", "sleep", r#"{"ms": 600000}"#]).trim().to_owned();
    until("the job to run", || shell.json(&["jobs", "show", &id])["job"]["status"] == "processing");
    worker.signal(Signal::SIGTERM);
    until("it drains", || {
        get(&url, "/readyz").is_some_and(|(status, answer)| status == 503 && answer.contains("the worker is draining"))
    });
}

#[test]
fn a_busy_port_fails_before_anything_runs() {
    let shell = Shell::new();
    let id = shell.ok(&["--store", "sqlite:jobs.db", "enqueue", "noop"]).trim().to_owned();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for command in ["serve", "up", "work"] {
        let (code, stderr) = shell.fails(&["--store", "sqlite:jobs.db", command, "--listen", &address]);
        assert!(code == 1 && stderr.contains(&format!("cannot listen on {address}")), "{command}: {code} {stderr}");
        assert_eq!(shell.fails(&[command, "--listen", &address]).0, 1);
    }
    assert!(!shell.path("punctual.db").exists(), "not even a store was created");
    let job = shell.json(&["--store", "sqlite:jobs.db", "jobs", "show", &id])["job"].clone();
    assert_eq!(job["status"], "queued");
}
