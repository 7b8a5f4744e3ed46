//! Installs each package in an empty Debian without systemd, and runs the commands of docs/install.md there.
//!
//! The page marks its blocks: a block that begins with "sh deb" belongs to the package `deb`. The scripts in this
//! folder contain the line `# docs` where the next block is run as it is, and check the results. A stand-in for a
//! container engine (`docker.sh`) runs the image, since an engine needs more of the machine than a test may expect;
//! skopeo reads the image as an engine would.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use punctual_servers::program_on_path;

use super::release::Release;
use crate::root;

const PAGE: &str = include_str!("../../../../docs/install.md");

/// A package, and the script that tries it.
struct Trial {
    mark: &'static str,
    script: &'static str,
}

const TRIALS: [Trial; 3] = [
    Trial { mark: "tarball", script: include_str!("tarball.sh") },
    Trial { mark: "deb", script: include_str!("deb.sh") },
    Trial { mark: "image", script: include_str!("image.sh") },
];

const ENGINE: &str = include_str!("docker.sh");
/// The line of a script that stands for the next block of the page.
const PLACEHOLDER: &str = "# docs";
/// Packages that the scripts need, and those that an installation would otherwise download.
const INCLUDED: &str = "--include=adduser,ca-certificates,jq";
/// Maximum duration of a trial.
const TRIAL_MAX: &str = "300s";

/// Tries all packages of a folder.
pub(super) fn run(release: &Release, packages: &Path) -> Result<()> {
    read_image(&packages.join(release.image_file()), release.version)?;
    let base = debian()?;
    for trial in TRIALS {
        let script = script(&trial)?;
        let system = base.with_file_name(trial.mark);
        remove(&system)?;
        let copy = Command::new("cp").arg("--archive").args([&base, &system]).status()?;
        ensure!(copy.success(), "cannot copy {}", base.display());
        let home = system.join("root");
        for entry in fs::read_dir(packages)? {
            let entry = entry?;
            fs::copy(entry.path(), home.join(entry.file_name()))?;
        }
        fs::write(home.join("trial.sh"), script)?;
        let engine = system.join("usr/local/bin/docker");
        fs::write(&engine, ENGINE)?;
        fs::set_permissions(&engine, fs::Permissions::from_mode(0o755))?;
        try_in(&system).with_context(|| format!("the {} of {}", trial.mark, release.version))?;
        remove(&system)?;
        eprintln!("The {}: the commands of docs/install.md succeed in an empty Debian.", trial.mark);
    }
    Ok(())
}

/// Lets another program read the image, in both of its formats.
fn read_image(archive: &Path, version: &str) -> Result<()> {
    let (skopeo, archive) = (program_on_path("skopeo", "skopeo")?, archive.display());
    for source in [format!("oci-archive:{archive}:{version}"), format!("docker-archive:{archive}")] {
        let copy = tempfile::tempdir()?;
        let target = format!("dir:{}", copy.path().display());
        let args = ["--insecure-policy", "copy", "--quiet", &source, &target];
        let status = Command::new(&skopeo).args(args).status()?;
        ensure!(status.success(), "skopeo cannot read {source}: {status}");
    }
    Ok(())
}

/// Runs the script inside the system. Its namespaces end with it, and with them every process and mount.
fn try_in(system: &Path) -> Result<()> {
    let inside = "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" \
                  && exec chroot \"$0\" /bin/sh -eux /root/trial.sh";
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10s", TRIAL_MAX, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--"]);
    command.args(["sh", "-c", inside]).arg(system).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
    command.env("LC_ALL", "C.UTF-8").env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().context("cannot start timeout")?;
    ensure!(status.success(), "the script failed with {status}; its last command is above");
    Ok(())
}

/// An empty Debian of this machine's release, made once.
fn debian() -> Result<PathBuf> {
    let debootstrap = program_on_path("debootstrap", "debootstrap")?;
    let system = fs::read_to_string("/etc/os-release").context("this is not Debian")?;
    let suite = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.context("/etc/os-release names no release of Debian")?;
    let folder = root().join("target/trial");
    let base = folder.join(suite);
    if !base.exists() {
        let partial = folder.join("partial");
        remove(&partial)?;
        fs::create_dir_all(&folder)?;
        let mut command = Command::new(debootstrap);
        let status = command.args(["--variant=minbase", INCLUDED, suite]).arg(&partial).status()?;
        ensure!(status.success(), "debootstrap failed with {status}");
        fs::rename(&partial, &base)?;
    }
    Ok(base)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The script of a trial with the blocks of the page.
fn script(trial: &Trial) -> Result<String> {
    let mut blocks = blocks(trial.mark).into_iter();
    let mut script = String::new();
    for line in trial.script.lines() {
        let line = match line == PLACEHOLDER {
            true => blocks.next().with_context(|| format!("docs/install.md has too few blocks `sh {}`", trial.mark))?,
            false => line,
        };
        script.push_str(line);
        script.push('\n');
    }
    ensure!(blocks.next().is_none(), "docs/install.md has more blocks `sh {}` than the trial runs", trial.mark);
    Ok(script)
}

/// The blocks of the page with a mark.
fn blocks(mark: &str) -> Vec<&'static str> {
    let block = |text: &'static str| {
        let (name, rest) = text.split_once('\n')?;
        (name.trim() == mark).then(|| rest.split_once("\n```").map(|(block, _)| block))?
    };
    PAGE.split("```sh ").skip(1).filter_map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::{PAGE, TRIALS, script};

    #[test]
    fn every_marked_block_of_the_page_is_tried() {
        for trial in &TRIALS {
            script(trial).unwrap();
        }
        let marked = PAGE.split("```sh ").skip(1).map(|text| text.lines().next().unwrap_or_default());
        for mark in marked {
            assert!(TRIALS.iter().any(|trial| trial.mark == mark), "no trial runs the block `sh {mark}`");
        }
    }

    #[test]
    fn the_page_names_the_files_of_this_version() {
        let version = env!("CARGO_PKG_VERSION");
        for name in [
            format!("punctual-{version}-x86_64-linux-gnu.tar.gz"),
            format!("punctual_{version}_amd64.deb"),
            format!("punctual-{version}-x86_64-oci.tar"),
            format!("punctual:{version}"),
        ] {
            assert!(PAGE.contains(&name), "docs/install.md does not mention {name}");
        }
    }
}
