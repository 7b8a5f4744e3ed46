//! Starts a PgBouncer in front of a PostgreSQL of this crate.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::{fs::chown, process::CommandExt},
    path::PathBuf,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{debian, postgres::Postgres, watchdog::Watchdog};

const START_MAX_WAIT: Duration = Duration::from_secs(30);

/// A running PgBouncer in transaction mode: each transaction may use another connection. It ends when this is dropped,
/// and also when this process is killed.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    watchdog: Watchdog,
    server: Child,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a pooler with this number of connections to the server.
    pub fn start(postgres: &Postgres, connections: u32) -> Result<Self> {
        let path = debian::find_or_install("PgBouncer", "pgbouncer", || {
            ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].iter().map(PathBuf::from).find(|path| path.exists())
        })?;
        let account = debian::unprivileged()?;
        let folder = tempfile::Builder::new().prefix("punctual-pgbouncer-").tempdir()?;
        if let Some(account) = &account {
            chown(folder.path(), Some(account.uid.as_raw()), Some(account.gid.as_raw()))?;
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=punctual\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 100\n\
             pidfile = {}/pid\nlogfile = {1}/log\n",
            postgres.port(),
            folder.path().display()
        );
        fs::write(folder.path().join("settings.ini"), settings)?;
        let mut command = debian::program(&path, account.as_ref(), folder.path());
        let server = command.args(["-q", "settings.ini"]).process_group(0).spawn().context("cannot start pgbouncer")?;
        let watchdog = Watchdog::start(folder.path(), "pid", "TERM")?;
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            ensure!(began.elapsed() < START_MAX_WAIT, "PgBouncer did not start:\n{}", log());
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { port, watchdog, server, _folder: folder })
    }

    /// The server's address through the pooler.
    pub fn url(&self) -> String {
        format!("postgres://punctual@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.watchdog.end(&mut self.server);
    }
}
