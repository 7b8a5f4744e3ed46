//! The Debian package, made by `dpkg-deb`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    install::Contents,
    libraries,
    release::{Release, debian_architecture},
    tree::Tree,
};
use crate::root;

/// Scripts of `packaging/deb`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Writes the package into a folder.
pub(super) fn pack(release: &Release, contents: &Contents, folder: &Path) -> Result<()> {
    let mut tree = contents.debian()?;
    let control = control(release, contents, tree.size())?;
    tree.file("DEBIAN/control", 0o644, control);
    tree.file("DEBIAN/conffiles", 0o644, configuration(&tree));
    for script in SCRIPTS {
        tree.copy(&format!("DEBIAN/{script}"), 0o755, &root().join("packaging/deb").join(script))?;
    }
    let staging = tempfile::tempdir()?;
    fs::set_permissions(staging.path(), fs::Permissions::from_mode(0o755))?;
    tree.write_to(staging.path())?;
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(staging.path()).arg(folder.join(release.deb_file()?));
    // No file is newer, and the compressed bytes do not depend on the number of processors.
    dpkg.env("SOURCE_DATE_EPOCH", release.epoch.to_string()).env("DPKG_DEB_THREADS_MAX", "1");
    let status = dpkg.stdout(Stdio::null()).status().context("cannot start dpkg-deb")?;
    ensure!(status.success(), "dpkg-deb failed with {status}");
    Ok(())
}

/// The list of files that administrators may change.
fn configuration(tree: &Tree) -> String {
    tree.paths().filter(|path| path.starts_with("etc/")).map(|path| format!("/{path}\n")).collect()
}

fn control(release: &Release, contents: &Contents, size: usize) -> Result<String> {
    let libraries = libraries::debian_packages(&contents.libraries, &contents.program.bytes)?;
    Ok(format!(
        "Package: punctual
Version: {version}
Architecture: {architecture}
Maintainer: Punctual maintainers <maintainers@punctual.invalid>
Installed-Size: {kibibytes}
Depends: adduser, {libraries}
Recommends: ca-certificates
Suggests: postgresql, redis-server
Section: admin
Priority: optional
Homepage: {homepage}
Description: durable job scheduler
 Jobs are stored in a SQLite file, PostgreSQL or SQL Server, survive crashes,
 start on time and leave a full audit trail. This package contains the program
 with its API, dashboard and workers, and services for systemd.
",
        version = release.version,
        architecture = debian_architecture()?,
        kibibytes = size.div_ceil(1024),
        homepage = env!("CARGO_PKG_REPOSITORY"),
    ))
}
