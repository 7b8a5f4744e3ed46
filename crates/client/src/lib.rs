//! The client library of Punctual: enqueue, define and manage jobs.
//!
//! | question | type |
//! |---|---|
//! | how do I connect, enqueue, and wait for a result? | [`punctual`](Punctual) |
//! | how do I enqueue inside my own transaction? | [`Punctual::enqueue_in`], [`Punctual::enqueue_all_in`], [`Transactional`] |
//! | which options does a job have? | [`Draft`] |
//! | how do I define schedules? | [`Recurring`], [`Punctual::sync_schedules`] |
//! | how do I prevent duplicate jobs? | [`Draft::unique`], [`Unique`] |
//! | how do I make jobs depend on others? | [`Draft::after`], [`Workflow`] |
//! | how do I define a job? | [`Job`] |
//! | what does a handler receive and return? | [`Context`], [`Failure`] |
//! | how do jobs send notifications to users? | [`Context::notify`], [`Punctual::subscribe`] |
//! | how do I inspect and manage jobs, queues and schedules? | [`Admin`] |
//! | how fast is the store? | [`Punctual::operation_latencies`] |
//! | how do I add to every job that is enqueued? | [`Punctual::layer`] |
//! | how does a job continue a trace? | [`trace`], [`Draft::trace`] |
//!
//! | feature | adds |
//! |---|---|
//! | `sqlite` (default) | stores in SQLite files, and jobs in transactions on them |
//! | `postgres` (default) | stores in PostgreSQL databases, and jobs in transactions on them |
//! | `redis` (default) | Redis in front of PostgreSQL |
//! | `sqlserver` | stores in SQL Server databases, and jobs in transactions on them |
//! | `otel` | jobs are parts of OpenTelemetry traces |
//! | `schema` | JSON schemas of the types that go over the wire |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod admin;
mod connect;
mod context;
mod draft;
mod enqueue_layer;
mod failure;
mod idempotency;
pub mod input;
mod job;
mod lock;
mod log_book;
mod notifications;
mod observed;
mod parents;
#[cfg(feature = "postgres")]
pub mod postgres;
mod punctual;
mod queues;
mod recurring;
#[cfg(feature = "redis")]
pub mod redis {
    //! Redis in front of a PostgreSQL database.

    pub use punctual_redis::{Address, DispatchStore, Options};
}
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlserver")]
pub mod sqlserver;
pub mod trace;
mod transactional;
mod unique;
mod workflow;

pub use admin::Admin;
pub use context::{Context, ProgressSink};
pub use draft::Draft;
pub use enqueue_layer::EnqueueNext;
pub use failure::{Failure, IntoFailure};
pub use job::Job;
pub use lock::HeldLock;
pub use notifications::Subscription;
pub use observed::OperationLatency;
pub use parents::ParentResult;
pub use punctual::Punctual;
pub use recurring::{Recurring, Synced};
pub use transactional::Transactional;
pub use unique::Unique;
pub use workflow::{Node, Workflow};
