//! The crates that the program contains.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::release::ARCHITECTURE;
use crate::root;

/// A crate, ours or another's.
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression, if its manifest has one.
    pub(super) licence: Option<String>,
    /// The folder of its sources.
    pub(super) folder: PathBuf,
    /// SHA-256 of its archive; none for the crates of this workspace.
    pub(super) checksum: Option<String>,
    /// Package URLs of the crates that it uses itself.
    pub(super) uses: Vec<String>,
}

impl Dependency {
    /// Its package URL.
    pub(super) fn url(&self) -> String {
        url(&self.name, &self.version)
    }
}

fn url(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The program's crate and all crates that are compiled into it, by name; those of builds and tests are not.
pub(super) fn read() -> Result<Vec<Dependency>> {
    let metadata = metadata()?;
    let checksums = checksums()?;
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = list(&metadata["resolve"]["nodes"]);
    let uses: BTreeMap<&str, Vec<&str>> = nodes.filter_map(|node| Some((node["id"].as_str()?, used(node)))).collect();
    let program = packages.iter().find(|(_, package)| package["name"] == "punctual-cli");
    let (program, _) = program.context("cargo metadata does not name punctual-cli")?;
    let (mut found, mut open) = (BTreeSet::from([*program]), vec![*program]);
    while let Some(id) = open.pop() {
        open.extend(uses.get(id).into_iter().flatten().filter(|used| found.insert(**used)));
    }
    let url_of = |id: &&str| packages.get(id).map(|package| url(text(package, "name"), text(package, "version")));
    let dependency = |id: &str| {
        let package = packages.get(id)?;
        let (name, version) = (text(package, "name").to_owned(), text(package, "version").to_owned());
        Some(Dependency {
            licence: package["license"].as_str().map(str::to_owned),
            folder: Path::new(text(package, "manifest_path")).parent()?.to_path_buf(),
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            uses: uses.get(id).into_iter().flatten().filter_map(url_of).collect(),
            name,
            version,
        })
    };
    let mut dependencies: Vec<Dependency> = found.into_iter().filter_map(dependency).collect();
    dependencies.sort_by_key(Dependency::url);
    Ok(dependencies)
}

fn metadata() -> Result<Value> {
    let platform = format!("{ARCHITECTURE}-unknown-linux-gnu");
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &platform];
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The ids of the crates that a crate uses at run time.
fn used(node: &Value) -> Vec<&str> {
    let is_normal = |used: &&Value| list(&used["dep_kinds"]).any(|kind| kind["kind"].is_null());
    list(&node["deps"]).filter(is_normal).filter_map(|used| used["pkg"].as_str()).collect()
}

/// The checksums in Cargo.lock, by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock")).context("cannot read Cargo.lock")?.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let field = |package: &toml::Value, name: &str| Some(package.get(name)?.as_str()?.to_owned());
    let entry = |package| Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?));
    Ok(packages.filter_map(entry).collect())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'v>(package: &'v Value, field: &str) -> &'v str {
    package[field].as_str().unwrap_or_default()
}
