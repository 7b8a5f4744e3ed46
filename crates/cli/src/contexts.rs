//! Named servers with their tokens, in a file of the user.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::{
    config::file::located,
    exit::{NotFound, Usage},
    secret::Secret,
};

/// Why a file cannot be opened that this process does not have.
const ABSENT: [ErrorKind; 3] = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];

/// The contexts of the user.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Contexts {
    /// The context that is used if no store and no other server is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    #[serde(rename = "contexts")]
    pub(crate) by_name: BTreeMap<String, SavedContext>,
}

/// A server, and how to access it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedContext {
    pub(crate) server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
}

impl Contexts {
    /// Reads the file; there are no contexts if it does not exist, or if its folder is closed to this process, as the
    /// home of another user is to a service.
    pub(crate) fn read() -> Result<Self> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if ABSENT.contains(&error.kind()) => return Ok(Self::default()),
            Err(error) => return Err(Usage(format!("cannot read the contexts {}: {error}", path.display())).into()),
        };
        check_mode(&path)?;
        let wrong = |error| Usage(format!("in the contexts {}, {}", path.display(), located(&text, &error)));
        Ok(toml::from_str(&text).map_err(wrong)?)
    }

    /// The context with this name.
    pub(crate) fn find(&self, name: &str) -> Result<&SavedContext> {
        let unknown = || NotFound(format!("context {name} not found; `punctual context list` lists all"));
        Ok(self.by_name.get(name).ok_or_else(unknown)?)
    }

    /// Replaces the file as a whole; only the user can read it.
    pub(crate) fn write(&self) -> Result<()> {
        let path =
            path().ok_or_else(|| Usage("no folder for contexts: neither HOME nor XDG_CONFIG_HOME is set".into()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let cannot = || format!("cannot write the contexts {}", path.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(cannot)?;
        // A temporary file is readable by its user only.
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
        file.write_all(toml::to_string(self)?.as_bytes()).with_context(cannot)?;
        file.as_file().sync_all().with_context(cannot)?;
        file.persist(&path).with_context(cannot)?;
        Ok(())
    }
}

/// `~/.config/punctual/contexts.toml`, or the same file in the folder of XDG_CONFIG_HOME.
fn path() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("punctual").join("contexts.toml"))
}

/// Refuses a file with tokens that other users can read.
fn check_mode(path: &Path) -> Result<(), Usage> {
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o777);
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(Usage(format!(
        "the contexts {path} have the mode {mode:04o}: other users can read the tokens; chmod 600 {path}"
    )))
}
