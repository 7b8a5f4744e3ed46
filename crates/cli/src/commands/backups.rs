//! What `punctual backup` and `punctual restore` share.

use std::path::{Path, PathBuf};

use anyhow::Result;
use punctual::{
    core::StoreError,
    sqlite::{BackupContents, Options},
};

use crate::{
    exit::{Refusal, Usage},
    format,
    output::progress_bar,
};

/// How PostgreSQL is backed up; docs/backups.md has the same commands.
const POSTGRES: &str = "PostgreSQL is backed up with its own tools:\n  \
    pg_dump --format=custom --schema=SCHEMA --file=punctual.dump DATABASE_URL\n  \
    pg_restore --clean --if-exists --no-owner --dbname=DATABASE_URL punctual.dump\n\
    or with base backups and continuous archiving (pg_basebackup) for recovery to a point in time; see docs/backups.md";

/// How SQL Server is backed up; docs/backups.md has the same commands.
const SQL_SERVER: &str = "SQL Server is backed up with its own statements:\n  \
    backup database app to disk = N'/backups/app.bak' with checksum, init\n  \
    restore database app from disk = N'/backups/app.bak' with checksum, replace\n\
    see docs/backups.md";

/// The file of the store. Other engines than SQLite are refused.
pub(super) fn store_file(url: &str, command: &str) -> Result<PathBuf> {
    let refuse = |how: &str| Err(Refusal(format!("`punctual {command}` supports SQLite only. {how}")).into());
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("postgres" | "postgresql") => refuse(POSTGRES),
        Some("sqlserver" | "mssql") => refuse(SQL_SERVER),
        Some("sqlite") => {
            let file = url.split('?').next().unwrap_or(url);
            Ok(file.parse::<Options>().map_err(punctual::Error::from)?.path)
        }
        _ => {
            // The URL may contain a password; only its scheme is repeated.
            let scheme = url.chars().take_while(|c| *c != ':').take(32).collect();
            Err(punctual::Error::from(StoreError::UnknownScheme { scheme, expected: "sqlite".to_owned() }).into())
        }
    }
}

/// Refuses `-`: a backup is renamed when it is complete, and a restore reads its pages in any order.
pub(super) fn check_is_file(file: &Path) -> Result<()> {
    if file == Path::new("-") {
        return Err(Usage("FILE: `-` is not supported: expected the name of a file".to_owned()).into());
    }
    Ok(())
}

/// A progress bar in pages, and the function that moves it.
pub(super) fn page_bar(json: bool, message: &'static str) -> (indicatif::ProgressBar, impl FnMut(u64, u64) + Send) {
    let bar = progress_bar(json);
    bar.set_message(message);
    let moved = bar.clone();
    let on_progress = move |done, all| {
        moved.set_length(all);
        moved.set_position(done);
        if done == all {
            moved.set_message("check");
        }
    };
    (bar, on_progress)
}

/// What a backup contains, as text.
pub(super) fn summary(contents: &BackupContents) -> String {
    let BackupContents { bytes, schema_version, jobs, schedules, workflows, queues, tokens, .. } = contents;
    let parts = [
        (*jobs, "job", "jobs"),
        (*schedules, "schedule", "schedules"),
        (*workflows, "workflow", "workflows"),
        (*queues, "queue", "queues"),
        (*tokens, "token", "tokens"),
    ];
    let part = |(count, one, many)| format!("{} {}", format::number(count), if count == 1 { one } else { many });
    let mib = *bytes as f64 / f64::from(1 << 20);
    format!("{}; {mib:.1} MiB, schema version {schema_version}, integrity ok", parts.map(part).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sqlite_has_a_file() {
        assert_eq!(store_file("sqlite:a.db?synchronous=normal", "backup").unwrap(), Path::new("a.db"));
        for (url, tool) in [("postgres://db/app", "pg_dump"), ("sqlserver://u:secret@db/app", "backup database")] {
            let error = store_file(url, "backup").unwrap_err().to_string();
            assert!(error.contains(tool) && !error.contains("secret"), "{error}");
        }
        let error = store_file("mysql://u:secret@db", "backup").unwrap_err().to_string();
        assert!(error.contains("`mysql`") && !error.contains("secret"), "{error}");
    }
}
