//! How a database is used.

use std::{sync::Arc, time::Duration};

use punctual_core::Clock;
use sqlx::postgres::PgConnectOptions;

/// How a database is used.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to connect.
    pub connect: PgConnectOptions,
    /// The schema that the tables are in. It is created if it does not exist.
    pub schema: String,
    /// The most connections that this process opens, besides one that listens for hints.
    pub max_connections: u32,
    /// How long a statement may take, and a transaction stand still, before the server ends it.
    pub statement_timeout: Duration,
    /// How long a short operation (enqueue, claim, settle, renewal of leases) waits for the server's answer. Others
    /// wait longer, by the time that a statement may take.
    pub answer_timeout: Duration,
    /// Whether a pooler stands in between that gives each transaction another connection. Hints from other processes do
    /// not come then, and settings are made in every transaction.
    pub transaction_pooler: bool,
    /// How many days ahead partitions are made.
    pub days_ahead: u32,
    /// How large a day of jobs must be for retention to take it as a whole, in bytes.
    pub whole_day_min_bytes: u64,
    /// Maximum size of a default partition, in bytes, that is scanned under an exclusive lock when the partition of a
    /// day is attached.
    pub default_scan_max_bytes: u64,
    /// Whether another store hands out its jobs; see [`PrimaryStore`](punctual_core::dispatch::PrimaryStore).
    pub dispatched: bool,
    /// Where the time comes from, if not from the server: tests bring their own.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Options {
    /// A database, with the schema `public` and eight connections.
    pub fn new(connect: PgConnectOptions) -> Self {
        Self {
            connect,
            schema: "public".to_owned(),
            max_connections: 8,
            statement_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(15),
            transaction_pooler: false,
            days_ahead: 2,
            whole_day_min_bytes: 64 << 20,
            default_scan_max_bytes: 16 << 20,
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
