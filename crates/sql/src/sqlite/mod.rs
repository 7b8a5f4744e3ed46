//! The embedded engine: one SQLite file, one writer per process, any number of processes.
//!
//! | question | file |
//! |---|---|
//! | which tables are there? | `migrations/` |
//! | which statements? | `sql/`, by `statements` |
//! | how are they run? | `db` |
//! | how is it opened? | `store`, `options` |
//! | how is it used in an application's transaction? | `guest` |
//! | what do operations do? | `../ops/` |
//! | how do they share a commit? | `writer`, `writer_thread`, `operation` |
//! | when is a commit on disk? | `flush`, `checkpoint`; if the disk fails: `health` |
//! | clock steps | `clock` |
//! | what does `punctual doctor` check? | `diagnostics` |
//! | how is the file backed up and restored? | `backup`, `backup_file`, `restore` |
//! | connections, their URL, and reads beside the writer | `connection`, `url`, `reader` |
//! | how is the file brought to this build's schema? | `schema` |
//! | how are errors mapped? | `error` |
//! | are all statements served by an index? | `plans` |

mod backup;
mod backup_file;
mod checkpoint;
mod clock;
mod connection;
mod db;
mod diagnostics;
mod error;
mod flush;
mod guest;
mod health;
mod operation;
mod options;
mod reader;
mod restore;
mod schema;
mod statements;
mod store;
mod url;
mod writer;
mod writer_thread;

#[cfg(test)]
mod plans;

pub use rusqlite;

pub use self::{
    backup::{BackupContents, BackupFiles, backup},
    backup_file::BackupError,
    guest::{enqueue_in, queues_in, settle_in},
    options::{Options, Synchronous},
    restore::restore,
    schema::MIGRATIONS,
    store::SqliteStore,
};

/// Every statement with its name, for tests of the other engines.
#[cfg(all(test, any(feature = "postgres", feature = "sqlserver")))]
pub(crate) const fn texts() -> &'static [(&'static str, &'static str)] {
    statements::ALL
}
