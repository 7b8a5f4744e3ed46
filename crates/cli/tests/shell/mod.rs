//! Runs the program in a folder of its own, as users do.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tempfile::TempDir;

/// A folder to run the program in.
pub struct Shell(pub TempDir);

impl Shell {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with a store: most commands do not create one.
    pub fn with_store() -> Self {
        let shell = Self::new();
        shell.ok(&["migrate"]);
        shell
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        // Many servers run at once, each on its own port.
        command
            .args(args)
            .current_dir(self.0.path())
            .env_remove("PUNCTUAL_STORE")
            .env_remove("PUNCTUAL_SERVER")
            .env_remove("PUNCTUAL_TOKEN")
            .env_remove("PUNCTUAL_CONTEXT")
            // The contexts of the user are none of a test's.
            .env("XDG_CONFIG_HOME", self.0.path())
            .env("PUNCTUAL_LISTEN", "127.0.0.1:0");
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{args:?}: {stderr}{stdout}");
        stdout
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let args = [args, &["--json"]].concat();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// Runs a command that must fail; returns its exit code and its output.
    pub fn fails(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} should fail");
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
        (output.status.code().unwrap(), stderr)
    }
}

/// A server that is killed at the end of its test.
pub struct Server(pub Child);

impl Server {
    pub fn start(shell: &Shell, args: &[&str]) -> Self {
        let mut command = shell.command(args);
        let errors = std::fs::File::create(shell.path("stderr")).unwrap();
        command.env("PUNCTUAL_LOG", "info").env("PUNCTUAL_LOG_FORMAT", "json");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap())
    }

    /// The URL of the server, once it listens.
    pub fn url(&self, shell: &Shell) -> String {
        let stderr = || {
            let stderr = std::fs::read_to_string(shell.path("stderr")).unwrap_or_default();
            let from = stderr.find("http://")?;
            stderr[from..].split_whitespace().next().filter(|_| stderr[from..].contains('\n')).map(str::to_owned)
        };
        until("an address", || stderr().is_some());
        stderr().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status and the whole response of a request; `None` if the server cannot be reached.
pub fn get(url: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(url.strip_prefix("http://")?.trim_end_matches('/')).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
}

/// Waits until a condition is true.
pub fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
