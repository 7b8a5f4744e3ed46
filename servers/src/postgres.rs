//! Starts PostgreSQL servers: in a temporary folder, on a free port, removed when this process ends.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User},
};
use tempfile::TempDir;

use crate::{
    certificate::{self, AUTHORITY, CERTIFICATE, KEY},
    debian::{self, program, unprivileged},
    disk::FaultyDisk,
    watchdog::Watchdog,
};

/// How long the server may take to start.
const START_MAX_WAIT: Duration = Duration::from_secs(60);
/// The folder of the tablespace on a disk that fails on demand.
const TABLESPACE: &str = "tablespace";

/// Whether commits must survive a loss of power: not in tests, but in benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// Commits do not wait for the disk.
    None,
    /// Commits are durable.
    Durable,
}

/// A running server. It is stopped and its folder removed when this is dropped, and also when this process is killed.
#[derive(Debug)]
pub struct Postgres {
    setup: Setup,
    watchdog: Watchdog,
    server: Child,
    folder: TempDir,
}

/// What the server is started with, also after a crash.
#[derive(Debug)]
struct Setup {
    programs: PathBuf,
    account: Option<User>,
    port: u16,
    care: Care,
    /// Environment variables of the server.
    environment: Vec<(&'static str, OsString)>,
}

impl Postgres {
    /// Starts a server; installs the programs if they are missing.
    pub fn start(care: Care) -> Result<Self> {
        Self::start_with(care, |_| Ok(Vec::new()))
    }

    /// Starts a server that also accepts TLS, as `localhost`, with a certificate issued by an
    /// [authority](Self::authority) of its own.
    pub fn start_with_tls(care: Care) -> Result<Self> {
        Self::start_with(care, |folder| certificate::make(folder).map(|()| Vec::new()))
    }

    /// Starts a server whose tablespace `faulty` is on a disk that fails on demand. Its write-ahead log is on another
    /// disk.
    pub fn start_on(disk: &FaultyDisk, care: Care) -> Result<Self> {
        let server = Self::start_with(care, |folder| {
            fs::create_dir(folder.join(TABLESPACE))?;
            Ok(disk.variables(&folder.join(TABLESPACE))?.into())
        })?;
        server.psql(&format!(
            "create tablespace faulty location '{}'",
            server.folder.path().join(TABLESPACE).display()
        ))?;
        Ok(server)
    }

    /// Creates a database, and returns its address.
    pub fn create_database(&self, name: &str) -> Result<String> {
        // Sessions of others in the usual template would make this fail.
        self.psql(&format!("create database \"{name}\" template template0"))?;
        Ok(format!("postgres://punctual@127.0.0.1:{}/{name}", self.setup.port))
    }

    /// Drops a database, and ends the sessions in it.
    pub fn drop_database(&self, name: &str) -> Result<()> {
        self.psql(&format!("drop database \"{name}\" with (force)"))
    }

    fn psql(&self, statement: &str) -> Result<()> {
        let status = Command::new(self.setup.programs.join("psql"))
            .args(["--no-psqlrc", "--quiet", "--command", statement, &self.url()])
            .status()
            .context("cannot start psql")?;
        ensure!(status.success(), "psql failed with {status}");
        Ok(())
    }

