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

impl<'c> Edit<'c> {
    /// A part of this write that consists of single statements.
    pub(crate) fn single(self) -> SingleEdit<'c> {
        SingleEdit { db: self.db, at: Some(self.now) }
    }
}

/// A write of one statement that changes no job: its connection, and its time.
#[derive(Clone, Copy)]
pub(crate) struct SingleEdit<'c> {
    pub(crate) db: &'c dyn Db,
    /// The timestamp of what the statement writes; if none, the statement takes the server's own, which saves a round
    /// trip.
    pub(crate) at: Option<Timestamp>,
}

impl SingleEdit<'_> {
    /// The timestamp as a parameter.
    pub(crate) fn at(self) -> Option<i64> {
        self.at.map(|at| at.as_micros())
    }
}
