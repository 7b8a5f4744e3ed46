//! Servers end with whoever started them, even if that one is killed.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

/// A shell that outlives us: it waits for the end of its input, then ends a server at once, with whatever else was
/// started on a file of its folder, and removes the folder.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Watches the server whose process id is in the first line of a file of that folder, and which a signal ends at
    /// once. One that it has no handler for would not do: a shell lets what it starts in the background ignore some.
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
        // Nothing is to be said; only the end of it counts.
        watchdog.stdin.as_mut().map_or(Ok(()), Write::flush)?;
        Ok(Self(watchdog))
    }

    /// Has it end the server, and waits for that.
    pub(crate) fn end(&mut self, server: &mut Child) {
        drop(self.0.stdin.take());
        // Only then the server's process is quite gone, which the watchdog waits for.
        let _ = server.wait();
        let _ = self.0.wait();
    }
}