    /// `prepare` adds files to the server's folder before it starts, and returns its environment variables.
    fn start_with(care: Care, prepare: impl Fn(&Path) -> Result<Vec<(&'static str, OsString)>>) -> Result<Self> {
        let programs = debian::find_or_install("PostgreSQL", "postgresql", find)?;
        let account = unprivileged()?;
        let folder = tempfile::Builder::new().prefix("punctual-postgres-").tempdir()?;
        if let Some(account) = &account {
            chown(folder.path(), Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
        }
        let made = program(&programs.join("initdb"), account.as_ref(), folder.path())
            .args([
                "--username=punctual",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "--pgdata=data",
            ])
            .status()
            .context("cannot start initdb")?;
        ensure!(made.success(), "initdb failed with {made}");
        let environment = prepare(folder.path())?;
        for file in fs::read_dir(folder.path())?.flatten() {
            if let Some(account) = &account {
                chown(file.path(), Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
            }
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let setup = Setup { programs, account, port, care, environment };
        let server = serve(&setup, folder.path())?;
        let watchdog = Watchdog::start(folder.path(), "data/postmaster.pid", "QUIT")?;
        let started = Self { setup, watchdog, server, folder };
        started.wait()?;
        Ok(started)
    }

    /// The address of the server, with a superuser role.
    pub fn url(&self) -> String {
        format!("postgres://punctual@127.0.0.1:{}/postgres", self.setup.port)
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.setup.port
    }

    /// The file with the certificate of the authority to trust.
    pub fn authority(&self) -> PathBuf {
        self.folder.path().join(AUTHORITY)
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The errors logged since the server was ready: before that, it refuses connections that check whether it is
    /// ready.
    pub fn errors(&self) -> Vec<String> {
        let is_error = |line: &&str| line.contains("ERROR:") || line.contains("FATAL:");
        let is_ours = |line: &&str| line.contains("the database system is starting up");
        self.log().lines().filter(is_error).filter(|line| !is_ours(line)).map(str::to_owned).collect()
    }

    /// Stops the server at once, without a checkpoint, like `pg_ctl stop -m immediate`: it recovers at the next start.
    pub fn crash(&mut self) -> Result<()> {
        kill(Pid::from_raw(self.server.id() as i32), Signal::SIGQUIT)?;
        self.server.wait()?;
        Ok(())
    }

    /// Starts the server again after a crash, at the same address.
    pub fn start_again(&mut self) -> Result<()> {
        self.server = serve(&self.setup, self.folder.path())?;
        self.wait()
    }

    fn wait(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let ready = Command::new(self.setup.programs.join("pg_isready"))
                .args(["--quiet", "--host=127.0.0.1", "--username=punctual", "--dbname=postgres", "--port"])
                .arg(self.setup.port.to_string())
                .status()
                .context("cannot start pg_isready")?;
            if ready.success() {
                return Ok(());
            }
            if began.elapsed() > START_MAX_WAIT {
                bail!("PostgreSQL did not start within {} s:\n{}", START_MAX_WAIT.as_secs(), self.log());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.watchdog.end(&mut self.server);
    }
}

fn serve(setup: &Setup, folder: &Path) -> Result<Child> {
    let mut settings = vec![
        format!("port={}", setup.port),
        "listen_addresses=127.0.0.1".to_owned(),
        format!("unix_socket_directories={}", folder.display()),
        "max_connections=300".to_owned(),
        "shared_buffers=512MB".to_owned(),
        "log_lock_waits=on".to_owned(),
    ];
    if folder.join(CERTIFICATE).exists() {
        let [certificate, key] = [CERTIFICATE, KEY].map(|file| folder.join(file).display().to_string());
        settings.extend(["ssl=on".to_owned(), format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")]);
    }
    settings.extend(
        match setup.care {
            // Checkpoints are cheap if they do not wait for the disk, and disk space may be short.
            Care::None => {
                ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_wal_size=512MB"].as_slice()
            }
            Care::Durable => ["max_wal_size=4GB"].as_slice(),
        }
        .iter()
        .map(|setting| (*setting).to_owned()),
    );
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
    let mut server = program(&setup.programs.join("postgres"), setup.account.as_ref(), folder);
    server.envs(setup.environment.iter().cloned()).args(["-D", "data"]).stderr(log).process_group(0);
    for setting in &settings {
        server.args(["-c", setting]);
    }
    server.spawn().context("cannot start postgres")
}

/// The folder of PostgreSQL's programs; that of the newest version, if there are several.
fn find() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| ["initdb", "postgres", "pg_isready"].iter().all(|name| folder.join(name).exists());
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| has_all(folder))
        .collect();
    versions.sort();
    let on_path = || std::env::split_paths(&std::env::var_os("PATH")?).find(has_all);
    versions.pop().map(|(_, folder)| folder).or_else(on_path)
}
