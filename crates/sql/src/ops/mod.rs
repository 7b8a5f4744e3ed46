//! The port's operations within one transaction. SQLite and SQL Server use all of them, PostgreSQL those that change no
//! jobs. An engine provides a connection and the texts of the statements.
//!
//! | question | file |
//! |---|---|
//! | which statements are there? | `statements` |
//! | how do they implement the port? | `store` |
//! | what is the state of one operation, and what ends it? | `tx`, `finish`; of one that changes no job: `edit` |
//! | enqueue, claim, settle | `enqueue`, `claim`, `settle` |
//! | when does a scheduled job become queued? | `promote` |
//! | leases, progress | `leases` |
//! | what does a transition write besides the job's row? | `effects` |
//! | in which index is a job, and which worker runs it? | `ready`, `running` |
//! | dependencies, and workflows | `flow`, `workflows` |
//! | limits | `queue_limits`, claims under them: `queue_controls`, `choice`; slots of cancelled jobs: `slots` |
//! | operators' actions, retention | `change`, `retention` |
//! | jobs, histories, counters, lists | `read`, `list` |
//! | what has changed since an earlier read? | `changes` |
//! | schedules, queues | `schedules`, `queues`, `stored_settings` |
//! | workers, locks | `workers`, `locks` |
//! | messages to users, tokens | `notifications`, `tokens` |
//! | which operations of a batch are independent? | `independent_batches` |
//! | what another store transfers | `import` |
//! | what `punctual doctor` checks | `diagnostics` |
//! | how do rows become types? | `rows` |

pub(crate) mod change;
pub(crate) mod changes;
pub(crate) mod choice;
pub(crate) mod claim;
pub(crate) mod diagnostics;
pub(crate) mod edit;
pub(crate) mod effects;
pub(crate) mod enqueue;
pub(crate) mod finish;
pub(crate) mod flow;
pub(crate) mod import;
pub(crate) mod independent_batches;
pub(crate) mod leases;
pub(crate) mod list;
pub(crate) mod locks;
pub(crate) mod notifications;
pub(crate) mod promote;
pub(crate) mod queue_controls;
pub(crate) mod queue_limits;
pub(crate) mod queues;
pub(crate) mod read;
pub(crate) mod ready;
pub(crate) mod retention;
pub(crate) mod rows;
pub(crate) mod running;
pub(crate) mod schedules;
pub(crate) mod settle;
pub(crate) mod slots;
pub(crate) mod statements;
#[cfg(any(feature = "sqlite", feature = "sqlserver"))]
pub(crate) mod store;
mod stored_settings;
pub(crate) mod tokens;
pub(crate) mod tx;
pub(crate) mod workers;
pub(crate) mod workflows;
