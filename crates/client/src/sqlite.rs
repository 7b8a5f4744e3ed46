//! Jobs in a SQLite file, and in transactions on it; its backups.

use punctual_core::{Enqueued, Error, Settled, Settlement};
use punctual_sql::sqlite;
pub use punctual_sql::sqlite::{
    BackupContents, BackupError, BackupFiles, Options, SqliteStore, Synchronous, backup, restore, rusqlite,
};

use crate::{Context, Draft, Punctual, Transactional, queues};

impl<'a> Transactional<'a> for &rusqlite::Connection {
    type Enqueued = Result<Vec<Enqueued>, Error>;
    type Settled = Result<Settled, Error>;

    fn enqueue(self, punctual: &'a Punctual, jobs: Vec<Draft>) -> Self::Enqueued {
        let defaults = queues::defaults(sqlite::queues_in(self)?);
        let jobs = punctual.check_by(&defaults, jobs)?;
        Ok(sqlite::enqueue_in(self, punctual.store().now(), &jobs)?)
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Settled {
        let settled = sqlite::settle_in(self, ctx.punctual().store().now(), &[settlement?])?[0];
        ctx.note_completion(settled);
        Ok(settled)
    }
}

impl<'a> Transactional<'a> for &rusqlite::Transaction<'_> {
    type Enqueued = Result<Vec<Enqueued>, Error>;
    type Settled = Result<Settled, Error>;

    fn enqueue(self, punctual: &'a Punctual, jobs: Vec<Draft>) -> Self::Enqueued {
        (&**self).enqueue(punctual, jobs)
    }

    fn settle(self, ctx: &'a Context, settlement: Result<Settlement, Error>) -> Self::Settled {
        (&**self).settle(ctx, settlement)
    }
}
