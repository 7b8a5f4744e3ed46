//! The checks of `punctual doctor` for a SQLite file.

use punctual_core::{Diagnostic, StoreResult};
use rusqlite::Connection;

use super::{clock, db::SqliteDb, error::store_error, options::Options};
use crate::ops::diagnostics::{self, diagnostic};

/// Checks for damage and unsafe settings.
pub(crate) fn check(connection: &Connection, options: &Options) -> StoreResult<Vec<Diagnostic>> {
    let mut diagnostics = vec![integrity(connection).map_err(store_error)?, journal(connection).map_err(store_error)?];
    diagnostics.extend(diagnostics::check(&SqliteDb::new(connection))?);
    diagnostics.push(log_size(options));
    diagnostics.push(clock(connection, options).map_err(store_error)?);
    Ok(diagnostics)
}

fn integrity(connection: &Connection) -> rusqlite::Result<Diagnostic> {
    let result: String = connection.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    let ok = result == "ok";
    let message = if ok { "the file is sound".to_owned() } else { format!("{result}; restore a backup") };
    Ok(diagnostic("integrity", ok, message))
}

fn journal(connection: &Connection) -> rusqlite::Result<Diagnostic> {
    let mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    let ok = mode == "wal";
    let message = if ok {
        "write-ahead log".to_owned()
    } else {
        format!("{mode} instead of wal: slow; is it on a network drive?")
    };
    Ok(diagnostic("journal", ok, message))
}

fn clock(connection: &Connection, options: &Options) -> rusqlite::Result<Diagnostic> {
    let step = clock::last_step(connection, &*options.clock)?.filter(|step| step.is_recent(options.clock.now()));
    let message = match step {
        None => "no recent clock step".to_owned(),
        Some(step) => format!(
            "{step}; leases and retries were shifted by the same amount; check the machine's time synchronisation"
        ),
    };
    Ok(diagnostic("clock", step.is_none(), message))
}

fn log_size(options: &Options) -> Diagnostic {
    const LOG_MAX_BYTES: u64 = 256 << 20;
    let mut path = options.path.clone().into_os_string();
    path.push("-wal");
    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
    let ok = bytes <= LOG_MAX_BYTES;
    let hint = if ok { "" } else { "; a long read or a stuck process prevents its checkpoint" };
    diagnostic("log", ok, format!("the write-ahead log has {} MiB{hint}", bytes >> 20))
}
