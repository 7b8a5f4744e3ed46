//! Which file is installed where.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use super::{
    libraries,
    program::Program,
    tree::{Tree, gzip},
};
use crate::root;

/// Everything that packages contain.
pub(super) struct Contents {
    pub(super) program: Program,
    /// Shared libraries that the program needs.
    pub(super) libraries: Vec<PathBuf>,
    bash: Vec<u8>,
    zsh: Vec<u8>,
    fish: Vec<u8>,
    pages: Vec<(String, Vec<u8>)>,
    /// Licences of the crates that the program contains.
    third_party: String,
}

/// Where completions and manual pages are.
struct Layout {
    share: &'static str,
    /// The folder of zsh below `share`.
    zsh: &'static str,
    /// Debian compresses manual pages.
    compresses_pages: bool,
}

const TARBALL: Layout = Layout { share: "share", zsh: "zsh/site-functions", compresses_pages: false };
const DEBIAN: Layout = Layout { share: "usr/share", zsh: "zsh/vendor-completions", compresses_pages: true };

/// The program in the Debian package; the units name it.
const PACKAGED_PROGRAM: &str = "/usr/bin/punctual";

impl Contents {
    /// Builds the program, and collects what it prints about itself.
    pub(super) fn build(third_party: String) -> Result<Self> {
        let program = Program::build()?;
        Ok(Self {
            libraries: libraries::of(&program.path)?,
            bash: program.completions("bash")?,
            zsh: program.completions("zsh")?,
            fish: program.completions("fish")?,
            pages: program.pages()?,
            third_party,
            program,
        })
    }

    /// The tarball: a tree for /usr/local, with the configuration as an example.
    pub(super) fn tarball(&self) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.file("bin/punctual", 0o755, self.program.bytes.clone());
        self.completions_and_pages(&mut tree, &TARBALL)?;
        self.licences(&mut tree, "share/doc/punctual/")?;
        for (name, unit) in units()? {
            let unit = unit.replace(PACKAGED_PROGRAM, "/usr/local/bin/punctual");
            tree.file(&format!("lib/systemd/system/{name}"), 0o644, unit);
        }
        for file in ["punctual.toml", "default"] {
            tree.copy(&format!("share/doc/punctual/examples/{file}"), 0o644, &root().join("packaging").join(file))?;
        }
        for file in ["README.md", "CHANGELOG.md"] {
            tree.copy(&format!("share/doc/punctual/{file}"), 0o644, &root().join(file))?;
        }
        Ok(tree)
    }

    /// The files of the Debian package.
    pub(super) fn debian(&self) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.file(PACKAGED_PROGRAM.trim_start_matches('/'), 0o755, self.program.bytes.clone());
        self.completions_and_pages(&mut tree, &DEBIAN)?;
        let doc = "usr/share/doc/punctual/";
        self.licences(&mut tree, doc)?;
        let packaging = root().join("packaging");
        tree.copy(&format!("{doc}copyright"), 0o644, &packaging.join("deb/copyright"))?;
        tree.copy(&format!("{doc}README.md"), 0o644, &root().join("README.md"))?;
        let changes = fs::read(root().join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
        tree.file(&format!("{doc}changelog.gz"), 0o644, gzip(&changes)?);
        for (name, unit) in units()? {
            tree.file(&format!("usr/lib/systemd/system/{name}"), 0o644, unit);
        }
        tree.copy("etc/punctual/punctual.toml", 0o644, &packaging.join("punctual.toml"))?;
        // It may contain passwords; the group is set when the user exists.
        tree.copy("etc/default/punctual", 0o640, &packaging.join("default"))?;
        Ok(tree)
    }

    /// Adds licences below a prefix.
    pub(super) fn licences(&self, tree: &mut Tree, prefix: &str) -> Result<()> {
        for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
            tree.copy(&format!("{prefix}{file}"), 0o644, &root().join(file))?;
        }
        tree.file(&format!("{prefix}THIRD-PARTY"), 0o644, self.third_party.as_bytes());
        Ok(())
    }

    fn completions_and_pages(&self, tree: &mut Tree, layout: &Layout) -> Result<()> {
        let Layout { share, zsh, compresses_pages } = layout;
        tree.file(&format!("{share}/bash-completion/completions/punctual"), 0o644, self.bash.clone());
        tree.file(&format!("{share}/{zsh}/_punctual"), 0o644, self.zsh.clone());
        tree.file(&format!("{share}/fish/vendor_completions.d/punctual.fish"), 0o644, self.fish.clone());
        for (name, page) in &self.pages {
            match compresses_pages {
                true => tree.file(&format!("{share}/man/man1/{name}.gz"), 0o644, gzip(page)?),
                false => tree.file(&format!("{share}/man/man1/{name}"), 0o644, page.clone()),
            }
        }
        Ok(())
    }
}

/// The systemd units: names and texts.
fn units() -> Result<Vec<(&'static str, String)>> {
    let read = |name: &'static str| {
        let text = fs::read_to_string(root().join("packaging").join(name));
        Ok((name, text.with_context(|| format!("cannot read packaging/{name}"))?))
    };
    ["punctual.service", "punctual-worker@.service"].into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::{PACKAGED_PROGRAM, units};

    #[test]
    fn units_start_the_packaged_program() {
        for (name, unit) in units().unwrap() {
            assert!(unit.contains(&format!("\nExecStart={PACKAGED_PROGRAM} ")), "{name}");
        }
    }
}
