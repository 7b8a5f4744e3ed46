//! Jobs in a SQLite file, and in transactions on it; its backups.

use punctual_core::{Enqueued, Error, Settled, Settlement};
use punctual_sql::sqlite;
pub use punctual_sql::sqlite::{
    BackupContents, BackupError, BackupFiles, Options, SqliteStore, Synchronous, backup, restore, rusqlite,
};

use crate::{Context, Draft, Punctual, Transactional, queues};

impl<'a> Transactional<'a> for &rusqlite::Connection {
    type Answer<T: 'a> = Result<T, Error>;

    fn enqueue<T: 'a>(
        self,
        punctual: &'a Punctual,
        jobs: Vec<Draft>,
        answer: fn(Vec<Enqueued>) -> Result<T, Error>,
    ) -> Self::Answer<T> {
        let defaults = queues::defaults(sqlite::queues_in(self)?);
        let jobs = punctual.check_by(&defaults, jobs)?;
        answer(sqlite::enqueue_in(self, punctual.store().now(), &jobs)?)
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Answer<Settled> {
        let settled = sqlite::settle_in(self, ctx.punctual().store().now(), &[settlement?])?[0];
        ctx.note_completion(settled);
        Ok(settled)
    }
}

impl<'a> Transactional<'a> for &rusqlite::Transaction<'_> {
    type Answer<T: 'a> = Result<T, Error>;

    fn enqueue<T: 'a>(
        self,
        punctual: &'a Punctual,
        jobs: Vec<Draft>,
        answer: fn(Vec<Enqueued>) -> Result<T, Error>,
    ) -> Self::Answer<T> {
        (&**self).enqueue(punctual, jobs, answer)
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Answer<Settled> {
        (&**self).settle(ctx, settlement)
    }
}
