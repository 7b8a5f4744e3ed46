//! Punctual, a durable job scheduler.
//!
//! Jobs are stored in a database: a SQLite file to start with. A worker in your own process runs them. Jobs survive
//! crashes, start on time, and leave a full audit trail.
//!
//! ```
//! use punctual::{Context, Failure, Job, Punctual, Worker};
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[derive(Serialize, Deserialize, Job)]
//! struct SendEmail {
//!     to: String,
//! }
//!
//! async fn send_email(job: SendEmail, ctx: Context) -> Result<String, Failure> {
//!     ctx.info(format!("attempt {}", ctx.attempt()));
//!     Ok(format!("sent to {}", job.to))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), punctual::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
//! let punctual = Punctual::connect(&url).await?;
//! let worker = Worker::builder(punctual.clone()).register(send_email).start().await?;
//!
//! let job = punctual.enqueue(SendEmail { to: "ada@example.com".into() }).await?;
//! let done = punctual.wait(job.id, Duration::from_secs(10)).await?;
//! assert_eq!(done.result.unwrap().as_str(), r#""sent to ada@example.com""#);
//!
//! worker.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! A handler may take a state, such as a connection pool, as its third argument: [`WorkerBuilder::state`]. Functions
//! around all handlers, and around the enqueue of all jobs, are layers: [`WorkerBuilder::layer`], [`Punctual::layer`].
//!
//! | feature | adds |
//! |---|---|
//! | `derive` (default) | `#[derive(Job)]` |
//! | `sqlite` (default) | stores in SQLite files |
//! | `postgres` | stores in PostgreSQL databases |
//! | `redis` | Redis in front of PostgreSQL; includes `postgres` |
//! | `sqlserver` | stores in SQL Server databases |
//! | `webhooks` | alerts as signed webhooks |
//! | `otel` | jobs are parts of OpenTelemetry traces |
//!
//! Rust 1.89 or later; 1.94 with the feature `postgres` or `redis`.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "postgres")]
pub use punctual_client::postgres;
#[cfg(feature = "redis")]
pub use punctual_client::redis;
#[cfg(feature = "sqlite")]
pub use punctual_client::sqlite;
#[cfg(feature = "sqlserver")]
pub use punctual_client::sqlserver;
pub use punctual_client::{
    Admin, Context, Draft, EnqueueNext, Failure, HeldLock, IntoFailure, Job, ParentResult, Punctual, Recurring,
    Subscription, Synced, Transactional, Unique, Workflow, admin, input, trace,
};
pub use punctual_core as core;
pub use punctual_core::{
    AttemptStatus, Enqueued, Error, Filter, JobId, Json, ManualClock, Misfire, OnParentFailure, Overlap, Page,
    ParentResults, RetryPolicy, Role, Settled, Status, Timestamp, TokenId, Verb, WorkflowId,
};
/// Implements [`Job`](trait@Job) for a type that implements `Serialize` and `Deserialize`.
///
/// ```
/// use punctual::{Draft, Job, RetryPolicy};
/// use serde::{Deserialize, Serialize};
/// use std::time::Duration;
///
/// #[derive(Serialize, Deserialize, Job)]
/// #[job(queue = "mail", max_attempts = 5, timeout = "30s")]
/// #[job(retry = RetryPolicy::fixed(Duration::from_secs(60)), concurrency_key = "account-{account}")]
/// struct SendMail {
///     account: u64,
///     text: String,
/// }
///
/// assert_eq!(SendMail::NAME, "send-mail");
/// let mail = SendMail { account: 7, text: "hello".into() };
/// assert_eq!(mail.concurrency_key().as_deref(), Some("account-7"));
/// assert_eq!(Draft::from(mail).spec().queue, "mail");
/// ```
///
/// | option | value | default |
/// |---|---|---|
/// | `name = "send-mail"` | job name | the type's name in kebab-case |
/// | `queue = "mail"` | target queue | `default` |
/// | `priority = 9` | 0 to 10, higher first | that of the queue, or 5 |
/// | `max_attempts = 5` | maximum attempts | that of the queue, or 10 |
/// | `timeout = "1h 30m"` | timeout per attempt | that of the queue, or 5 minutes |
/// | `retry = RetryPolicy::…` | any expression for a [`RetryPolicy`] | that of the queue, or exponential |
/// | `concurrency_key = "account-{account}"` | a format string with the fields of the struct | none |
/// | `unique` | unique by the whole payload, see [`Unique`] | not unique |
/// | `unique = "order-{order}"` | unique by a key, a format string as above | not unique |
/// | `parent_results` | receives the results of its parents | does not |
/// | `log_level = "debug"` | minimum level of stored log lines | `info` |
/// | `redact("card", "token")` | keys of the payload that user interfaces must not show | the common ones |
/// | `crate = my_library::punctual` | path of this crate, if it is not called `punctual` | `::punctual` |
///
/// An unknown option, and a value that would be refused when the job is enqueued, are errors of the compiler:
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, punctual::Job)]
/// #[job(timeout = "soon")]
/// struct SendMail;
/// ```
///
/// ```compile_fail
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, punctual::Job)]
/// #[job(qeue = "mail")]
/// struct SendMail;
/// ```
#[cfg(feature = "derive")]
#[doc(inline)]
pub use punctual_macros::Job;
#[cfg(feature = "webhooks")]
pub use punctual_worker::Webhook;
pub use punctual_worker::{
    ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertState, Alerts, Handler, HandlerFuture, HandlerResult, JobHandler,
    ManualWorker, Next, QueueOrder, Ran, RunningWorker, Stats, Worker, WorkerBuilder,
};
#[cfg(unix)]
pub use punctual_worker::{
    Program, ProgramHandler, ProgramLimits, ResultFrom, RunningSupervisor, Supervised, Supervisor,
};

/// The code of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
