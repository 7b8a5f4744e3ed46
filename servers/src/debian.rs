//! Installs missing programs where possible, and finds an unprivileged account for servers that refuse to run as root.

use std::os::unix::process::CommandExt;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::{User, geteuid};

/// Finds a program, or installs its package.
pub(crate) fn find_or_install(what: &str, package: &str, find: impl Fn() -> Option<PathBuf>) -> Result<PathBuf> {
    // Tests run in parallel, and only one of them may install at any time.
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _turn = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = find() {
        return Ok(found);
    }
    let advice = format!("install it, on Debian with `apt-get install {package}`");
    ensure!(geteuid().is_root() && Path::new("/usr/bin/apt-get").exists(), "{what} is missing: {advice}");
    eprintln!("{what} is missing; installing it");
    for args in [["update", "--quiet"].as_slice(), ["install", "--yes", "--quiet", package].as_slice()] {
        let mut apt = Command::new("apt-get");
        let status = apt.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null()).status()?;
        ensure!(status.success(), "apt-get {} failed with {status}: {advice}", args.join(" "));
    }
    find().with_context(|| format!("{what} is missing although apt-get installed it: {advice}"))
}

/// Finds a program on the path, or installs its package.
pub fn program_on_path(name: &str, package: &str) -> Result<PathBuf> {
    let find = || {
        let folders = std::env::var_os("PATH")?;
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    find_or_install(name, package, find)
}

/// The account for servers that refuse to run as root; `None` if this process does not run as root.
pub(crate) fn unprivileged() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some(user));
        }
    }
    bail!("servers refuse to run as root, and there is no user postgres or nobody to run them as")
}

/// A command that runs the program in the folder under this account.
pub(crate) fn program(path: &Path, account: Option<&User>, folder: &Path) -> Command {
    let mut command = Command::new(path);
    if let Some(account) = account {
        command.uid(account.uid.as_raw()).gid(account.gid.as_raw());
    }
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command
}
