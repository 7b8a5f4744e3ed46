//! The options of a PostgreSQL store.

use std::{sync::Arc, time::Duration};

use punctual_core::{Clock, Create};
use sqlx::postgres::PgConnectOptions;

/// The options of a PostgreSQL store.
#[derive(Debug, Clone)]
pub struct Options {
    /// The connection parameters.
    pub connect: PgConnectOptions,
    /// The schema of the tables.
    pub schema: String,
    /// What opening may create: [`Create::InEmpty`] is the same as [`Create::Anywhere`], since applications share
    /// schemas.
    pub create: Create,
    /// Maximum number of connections, besides one that listens for hints.
    pub max_connections: u32,
    /// Timeout after which the server cancels a statement, or ends a transaction that is idle.
    pub statement_timeout: Duration,
    /// How long a short operation (enqueue, claim, settle, renewal of leases) waits for the server's answer. Others
    /// wait longer, by the statement timeout.
    pub answer_timeout: Duration,
    /// Whether connections go through a pooler in transaction mode. Hints from other processes are then not received,
    /// and settings are made in every transaction.
    pub transaction_pooler: bool,
    /// Number of days ahead for which partitions are created.
    pub days_ahead: u32,
    /// Minimum size of a day's partition of jobs, in bytes, for retention to remove the day as a whole.
    pub whole_day_min_bytes: u64,
    /// Maximum size of a default partition, in bytes, that is scanned under an exclusive lock when the partition of a
    /// day is attached.
    pub default_scan_max_bytes: u64,
    /// How long after its beginning, whose time its rows carry, a transaction may take until its first write. A read of
    /// changes reaches back so far; rows that applications commit later are announced.
    pub first_write_max: Duration,
    /// Whether another store hands out the jobs of this one; see
    /// [`PrimaryStore`](punctual_core::dispatch::PrimaryStore).
    pub dispatched: bool,
    /// The clock to use instead of the server's, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// Connects with these parameters, and uses the schema `public` and at most eight connections.
    pub fn new(connect: PgConnectOptions) -> Self {
        Self {
            connect,
            schema: "public".to_owned(),
            create: Create::default(),
            max_connections: 8,
            statement_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(15),
            transaction_pooler: false,
            days_ahead: 2,
            whole_day_min_bytes: 64 << 20,
            default_scan_max_bytes: 16 << 20,
            first_write_max: Duration::from_secs(5),
            dispatched: false,
            clock: None,
        }
    }

    /// Uses another clock than the server's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// The address, without secrets.
    pub(super) fn location(&self) -> String {
        let connect = &self.connect;
        let database = connect.get_database().unwrap_or_default();
        let (user, host, port) = (connect.get_username(), connect.get_host(), connect.get_port());
        format!("postgres://{user}@{host}:{port}/{database}?schema={}", self.schema)
    }
}
