//! Checkers of web pages, which npm installs: axe-core for accessibility, html-validate for markup.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::debian;

/// The packages. These versions run on Node.js 18, which Debian 12 has.
const PACKAGES: [&str; 2] = ["axe-core@4.11.0", "html-validate@9.5.5"];

/// The installed checkers.
#[derive(Debug)]
pub struct PageCheckers {
    node: PathBuf,
    modules: PathBuf,
}

impl PageCheckers {
    /// Finds the checkers in the target folder, or installs them there.
    pub fn find() -> Result<Self> {
        // Tests run in parallel, and only one of them may install at any time.
        static INSTALLING: Mutex<()> = Mutex::new(());
        let _turn = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let node = debian::program_on_path("node", "nodejs")?;
        let parent = target().join("page-checkers");
        let folder = parent.join(PACKAGES.join("+"));
        if !folder.exists() {
            install(&parent, &folder)?;
        }
        Ok(Self { node, modules: folder.join("node_modules") })
    }

    /// The script that defines `axe` in a page.
    pub fn axe(&self) -> Result<String> {
        let path = self.modules.join("axe-core/axe.min.js");
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Validates pages, given by name and text, by the recommended rules of html-validate; returns what they violate.
    pub fn validate(&self, pages: &[(String, String)]) -> Result<Vec<String>> {
        let folder = tempfile::tempdir()?;
        // Checkboxes with one name are how a form sends a list.
        let shared = json!({"shared": ["radio", "checkbox", "button", "reset", "submit"]});
        let rules = json!({"form-dup-name": ["error", shared]});
        let config = json!({"root": true, "extends": ["html-validate:recommended"], "rules": rules});
        fs::write(folder.path().join(".htmlvalidate.json"), config.to_string())?;
        let mut validate = Command::new(&self.node);
        validate.arg(self.modules.join("html-validate/bin/html-validate.mjs")).args(["--formatter", "text"]);
        for (name, text) in pages {
            let file = format!("{name}.html");
            fs::write(folder.path().join(&file), text)?;
            validate.arg(file);
        }
        let output = validate.current_dir(folder.path()).stdin(Stdio::null()).output().context("cannot start node")?;
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let folder = format!("{}/", folder.path().canonicalize()?.display());
        let problems: Vec<String> = stdout.lines().map(|line| line.replace(&folder, "")).collect();
        ensure!(output.status.success() || !problems.is_empty(), "html-validate: {}: {stderr}", output.status);
        Ok(problems)
    }
}

/// The folder that cargo builds in.
fn target() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
    env::var_os("CARGO_TARGET_DIR").map_or_else(default, PathBuf::from)
}

/// Installs the packages in a temporary folder and renames it, since another process may install them as well.
fn install(parent: &Path, folder: &Path) -> Result<()> {
    let npm = debian::program_on_path("npm", "npm")?;
    eprintln!("{} are missing; installing them", PACKAGES.join(" and "));
    fs::create_dir_all(parent)?;
    let temporary = tempfile::Builder::new().prefix("installing-").tempdir_in(parent)?;
    let options = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"];
    let mut command = Command::new(npm);
    command.args(options).arg(temporary.path()).args(PACKAGES).stdin(Stdio::null());
    let output = command.output().context("cannot start npm")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "npm cannot install {}, from its registry: {stderr}", PACKAGES.join(" and "));
    let renamed = fs::rename(temporary.path(), folder);
    if folder.exists() { Ok(()) } else { renamed.context("cannot rename the folder of the installed packages") }
}
