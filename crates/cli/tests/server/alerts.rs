//! Alerts of `up` and `serve`, sent to a receiver that verifies them as docs/alerts.md describes.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::shell::{Server, Shell, until};

const SECRET: &str = "a secret that both sides know";

/// What the receiver does with a request; the verification is that of the documentation.
const RECEIVER: &str = r#"
import http.server, json, os, ssl, sys

class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        right = verified(self.headers, body, os.environ["SECRET"].encode())
        wrong = verified(self.headers, body + b" ", os.environ["SECRET"].encode())
        print(json.dumps({"right": right, "wrong": wrong, "alert": json.loads(body)}), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(json.dumps({"port": server.server_port}), flush=True)
server.serve_forever()
"#;

/// A receiver that is killed at the end of its test.
struct Receiver(Child);

impl Receiver {
    fn start(shell: &Shell, certificate: &[&str]) -> Self {
        let python = punctual_servers::program_on_path("python3", "python3").unwrap();
        let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/alerts.md")).unwrap();
        let snippet = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
        let file = std::fs::File::create(shell.path("received")).unwrap();
        let mut command = Command::new(python);
        command.arg("-c").arg(format!("{snippet}{RECEIVER}")).args(certificate).current_dir(shell.0.path());
        Self(command.env("SECRET", SECRET).stdin(Stdio::null()).stdout(file).spawn().unwrap())
    }

    /// The output of the receiver so far, one JSON document per line.
    fn received(shell: &Shell) -> Vec<Value> {
        let received = std::fs::read_to_string(shell.path("received")).unwrap();
        received.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn port(shell: &Shell) -> u64 {
        until("the receiver", || !Self::received(shell).is_empty());
        Self::received(shell)[0]["port"].as_u64().unwrap()
    }

    /// The alerts received, once there are `count`.
    fn alerts(shell: &Shell, count: usize) -> Vec<Value> {
        until("alerts", || Self::received(shell).len() > count);
        let alerts = Self::received(shell).split_off(1);
        for alert in &alerts {
            assert!(alert["right"] == true && alert["wrong"] == false, "{alert}");
        }
        alerts.into_iter().map(|mut alert| alert["alert"].take()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until alerts are watched: jobs that died before cause no alert.
fn until_the_first_check(shell: &Shell) {
    until("the first check", || shell.run(&["schedules", "show", "punctual.alerts"]).status.success());
}

fn configure(shell: &Shell, url: &str) {
    std::fs::write(shell.path("alerts.secret"), format!("{SECRET}\n")).unwrap();
    let config = format!(
        "[alerts]\ngather = \"0s\"\nhold = \"0s\"\ncheck_interval = \"200ms\"\n\
         [alerts.webhooks.ops]\nurl = \"{url}\"\nsecret_file = \"alerts.secret\"\n"
    );
    std::fs::write(shell.path("punctual.toml"), config).unwrap();
}

#[test]
fn several_processes_send_one_alert_that_is_verified_as_documented() {
    let shell = Shell::new();
    let _receiver = Receiver::start(&shell, &[]);
    configure(&shell, &format!("http://127.0.0.1:{}/", Receiver::port(&shell)));
    let _server = Server::start(&shell, &["serve", "--workers", "2"]);
    until_the_first_check(&shell);
    let id =
        shell.ok(&["enqueue", "fail", r#"{"message": "no such mailbox"}"#, "--max-attempts", "1"]).trim().to_owned();
    let first = Receiver::alerts(&shell, 1).remove(0);
    assert_eq!(first["kind"], "dead_jobs");
    assert_eq!(first["jobs"], serde_json::json!([id]));
    shell.ok(&["enqueue", "nobody", "--queue", "lost"]);
    let alerts = Receiver::alerts(&shell, 2);
    assert_eq!(alerts.len(), 2);
    assert_eq!(alerts[1]["kind"], "no_workers");
    assert_eq!(alerts[1]["queue"], "lost");
    let stderr = std::fs::read_to_string(shell.path("stderr")).unwrap();
    assert!(stderr.contains("alert: 1 job of fail died"), "{stderr}");
    assert!(!stderr.contains(SECRET), "the secret is not logged");
}

#[test]
fn a_webhook_of_the_environment_uses_tls_with_trusted_certificates() {
    let shell = Shell::new();
    let openssl = punctual_servers::program_on_path("openssl", "openssl").unwrap();
    let arguments =
        "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost -addext";
    let mut make = Command::new(openssl);
    // Not a certificate authority, since their certificates are not accepted for servers.
    let extensions = ["subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
    make.args(arguments.split(' ')).args(extensions).current_dir(shell.0.path());
    assert!(make.output().unwrap().status.success());
    let _receiver = Receiver::start(&shell, &["cert.pem", "key.pem"]);
    let url = format!("https://localhost:{}/", Receiver::port(&shell));
    std::fs::write(shell.path("punctual.toml"), "[alerts]\ngather = \"0s\"\ncheck_interval = \"200ms\"\n").unwrap();
    let start = |trusted: bool| {
        let mut command = shell.command(&["work"]);
        command.env("PUNCTUAL_ALERT_URL", &url).env("PUNCTUAL_ALERT_SECRET", SECRET);
        if trusted {
            command.env("SSL_CERT_FILE", shell.path("cert.pem"));
        }
        Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let doubting = start(false);
    until_the_first_check(&shell);
    shell.ok(&["enqueue", "fail", "--max-attempts", "1"]);
    let list = || shell.json(&["jobs", "list", "--queue", "punctual.alerts"])["jobs"].clone();
    until("it to be refused", || list()[0]["status"] == "retrying");
    let why = list()[0]["error"]["message"].to_string();
    assert!(why.contains("TLS handshake failed") && why.contains("ertificate"), "{why}");
    assert_eq!(Receiver::received(&shell).len(), 1, "no process has read it");
    drop(doubting);
    let _trusting = start(true);
    assert_eq!(Receiver::alerts(&shell, 1)[0]["kind"], "dead_jobs");
}

#[test]
fn invalid_settings_are_refused_at_the_start_by_their_field() {
    let shell = Shell::new();
    let refused = |config: &str, expected: &str| {
        std::fs::write(shell.path("punctual.toml"), config).unwrap();
        let (code, stderr) = shell.fails(&["work", "--until-empty"]);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(expected), "{expected}: {stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
    };
    std::fs::write(shell.path("secret"), "0123456789abcdef").unwrap();
    let webhook = |url: &str, rest: &str| format!("[alerts.webhooks.ops]\nurl = \"{url}\"\n{rest}\n");
    let file = "secret_file = \"secret\"";
    refused(&webhook("ftp://x/s3cret", file), "alerts.webhooks.ops.url: invalid URL; expected https://");
    refused(&webhook("http://a:s3cret@x/", file), "alerts.webhooks.ops.url: must not contain a user or a password");
    refused(&webhook("http://x/", ""), "alerts.webhooks.ops.secret_file: is missing");
    refused(
        &webhook("http://x/", "secret_env = \"NOT_THERE\""),
        "alerts.webhooks.ops.secret_env: environment variable NOT_THERE",
    );
    refused(&webhook("http://x/", "secret_file = \"missing\""), "alerts.webhooks.ops.secret_file: cannot read");
    refused(
        &webhook("http://x/", &format!("{file}\nkinds = [\"dead\"]")),
        "key alerts.webhooks.ops.kinds: expected a list of dead_jobs",
    );
    refused(&webhook("http://x/", &format!("{file}\nkinds = []")), "alerts.webhooks.ops.kinds: must not be empty");
    refused(
        &webhook("http://x/", &format!("{file}\ntimeout = \"2h\"")),
        "alerts.webhooks.ops.timeout: must be between",
    );
    refused("[alerts]\nlate_after = \"0s\"\n", "alerts.late_after: must be between");
    refused("[alerts]\nreminder_interval = \"0s\"\n", "alerts.reminder_interval: must be between");
    refused("[alerts]\ndashboard = \"x\"\n", "alerts.dashboard: invalid URL");
    refused("[alerts]\nwebhook = 1\n", "unknown key `webhook`; did you mean `webhooks`?");
    std::fs::write(shell.path("punctual.toml"), "").unwrap();
    let (code, stderr) = shell.fails(&["work", "--until-empty", "--alert-url", "http://x/"]);
    assert!(code == 2 && stderr.contains("--alert-url: a signing secret is required"), "{stderr}");
}
