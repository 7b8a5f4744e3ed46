//! `cargo xtask dist`: makes the packages in `dist/` (docs/adr/0031-packages.md).
//!
//! | file | content |
//! |---|---|
//! | `release` | version, commit and time of what is packaged |
//! | `dependencies` | the crates that the program contains |
//! | `licences` | which licences are allowed, and the texts of all licences |
//! | `spdx` | evaluates licence expressions |
//! | `sbom` | the list of the contained crates for programs |
//! | `program` | the build, and what the program prints about itself: completions and manual pages |
//! | `libraries` | shared libraries that the program needs |
//! | `tree` | files with modes and owners, and their archives |
//! | `install` | which file is installed where |
//! | `deb` | the Debian package |
//! | `image` | the OCI image |
//! | `trial` | runs the quick start of docs/install.md with each package in an empty Debian |

mod deb;
mod dependencies;
mod image;
mod install;
mod libraries;
mod licences;
mod program;
mod release;
mod sbom;
mod spdx;
mod tree;
mod trial;

use std::{fs, path::Path};

use anyhow::{Context, Result};

use crate::root;

#[derive(Debug, clap::Args)]
pub(crate) struct DistArgs {
    /// Package a tree that differs from its commit
    #[arg(long)]
    dirty: bool,
    /// Then install each package in an empty Debian and run the quick start of docs/install.md there; needs root
    #[arg(long)]
    test: bool,
}

pub(crate) fn run(args: &DistArgs) -> Result<()> {
    let release = release::Release::of_tree(args.dirty)?;
    let dependencies = dependencies::read()?;
    licences::check(&dependencies)?;
    licences::check_advisories()?;
    let contents = install::Contents::build(licences::texts(&dependencies)?)?;
    let folder = root().join("dist");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("cannot empty dist/"),
        _ => fs::create_dir_all(&folder)?,
    }
    let name = release.name();
    let tarball = tree::gzip(&contents.tarball()?.tar(&format!("{name}/"), release.epoch)?)?;
    write(&folder, &format!("{name}.tar.gz"), &tarball)?;
    deb::pack(&release, &contents, &folder)?;
    write(&folder, &release.image_file(), &image::pack(&release, &contents)?)?;
    write(&folder, &format!("{name}.cdx.json"), sbom::document(&release, &dependencies)?.as_bytes())?;
    write_checksums(&folder)?;
    if args.test {
        trial::run(&release, &folder)?;
    }
    Ok(())
}

/// Fails if the program contains a crate whose licence is not allowed.
pub(crate) fn check_licences() -> Result<()> {
    licences::check(&dependencies::read()?)
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    fs::write(folder.join(name), bytes).with_context(|| format!("cannot write dist/{name}"))
}

/// Writes and prints the checksums of all packages.
fn write_checksums(folder: &Path) -> Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut sums = String::new();
    for name in names {
        let bytes = fs::read(folder.join(&name))?;
        eprintln!("  {:>6.1} MB  dist/{name}", bytes.len() as f64 / 1e6);
        sums.push_str(&format!("{}  {name}\n", tree::sha256(&bytes)));
    }
    write(folder, "SHA256SUMS", sums.as_bytes())
}
