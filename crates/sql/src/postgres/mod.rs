//! The PostgreSQL engine, for servers from version 13.
//!
//! | question | file |
//! |---|---|
//! | how is it opened? | `store`, `options`; what its operations share: `core` |
//! | how is it used in an application's transaction? | `store`, `guest` |
//! | the operations that are not on the hot path | `ports` |
//! | which tables are there? | `migrations/`, applied by `schema` |
//! | which statements? | `sql/`, by `statements`; as they are sent, `golden`; their plans, `plans` |
//! | how are the operations of `../ops/` run? | `operations`, on connections of `db`, which execute `shared_statements` with `arguments` |
//! | how are connections set up? | `url`, `connection_settings`, `session`, `clock` |
//! | which server is it, and how is it cleared for tests? | `server` |
//! | how do rows, values and errors become types? | `rows`, `value`, `error` |
//! | how do enqueues share a commit? | `batcher` |
//! | in which order are rows locked? | `locking` |
//! | enqueue, with unique keys and dependencies | `enqueue`, `keys`, `flow` |
//! | claim: due jobs become queued, which lanes, from where, and the rows | `claim/` |
//! | limits | `queue_limits` |
//! | settle | `settle` |
//! | leases, progress | `leases` |
//! | what a dispatcher in front needs | `dispatch` |
//! | how are idle workers woken? | `wake` |
//! | operators' actions | `change`, `workflows`, `queue_settings` |
//! | which settings of queues do claims know? | `queues` |
//! | jobs, counters, lists | `read`, `list` |
//! | events and attempts of jobs | `history` |
//! | what has changed since an earlier read? | `changes` |
//! | schedules that enqueue | `schedules` |
//! | workers that died | `workers` |
//! | messages to users | `notifications` |
//! | partitions of days | `partitions`, `partition_creation` |
//! | retention of jobs, histories and counters | `retention` |
//! | retention of whole days | `partition_retention`, `partition_replacement`; the lock of old days: `old_partitions` |
//! | when are counters added up? | `rollups` |
//! | what one process of the fleet does for the engine, and how often | `maintenance`, `maintenance_state`, `backoff` |
//! | what another store transfers | `import`, `imported_jobs` |
//! | what `punctual doctor` checks | `diagnostics` |

mod arguments;
mod backoff;
mod batcher;
mod change;
mod changes;
mod claim;
mod clock;
mod connection_settings;
mod core;
mod db;
mod diagnostics;
mod dispatch;
mod enqueue;
mod error;
mod flow;
#[cfg(test)]
mod golden;
mod guest;
mod history;
mod import;
mod imported_jobs;
mod keys;
mod leases;
mod list;
mod locking;
mod maintenance;
mod maintenance_state;
mod notifications;
mod old_partitions;
mod operations;
mod options;
mod partition_creation;
mod partition_replacement;
mod partition_retention;
mod partitions;
#[cfg(test)]
mod plans;
mod ports;
mod queue_limits;
mod queue_settings;
mod queues;
mod read;
mod retention;
mod rollups;
mod rows;
mod schedules;
mod schema;
mod server;
mod session;
mod settle;
mod shared_statements;
mod statements;
mod store;
mod url;
mod value;
mod wake;
mod workers;
mod workflows;

pub use sqlx;

pub use self::{
    options::Options,
    schema::MIGRATIONS,
    server::{drop_schemas, server_settings},
    store::PostgresStore,
};
