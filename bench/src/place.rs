//! A store of the benchmark's own, made for one run and removed after it.

use anyhow::{Result, bail};
use punctual::Punctual;
use tempfile::TempDir;

/// Where a scenario works.
#[derive(Debug)]
pub struct Place {
    /// The address of the store.
    pub url: String,
    /// The engine.
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// The settings that matter.
    pub settings: String,
    folder: TempDir,
}

impl Place {
    /// A place for the engine that `store` names. What `store` itself holds is looked at, never touched.
    pub async fn new(store: &str) -> Result<Self> {
        let Some(rest) = store.strip_prefix("sqlite:") else {
            bail!("cannot measure {store}: this build measures sqlite: stores");
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = std::path::Path::new(path.trim_start_matches("//"));
        // Beside the store that was named, so that it measures the disk that the user means.
        let beside = path.parent().filter(|folder| folder.is_dir() && path.exists());
        let folder = match beside {
            Some(folder) => tempfile::tempdir_in(folder)?,
            None => tempfile::tempdir()?,
        };
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let url = format!("sqlite:{}{query}", folder.path().join("bench.db").display());
        let info = Punctual::connect(&url).await?.store().info();
        let settings = if query.contains("normal") { "synchronous=normal" } else { "synchronous=full" };
        Ok(Self {
            url,
            engine: info.engine.to_owned(),
            engine_version: info.version,
            settings: format!("{settings}, wal"),
            folder,
        })
    }

    /// A connection to an empty store in this place.
    pub async fn fresh(&self, name: &str) -> Result<Punctual> {
        Ok(Punctual::connect(&self.fresh_url(name)).await?)
    }

    /// The address of an empty store in this place.
    pub fn fresh_url(&self, name: &str) -> String {
        let query = self.url.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
        format!("sqlite:{}{query}", self.folder.path().join(format!("{name}.db")).display())
    }
}
