//! Files with modes and owners, and their archives: the same bytes on every machine.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

/// Size of the blocks of a tar archive in bytes.
const BLOCK: usize = 512;
const NAME_MAX_BYTES: usize = 100;

/// Files by path, without a leading slash; folders come before their content.
#[derive(Default)]
pub(super) struct Tree(BTreeMap<String, Entry>);

struct Entry {
    mode: u32,
    /// User and group; root by default.
    owner: u32,
    /// None for folders.
    bytes: Option<Vec<u8>>,
}

impl Tree {
    /// Adds a file, and the folders that contain it.
    pub(super) fn file(&mut self, path: &str, mode: u32, bytes: impl Into<Vec<u8>>) {
        self.parents(path);
        self.0.insert(path.to_owned(), Entry { mode, owner: 0, bytes: Some(bytes.into()) });
    }

    /// Adds a copy of a file.
    pub(super) fn copy(&mut self, path: &str, mode: u32, from: &Path) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.file(path, mode, bytes);
        Ok(())
    }

    /// Adds a folder, and the folders that contain it.
    pub(super) fn folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.parents(path);
        self.0.insert(path.to_owned(), Entry { mode, owner, bytes: None });
    }

    fn parents(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            let folder = Entry { mode: 0o755, owner: 0, bytes: None };
            self.0.entry(path[..end].to_owned()).or_insert(folder);
        }
    }

    /// The paths of all files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, entry)| entry.bytes.is_some()).map(|(path, _)| path.as_str())
    }

    /// Total size of the files in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.values().filter_map(|entry| Some(entry.bytes.as_ref()?.len())).sum()
    }

    /// Writes all files below a folder, with their modes but not their owners.
    pub(super) fn write_to(&self, folder: &Path) -> Result<()> {
        for (path, entry) in &self.0 {
            let path: PathBuf = folder.join(path);
            let written = match &entry.bytes {
                Some(bytes) => fs::write(&path, bytes),
                None => fs::create_dir_all(&path),
            };
            let written = written.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(entry.mode)));
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// A tar archive (POSIX ustar) in which the prefix precedes every path; `time` is that of all files.
    pub(super) fn tar(&self, prefix: &str, time: u64) -> Result<Vec<u8>> {
        let mut tar = Vec::new();
        for (path, entry) in &self.0 {
            let bytes = entry.bytes.as_deref();
            let end = if bytes.is_none() { "/" } else { "" };
            tar.extend(header(&format!("{prefix}{path}{end}"), entry, time)?);
            tar.extend(bytes.unwrap_or_default());
            tar.resize(tar.len().next_multiple_of(BLOCK), 0);
        }
        tar.resize(tar.len() + 2 * BLOCK, 0);
        Ok(tar)
    }
}

/// The block that precedes a file.
fn header(path: &str, entry: &Entry, time: u64) -> Result<[u8; BLOCK]> {
    let (folder, name) = split(path).with_context(|| format!("the path {path} is too long for a tar archive"))?;
    let (size, kind) = entry.bytes.as_ref().map_or((0, "5"), |bytes| (bytes.len(), "0"));
    let owner = format!("{:07o}", entry.owner);
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{:07o}", entry.mode));
    put(108, &owner);
    put(116, &owner);
    put(124, &format!("{size:011o}"));
    put(136, &format!("{time:011o}"));
    // The checksum is computed as if it consisted of spaces.
    put(148, "        ");
    put(156, kind);
    put(257, "ustar\x0000");
    put(329, "0000000");
    put(337, "0000000");
    put(345, folder);
    let sum: u32 = block.iter().copied().map(u32::from).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(block)
}

/// A path in two parts that fit their fields, which are joined by a slash.
fn split(path: &str) -> Option<(&str, &str)> {
    const FOLDER_MAX_BYTES: usize = 155;
    if path.len() <= NAME_MAX_BYTES {
        return Some(("", path));
    }
    let mut parts = path.match_indices('/').map(|(at, _)| (&path[..at], &path[at + 1..]));
    parts.find(|(folder, name)| folder.len() <= FOLDER_MAX_BYTES && name.len() <= NAME_MAX_BYTES)
}

/// Compresses without a name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// The SHA-256 hash in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Tree, sha256, split};

    #[test]
    fn tar_reads_the_archive() {
        let long = format!("{}/{}/file", "a".repeat(80), "b".repeat(80));
        let mut tree = Tree::default();
        tree.file("etc/secret", 0o640, "x".repeat(600));
        tree.folder("var/lib", 0o750, 10_001);
        tree.file(&long, 0o755, "y");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.tar");
        std::fs::write(&path, tree.tar("top/", 1_700_000_000).unwrap()).unwrap();
        let listing = Command::new("tar").args(["-tv", "--numeric-owner", "-f"]).arg(&path).env("TZ", "UTC").output();
        let listing = listing.unwrap();
        assert!(listing.status.success(), "{}", String::from_utf8_lossy(&listing.stderr));
        let listing = String::from_utf8(listing.stdout).unwrap();
        let squeezed: Vec<String> =
            listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for line in [
            "-rw-r----- 0/0 600 2023-11-14 22:13 top/etc/secret",
            "drwxr-x--- 10001/10001 0 2023-11-14 22:13 top/var/lib/",
            &format!("-rwxr-xr-x 0/0 1 2023-11-14 22:13 top/{long}"),
        ] {
            assert!(squeezed.iter().any(|found| found == line), "{line} is not in {listing}");
        }
    }

    #[test]
    fn paths_that_fit_no_field_are_refused() {
        assert!(split(&"a".repeat(101)).is_none());
        assert_eq!(split("short/name"), Some(("", "short/name")));
    }

    #[test]
    fn hashes_are_those_of_sha256sum() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
