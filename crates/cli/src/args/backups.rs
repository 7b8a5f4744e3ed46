//! `punctual backup` and `punctual restore`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Workers and clients may continue meanwhile: the backup is the state at one point in time.\n\
    It is written to FILE.partial, checked, and renamed.\n\
    SQLite only; docs/backups.md describes PostgreSQL and SQL Server.")]
pub(crate) struct Backup {
    /// File to create
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Stop all processes that use the store first; the command fails while one does.\n\
    Jobs that were running at the time of the backup run again once their leases have expired.\n\
    SQLite only; docs/backups.md describes PostgreSQL and SQL Server.")]
pub(crate) struct Restore {
    /// File that `punctual backup` created
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Replace the store although it is not empty
    #[arg(long)]
    pub(crate) force: bool,
}
