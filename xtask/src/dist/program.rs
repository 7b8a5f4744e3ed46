//! The build, and what the program prints about itself.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::root;

/// The built program.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

impl Program {
    /// Builds it with the profile `dist`.
    pub(super) fn build() -> Result<Self> {
        let args = ["build", "--locked", "--profile", "dist", "--package", "punctual-cli"];
        crate::run(Command::new(env!("CARGO")).args(args).env("RUSTFLAGS", flags()?))?;
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let path = root().join(target).join("dist/punctual");
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self { path, bytes })
    }

    /// The completions of a shell.
    pub(super) fn completions(&self, shell: &str) -> Result<Vec<u8>> {
        self.output(&["completions", shell])
    }

    /// The manual pages: names and texts.
    pub(super) fn pages(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = tempfile::tempdir()?;
        self.output(&["man", &folder.path().to_string_lossy()])?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(folder.path())? {
            let entry = entry?;
            pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
        }
        ensure!(!pages.is_empty(), "the program wrote no manual pages");
        pages.sort();
        Ok(pages)
    }

    /// The output of a command, in an empty environment and folder: neither must appear in a package.
    fn output(&self, args: &[&str]) -> Result<Vec<u8>> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&self.path);
        let output = command.args(args).env_clear().current_dir(folder.path()).output();
        let output = output.with_context(|| format!("cannot start {}", self.path.display()))?;
        let shown = args.join(" ");
        ensure!(output.status.success(), "punctual {shown}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
    }
}

/// The caller's flags for rustc, and those that remove the folders of this machine from messages of panics.
fn flags() -> Result<OsString> {
    let home = || Some(Path::new(&env::var_os("HOME")?).join(".cargo"));
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home);
    let cargo_home = cargo_home.context("neither CARGO_HOME nor HOME is set")?;
    let mut flags = env::var_os("RUSTFLAGS").unwrap_or_default();
    for (folder, name) in [(cargo_home, "/cargo"), (root(), "/punctual")] {
        flags.push(" --remap-path-prefix=");
        flags.push(folder);
        flags.push("=");
        flags.push(name);
    }
    Ok(flags)
}
