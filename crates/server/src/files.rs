//! How many files the system lets this process have open: each connection is one.

use std::io;

/// Asks for as many open files as the system allows this process, and says how many that are. Many systems begin with a
/// thousand.
#[cfg(unix)]
pub fn raise_file_limit() -> io::Result<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if now < most {
        setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    }
    Ok(most)
}

/// Here the system sets no limit.
#[cfg(not(unix))]
pub fn raise_file_limit() -> io::Result<u64> {
    Ok(u64::MAX)
}
