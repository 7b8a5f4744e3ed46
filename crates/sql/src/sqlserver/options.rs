//! How to connect to a database.

use std::{fmt, sync::Arc, time::Duration};

use punctual_core::{Clock, Create};

/// How to connect to a database.
#[derive(Clone)]
pub struct Options {
    pub(super) config: tiberius::Config,
    /// The URL without secrets.
    pub(super) location: String,
    pub(super) max_connections: usize,
    pub(super) connect_timeout: Duration,
    /// How long a short operation (enqueue, claim, settle, renewal of leases) waits for the server's answer. Each
    /// statement of the other operations may in addition wait for a lock, and those of a migration ten times as long.
    pub(super) answer_timeout: Duration,
    /// What opening may create: [`Create::InEmpty`] is the same as [`Create::Anywhere`], since applications share
    /// databases.
    pub(super) create: Create,
    /// Where the time comes from: the server's clock, unless a test sets its own.
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// Options for another database of the same server.
    #[must_use]
    pub fn in_database(&self, name: &str) -> Self {
        let mut options = self.clone();
        options.config.database(name);
        options.location = format!("{}/{name}", self.location.rsplit_once('/').map_or("", |(server, _)| server));
        options
    }

    /// Limits what opening may create.
    #[must_use]
    pub fn create(mut self, create: Create) -> Self {
        self.create = create;
        self
    }

    /// Uses another clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("location", &self.location).finish_non_exhaustive()
    }
}
