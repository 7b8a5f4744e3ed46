//! The limit on open files of this process; every connection needs one.

use std::io;

/// Raises the limit on open files to the maximum that the system allows, and returns it. The default of many systems is
/// about a thousand.
#[cfg(unix)]
pub fn raise_file_limit() -> io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if now < most {
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    }
    Ok(most)
}

/// No such limit exists on this system.
#[cfg(not(unix))]
pub fn raise_file_limit() -> io::Result<u64> {
    Ok(u64::MAX)
}
