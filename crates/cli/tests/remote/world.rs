//! A store with a server in front of it, and servers that misbehave.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use punctual::{Punctual, Role, admin::Retention};
use punctual_server::{RunningServer, Server, Tls};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::shell::Shell;

/// A folder with a store, and a server without workers for that store in this process.
pub(crate) struct World {
    pub(crate) shell: Shell,
    pub(crate) url: String,
    pub(crate) punctual: Punctual,
    pub(crate) runtime: Runtime,
    _server: RunningServer,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| None)
    }

    /// A server with the certificate that `tls` creates in the folder.
    pub(crate) fn with(tls: impl FnOnce(&Shell) -> Option<Tls>) -> Self {
        let (shell, runtime) = (Shell::new(), Runtime::new().unwrap());
        let tls = tls(&shell);
        let store = format!("sqlite:{}", shell.path("punctual.db").display());
        let (punctual, server) = runtime.block_on(async {
            let punctual = Punctual::connect(&store).await.unwrap();
            let server = Server::new(punctual.clone()).tls(tls).retention(Retention::default());
            (punctual, server.start("127.0.0.1:0".parse().unwrap()).await.unwrap())
        });
        // Certificates are for this name.
        let url = server.url().replace("127.0.0.1", "localhost");
        Self { shell, url, punctual, runtime, _server: server }
    }

    /// The secret of a new token with this role.
    pub(crate) fn token(&self, role: Role) -> String {
        let admin = self.punctual.admin("test");
        self.runtime.block_on(admin.create_token(role.as_str(), [role], None)).unwrap().secret
    }

    fn remotely<'a>(&'a self, args: &[&'a str]) -> Vec<&'a str> {
        [&["--server", self.url.as_str()], args].concat()
    }

    /// The output of a command over HTTP.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.shell.ok(&self.remotely(args))
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.shell.json(&self.remotely(args))
    }

    pub(crate) fn fails(&self, args: &[&str]) -> (i32, String) {
        self.shell.fails(&self.remotely(args))
    }

    /// Runs a command over HTTP with a token.
    pub(crate) fn run_as(&self, token: &str, args: &[&str]) -> Output {
        let mut command = self.shell.command(&self.remotely(args));
        command.env("PUNCTUAL_TOKEN", token).stdin(Stdio::null()).output().unwrap()
    }
}

/// A server that answers as a test tells it.
pub(crate) struct Fake {
    pub(crate) url: String,
    /// The requests, with their heads and bodies.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

/// An answer of a [`Fake`].
pub(crate) enum Reply {
    Json(&'static str),
    /// A whole response.
    Raw(&'static str),
    /// Closes the connection.
    Close,
    /// Keeps the connection open without an answer.
    Silence,
}

/// What a server of this version answers to the first request.
pub(crate) const SERVER: &str =
    concat!(r#"{"version":""#, env!("CARGO_PKG_VERSION"), r#"","store":"sqlite:x","now":"2026-03-01T12:00:00Z"}"#);

impl Fake {
    /// Answers each request with the reply to it and to the number of requests before it.
    pub(crate) fn start(reply: impl Fn(&str, usize) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        // Ends with the process.
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                let before = seen.lock().unwrap().len();
                seen.lock().unwrap().push(request.clone());
                let json = |body: &str| {
                    let length = body.len();
                    format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                    )
                };
                // The client may have gone.
                let _ = match reply(&request, before) {
                    Reply::Json(body) => stream.write_all(json(body).as_bytes()),
                    Reply::Raw(response) => stream.write_all(response.as_bytes()),
                    Reply::Close => Ok(()),
                    Reply::Silence => {
                        silent.push(stream);
                        Ok(())
                    }
                };
            }
        });
        Self { url, requests }
    }
}

/// Reads a request with its body; `None` if the client closed the connection.
fn read(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut part) {
            Ok(count @ 1..) => bytes.extend(&part[..count]),
            _ => return None,
        }
    }
}
