//! Ends servers when the process that started them ends, even if that process is killed.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

/// A shell that outlives this process: it waits for the end of its input, then ends the server at once, kills the
/// processes that were started with a file of the folder, and removes the folder.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Watches the server whose process id is in the first line of a file of that folder. The signal must end it at
    /// once, and the server must handle it: a shell makes background processes ignore some unhandled signals.
    pub(crate) fn start(folder: &Path, pid_file: &str, signal: &str) -> Result<Self> {
        let script = r#"trap '' INT TERM HUP; cat >/dev/null; pid=$(head -n 1 "$1/$2" 2>/dev/null)
            if [ -n "$pid" ]; then kill -"$3" "$pid" 2>/dev/null
            while kill -0 "$pid" 2>/dev/null && [ -e "$1/$2" ]; do sleep 0.05; done; fi
            for other in $(grep -slF "$1/" /proc/[0-9]*/cmdline | cut -d / -f 3); do kill -KILL "$other" 2>/dev/null; done
            rm -rf "$1""#;
        let mut watchdog = Command::new("sh")
            .args(["-c", script, "punctual-watchdog"])
            .arg(folder)
            .args([pid_file, signal])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start sh")?;
        // Nothing is written to the shell; only the end of its input counts.
        watchdog.stdin.as_mut().map_or(Ok(()), Write::flush)?;
        Ok(Self(watchdog))
    }

    /// Makes the shell end the server, and waits for that.
    pub(crate) fn end(&mut self, server: &mut Child) {
        drop(self.0.stdin.take());
        // The server's process exists until it is waited for, and the watchdog waits for its end.
        let _ = server.wait();
        let _ = self.0.wait();
    }
}
