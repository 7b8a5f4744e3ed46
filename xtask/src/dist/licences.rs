//! Which licences are allowed, and the texts of all licences.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{dependencies::Dependency, spdx::is_satisfied};
use crate::root;

/// Beginnings of the names of files with licences, in capitals.
const FILES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// Fails if the program contains a crate whose licence deny.toml does not allow.
pub(super) fn check(dependencies: &[Dependency]) -> Result<()> {
    let rules: toml::Table = fs::read_to_string(root().join("deny.toml")).context("cannot read deny.toml")?.parse()?;
    let allowed = rules.get("licenses").and_then(|licenses| licenses.get("allow")?.as_array());
    let allowed = allowed.context("deny.toml has no licenses.allow")?;
    let is_allowed = |licence: &str| allowed.iter().any(|allowed| allowed.as_str() == Some(licence));
    let mut problems = Vec::new();
    for dependency in dependencies {
        let (name, version) = (&dependency.name, &dependency.version);
        match dependency.licence.as_deref() {
            Some(licence) if is_satisfied(licence, &is_allowed).with_context(|| name.clone())? => {}
            Some(licence) => problems.push(format!("{name} {version}: deny.toml does not allow {licence}")),
            None => problems.push(format!("{name} {version}: its manifest names no licence")),
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    eprintln!("The licences of {} crates are allowed by deny.toml.", dependencies.len());
    Ok(())
}

/// Lets cargo-deny check advisories and sources, where it is installed.
pub(super) fn check_advisories() -> Result<()> {
    let is_installed = Command::new("cargo-deny").arg("--version").stdout(Stdio::null()).status().is_ok();
    if is_installed {
        return crate::cargo(&["deny", "check", "advisories", "bans", "licenses", "sources"]);
    }
    eprintln!("Advisories were not checked: install cargo-deny (`cargo install --locked cargo-deny`).");
    Ok(())
}

/// The file THIRD-PARTY: a list of all crates, and each text with the crates that it belongs to.
pub(super) fn texts(dependencies: &[Dependency]) -> Result<String> {
    let others: Vec<&Dependency> = dependencies.iter().filter(|dependency| dependency.checksum.is_some()).collect();
    let mut page = "The program `punctual` contains these crates:\n\n".to_owned();
    // Texts by their words: many differ in their line breaks only.
    let mut texts: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for dependency in others {
        let name = format!("{} {}", dependency.name, dependency.version);
        page.push_str(&format!("  {name}: {}\n", dependency.licence.as_deref().unwrap_or("see below")));
        for text in texts_in(&dependency.folder)? {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.entry(words).or_insert((text, Vec::new())).1.push(name.clone());
        }
    }
    let mut texts: Vec<(String, Vec<String>)> = texts.into_values().collect();
    texts.sort_by(|(_, crates), (_, other)| crates.cmp(other));
    for (text, mut crates) in texts {
        crates.dedup();
        page.push_str(&format!("\n{}\n{}\n\n{}\n", "=".repeat(80), crates.join(", "), text.trim_end()));
    }
    Ok(page)
}

/// The texts of the licences in a folder.
fn texts_in(folder: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let is_licence = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && FILES.iter().any(|file| name.starts_with(file))
    };
    paths.iter().filter(is_licence).map(|path| Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())).collect()
}
