//! Packages the crates that are published, and documents the packages: what `cargo publish` would send and docs.rs
//! would build. A package that lacks a file, a readme or a version of a dependency fails here.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::{cargo, root, run as run_cargo};

/// A crate that is published.
struct Package {
    name: String,
    version: String,
}

impl Package {
    /// The name of its folder, and of its file without the extension.
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}

/// Packages all crates that are published; documents the packages.
pub(crate) fn run() -> Result<()> {
    let packages = published()?;
    let names = packages.iter().flat_map(|package| ["--package", package.name.as_str()]);
    // Nothing is compiled here: the documentation is built from the packages.
    let args: Vec<&str> = ["package", "--no-verify", "--allow-dirty", "--quiet"].into_iter().chain(names).collect();
    cargo(&args)?;
    let folder = unpack(&packages)?;
    document(&folder)?;
    eprintln!("{} crates are ready to publish", packages.len());
    Ok(())
}

/// The crates of the workspace that are published, with what crates.io requires of them.
fn published() -> Result<Vec<Package>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let all = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    // An empty list of registries means `publish = false`.
    all.iter().filter(|package| package["publish"].is_null()).map(checked).collect()
}

/// A package whose manifest is complete.
fn checked(package: &Value) -> Result<Package> {
    let name = package["name"].as_str().context("a package without a name")?;
    for field in ["description", "license", "readme", "repository", "rust_version"] {
        ensure!(package[field].is_string(), "{name}: its manifest has no {}", field.replace('_', "-"));
    }
    for (field, max_count) in [("keywords", 5), ("categories", 5)] {
        let count = package[field].as_array().map_or(0, Vec::len);
        ensure!((1..=max_count).contains(&count), "{name}: {count} {field}, expected 1 to {max_count}");
    }
    let version = package["version"].as_str().context("a package without a version")?;
    Ok(Package { name: name.to_owned(), version: version.to_owned() })
}

/// Unpacks the packages into a workspace in which they find each other; returns its folder.
fn unpack(packages: &[Package]) -> Result<PathBuf> {
    let folder = root().join("target/packaged");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for package in packages {
        let file = root().join("target/package").join(format!("{}.crate", package.folder()));
        let unpacked = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&folder).status();
        ensure!(unpacked.context("cannot start tar")?.success(), "cannot unpack {}", file.display());
    }
    let members: Vec<_> = packages.iter().map(|package| format!("{:?}", package.folder())).collect();
    let patches = packages.iter().map(|package| format!("{} = {{ path = {:?} }}\n", package.name, package.folder()));
    let patches: String = patches.collect();
    let members = members.join(", ");
    let manifest = format!("[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}");
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(folder)
}

/// Builds the documentation of all packages with all features.
fn document(folder: &Path) -> Result<()> {
    let mut doc = Command::new(env!("CARGO"));
    doc.args(["doc", "--workspace", "--no-deps", "--all-features", "--quiet", "--manifest-path"]);
    doc.arg(folder.join("Cargo.toml"));
    // The dependencies are those of the repository.
    doc.env("CARGO_TARGET_DIR", root().join("target")).env("RUSTDOCFLAGS", "--deny warnings");
    run_cargo(&mut doc)
}
