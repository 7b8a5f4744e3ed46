//! Starts Redis servers that keep all data in memory: single servers, sentinels, and clusters.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User},
};
use tempfile::TempDir;

use crate::{certificate, debian, watchdog::Watchdog};

const START_MAX_WAIT: Duration = Duration::from_secs(30);
/// The number of hash slots of a cluster.
const SLOTS: u32 = 16_384;

/// A running server. It ends when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub struct Redis {
    program: PathBuf,
    account: Option<User>,
    port: u16,
    /// The arguments of the server, except its address.
    arguments: Vec<String>,
    watchdog: Watchdog,
    server: Child,
    folder: TempDir,
}

impl Redis {
    /// Starts a server; installs the program if it is missing.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments.
    pub fn start_with(arguments: &[&str]) -> Result<Self> {
        Self::start_prepared(|_, port| {
            let address = ["--port", &port.to_string()].map(str::to_owned);
            Ok(address.into_iter().chain(arguments.iter().map(|&one| one.to_owned())).collect())
        })
    }

    /// Starts a server that accepts only TLS, as `localhost`, with a certificate issued by an
    /// [authority](Self::authority) of its own.
    pub fn start_with_tls(arguments: &[&str]) -> Result<Self> {
        Self::start_prepared(|folder, port| {
            certificate::make(folder)?;
            let (port, path) = (port.to_string(), |file| folder.join(file).display().to_string());
            let tls = ["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file"];
            let mut all: Vec<String> = tls.iter().chain(arguments).map(|&one| one.to_owned()).collect();
            all.insert(tls.len(), path(certificate::CERTIFICATE));
            all.extend(["--tls-key-file".to_owned(), path(certificate::KEY)]);
            all.extend(["--tls-ca-cert-file".to_owned(), path(certificate::AUTHORITY)]);
            Ok(all)
        })
    }

    /// Starts a sentinel that monitors a server under the name `jobs`, with a quorum of one.
    pub fn start_sentinel(master: &Self) -> Result<Self> {
        let watched = master.port;
        Self::start_prepared(|folder, port| {
            let settings = format!(
                "port {port}\nsentinel monitor jobs 127.0.0.1 {watched} 1\nsentinel down-after-milliseconds jobs 1000\n\
                 sentinel failover-timeout jobs 5000\n"
            );
            let file = folder.join("sentinel.conf");
            fs::write(&file, settings)?;
            Ok(vec![file.display().to_string(), "--sentinel".to_owned()])
        })
    }

    /// `prepare` adds files to the server's folder before it starts, and returns its arguments.
    fn start_prepared(prepare: impl Fn(&Path, u16) -> Result<Vec<String>>) -> Result<Self> {
        let program = debian::program_on_path("redis-server", "redis-server")?;
        let account = debian::unprivileged()?;
        let folder = tempfile::Builder::new().prefix("punctual-redis-").tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let arguments = prepare(folder.path(), port)?;
        if let Some(account) = &account {
            let files = fs::read_dir(folder.path())?.flatten().map(|file| file.path());
            for path in files.chain([folder.path().to_owned()]) {
                chown(path, Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
            }
        }
        let server = serve(&program, account.as_ref(), folder.path(), &arguments)?;
        let watchdog = Watchdog::start(folder.path(), "pid", "KILL")?;
        let started = Self { program, account, port, arguments, watchdog, server, folder };
        started.wait()?;
        Ok(started)
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The file with the certificate of the authority to trust, if the server uses TLS.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join(certificate::AUTHORITY)
    }

    /// Executes one command, whose arguments must not contain blanks; returns the texts and numbers of the answer.
    pub fn execute(&self, command: &str) -> Result<Vec<String>> {
        let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", self.port))?);
        connection.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        answer(&mut connection).with_context(|| format!("`{command}` failed"))
    }

    /// Kills the server at once. All its data is lost.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.server.wait()?;
        Ok(())
    }

    /// Suspends the server: its clients wait.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Resumes the server.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.server.id() as i32), signal)?)
    }

    /// Starts the server again, empty, at the same address.
    pub fn start_again(&mut self) -> Result<()> {
        self.server = serve(&self.program, self.account.as_ref(), self.folder.path(), &self.arguments)?;
        self.wait()
    }

    fn wait(&self) -> Result<()> {
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        wait(|| TcpStream::connect(("127.0.0.1", self.port)).is_ok(), || format!("Redis did not start:\n{}", log()))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // A suspended process does not handle signals.
        let _ = self.thaw();
        self.watchdog.end(&mut self.server);
    }
}

/// A cluster of servers without replicas.
#[derive(Debug)]
pub struct RedisCluster(pub Vec<Redis>);

impl RedisCluster {
    /// Starts a cluster of this number of nodes.
    pub fn start(nodes: u32) -> Result<Self> {
        let start = |_| Redis::start_with(&["--cluster-enabled", "yes"]);
        let cluster = Self((0..nodes).map(start).collect::<Result<_>>()?);
        for (number, node) in (0..).zip(&cluster.0) {
            let (from, to) = (SLOTS * number / nodes, SLOTS * (number + 1) / nodes);
            let slots: Vec<String> = (from..to).map(|slot| slot.to_string()).collect();
            node.execute(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")))?;
            node.execute(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1))?;
            node.execute(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.0[0].port))?;
        }
        cluster.wait()?;
        Ok(cluster)
    }

    /// The address of the cluster.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.0.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Waits until each node knows all others.
    fn wait(&self) -> Result<()> {
        let known = format!("cluster_known_nodes:{}\r", self.0.len());
        let ready = |node: &Redis| {
            let info = node.execute("CLUSTER INFO").unwrap_or_default().concat();
            info.contains("cluster_state:ok") && info.contains(&known)
        };
        wait(|| self.0.iter().all(ready), || "the cluster did not come together".to_owned())
    }
}

/// Reads an answer in the protocol of Redis.
fn answer(connection: &mut impl BufRead) -> Result<Vec<String>> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    match line.trim_end().split_at_checked(1) {
        Some(("-", error)) => bail!("{error}"),
        Some(("$", "-1")) => Ok(Vec::new()),
        Some(("$", length)) => {
            let mut text = vec![0; length.parse::<usize>()? + 2];
            connection.read_exact(&mut text)?;
            Ok(vec![String::from_utf8(text)?.trim_end().to_owned()])
        }
        Some(("*", count)) => {
            let parts: Result<Vec<_>> = (0..count.parse()?).map(|_: u32| answer(connection)).collect();
            Ok(parts?.concat())
        }
        Some((_, rest)) => Ok(vec![rest.to_owned()]),
        None => bail!("there was no answer"),
    }
}

/// Waits until a condition is true.
fn wait(is_so: impl Fn() -> bool, what_else: impl Fn() -> String) -> Result<()> {
    let began = Instant::now();
    while !is_so() {
        ensure!(began.elapsed() < START_MAX_WAIT, "{}", what_else());
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn serve(program: &Path, account: Option<&User>, folder: &Path, arguments: &[String]) -> Result<Child> {
    let mut command = debian::program(program, account, folder);
    command.args(arguments).args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--daemonize", "no", "--dir"]).arg(folder);
    command.arg("--pidfile").arg(folder.join("pid")).arg("--logfile").arg(folder.join("log"));
    command.process_group(0).spawn().context("cannot start redis-server")
}
