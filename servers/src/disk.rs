//! A disk that fails on demand, for one program: its calls of `fsync` and `write` go through a library that is built
//! here and preloaded before libc.

use std::{
    ffi::OsString,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// Each `fsync` and `fdatasync` fails with `EIO`.
    Sync,
    /// Each `write` fails with `ENOSPC`.
    Full,
}

impl DiskFault {
    const fn file(self) -> &'static str {
        match self {
            Self::Sync => "fsync",
            Self::Full => "write",
        }
    }
}

/// A disk that works until [`fail`](Self::fail) is called.
#[derive(Debug)]
pub struct FaultyDisk {
    control: TempDir,
}

impl FaultyDisk {
    /// Builds the library, which needs a C compiler.
    pub fn new() -> Result<Self> {
        let control = tempfile::tempdir()?;
        // Servers may run under another account.
        fs::set_permissions(control.path(), Permissions::from_mode(0o755))?;
        let source = control.path().join("disk_faults.c");
        fs::write(&source, include_str!("disk_faults.c"))?;
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(control.path().join("disk_faults.so")).arg(&source);
        let output = compile.arg("-ldl").output().context("cannot run the C compiler `cc`")?;
        ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Self { control })
    }

    /// The environment variables for a program whose files below `folder` are on this disk; `folder` may also be one
    /// file, together with the files next to it whose names begin with its name.
    pub fn variables(&self, folder: &Path) -> Result<[(&'static str, OsString); 3]> {
        let folder = folder.canonicalize()?;
        Ok([
            ("LD_PRELOAD", self.control.path().join("disk_faults.so").into()),
            ("DISK_FAULTS_FOLDER", folder.into()),
            ("DISK_FAULTS_CONTROL", self.control.path().into()),
        ])
    }

    /// Makes the disk fail from now on.
    pub fn fail(&self, fault: DiskFault) -> Result<()> {
        Ok(fs::write(self.control.path().join(fault.file()), "")?)
    }

    /// Makes the disk work again.
    pub fn mend(&self, fault: DiskFault) -> Result<()> {
        Ok(fs::remove_file(self.control.path().join(fault.file()))?)
    }
}
