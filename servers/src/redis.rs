//! A Redis of our own, which keeps everything in memory.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User},
};
use tempfile::TempDir;

use crate::{debian, watchdog::Watchdog};

const START_MAX_WAIT: Duration = Duration::from_secs(30);

/// A running server. It ends when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    account: Option<User>,
    port: u16,
    watchdog: Watchdog,
    server: Child,
    folder: TempDir,
}

impl Redis {
    /// Starts a server with a program that is found, or installed.
    pub fn start() -> Result<Self> {
        let program = debian::find_or_install("Redis", "redis-server", || {
            let folders = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
            folders.iter().map(|folder| folder.join("redis-server")).find(|path| path.exists())
        })?;
        let account = debian::unprivileged()?;
        let folder = tempfile::Builder::new().prefix("punctual-redis-").tempdir()?;
        if let Some(account) = &account {
            chown(folder.path(), Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = serve(&program, account.as_ref(), folder.path(), port)?;
        let watchdog = Watchdog::start(folder.path(), "pid", "TERM")?;
        let started = Self { program, account, port, watchdog, server, folder };
        started.wait()?;
        Ok(started)
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once. It keeps nothing.
    pub fn kill(&mut self) -> Result<()> {
        kill(Pid::from_raw(self.server.id() as i32), Signal::SIGKILL)?;
        self.server.wait()?;
        Ok(())
    }

    /// Starts it again, empty, at the same address.
    pub fn start_again(&mut self) -> Result<()> {
        self.server = serve(&self.program, self.account.as_ref(), self.folder.path(), self.port)?;
        self.wait()
    }

    fn wait(&self) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            ensure!(began.elapsed() < START_MAX_WAIT, "Redis did not start:\n{}", log());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.watchdog.end(&mut self.server);
    }
}

fn serve(program: &Path, account: Option<&User>, folder: &Path, port: u16) -> Result<Child> {
    let mut command = debian::program(program, account, folder);
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--daemonize", "no", "--dir"]).arg(folder);
    command.arg("--pidfile").arg(folder.join("pid")).arg("--logfile").arg(folder.join("log"));
    command.process_group(0).spawn().context("cannot start redis-server")
}
