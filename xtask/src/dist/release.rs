//! Version, commit and time of what is packaged.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::root;

/// The processor architecture, in the names of Rust.
pub(super) const ARCHITECTURE: &str = std::env::consts::ARCH;

/// What is packaged.
pub(super) struct Release {
    pub(super) version: &'static str,
    pub(super) commit: String,
    /// Time of the commit in seconds since 1970: every time in a package, so that it can be reproduced.
    pub(super) epoch: u64,
    /// The same in RFC 3339.
    pub(super) created: String,
}

impl Release {
    /// Reads the commit; the tree must be equal to it unless `may_be_dirty`.
    pub(super) fn of_tree(may_be_dirty: bool) -> Result<Self> {
        let changes = git(&["status", "--porcelain"])?;
        ensure!(
            changes.is_empty() || may_be_dirty,
            "the tree differs from its commit: commit, or package it with --dirty\n{changes}"
        );
        let epoch = git(&["log", "-1", "--format=%ct"])?;
        Ok(Self {
            // Those of the workspace are equal.
            version: env!("CARGO_PKG_VERSION"),
            commit: git(&["rev-parse", "HEAD"])?,
            epoch: epoch.parse().with_context(|| format!("invalid commit time `{epoch}`"))?,
            created: git(&["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", "--format=%cd"])?,
        })
    }

    /// The name of the tarball's folder, which begins the names of other files.
    pub(super) fn name(&self) -> String {
        format!("punctual-{}-{ARCHITECTURE}-linux-gnu", self.version)
    }

    pub(super) fn image_file(&self) -> String {
        format!("punctual-{}-{ARCHITECTURE}-oci.tar", self.version)
    }

    pub(super) fn deb_file(&self) -> Result<String> {
        Ok(format!("punctual_{}_{}.deb", self.version, debian_architecture()?))
    }
}

/// The processor architecture, in the names of Debian and Go.
pub(super) fn debian_architecture() -> Result<&'static str> {
    match ARCHITECTURE {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => anyhow::bail!("no packages are made on {other}: expected x86_64 or aarch64"),
    }
}

fn git(args: &[&str]) -> Result<String> {
    let output = Command::new("git").args(args).current_dir(root()).env("TZ", "UTC").output();
    let output = output.context("cannot start git")?;
    ensure!(output.status.success(), "git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
