//! A store in a temporary folder, shared by the examples.

/// Creates a folder that is removed at the end, and the URL of a store in it.
pub fn temporary_store() -> std::io::Result<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
    Ok((folder, url))
}
