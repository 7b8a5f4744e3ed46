//! Writes that change no job: settings, registries, messages.

use punctual_core::Timestamp;

use crate::db::Db;

/// A write that changes no job: its connection, within a transaction, and its time.
#[derive(Clone, Copy)]
pub(crate) struct Edit<'c> {
    pub(crate) db: &'c dyn Db,
    /// The timestamp of everything that this operation writes.
    pub(crate) now: Timestamp,
}
