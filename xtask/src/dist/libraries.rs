//! Shared libraries that the program needs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

/// The paths of all shared libraries, with those that the libraries need, and the loader.
pub(super) fn of(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot start ldd")?;
    ensure!(output.status.success(), "ldd: {}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout)?;
    let mut paths = Vec::new();
    for line in output.lines() {
        ensure!(!line.contains("not found"), "a shared library is missing: {line}");
        // The kernel provides one without a path.
        let words = line.split_whitespace().filter(|word| word.starts_with('/'));
        paths.extend(words.map(PathBuf::from));
    }
    Ok(paths)
}

/// The Debian packages of the libraries, in the format of `Depends`.
pub(super) fn debian_packages(libraries: &[PathBuf], program: &[u8]) -> Result<String> {
    let minor = glibc_minor(program).context("the program names no version of glibc")?;
    let mut packages = vec![format!("libc6 (>= 2.{minor})")];
    for library in libraries {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        match name.split(['.', '-']).next().unwrap_or_default() {
            "libc" | "libm" | "libdl" | "libpthread" | "librt" | "ld" => {}
            "libgcc_s" => packages.push("libgcc-s1".into()),
            _ => bail!("{name}: add the Debian package of this library to xtask/src/dist/libraries.rs"),
        }
    }
    Ok(packages.join(", "))
}

/// The minor version of glibc that the program's symbols need, which is 2.x.
fn glibc_minor(program: &[u8]) -> Option<u32> {
    let texts = program.split(|byte| *byte == 0);
    let minors = texts.filter_map(|text| std::str::from_utf8(text.strip_prefix(b"GLIBC_2.")?).ok());
    minors.filter_map(|minor| minor.split('.').next()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::debian_packages;

    #[test]
    fn the_dependencies_follow_from_libraries_and_symbols() {
        let libraries = ["/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        let mut libraries = libraries.map(PathBuf::from).to_vec();
        let symbols = b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(debian_packages(&libraries, symbols).unwrap(), "libc6 (>= 2.34), libgcc-s1");
        libraries.push("/lib/libssl.so.3".into());
        assert!(debian_packages(&libraries, symbols).unwrap_err().to_string().contains("libssl.so.3"));
    }
}
