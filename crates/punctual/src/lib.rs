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
//! #[derive(Serialize, Deserialize)]
//! struct SendEmail { to: String }
//!
//! impl Job for SendEmail {
//!     const NAME: &'static str = "send-email";
//!     type State = ();
//!     type Output = String;
//!
//!     async fn run(self, ctx: Context, _: ()) -> Result<String, Failure> {
//!         ctx.info(format!("attempt {}", ctx.attempt()));
//!         Ok(format!("sent to {}", self.to))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), punctual::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("sqlite:{}", folder.path().join("punctual.db").display());
//! let punctual = Punctual::connect(&url).await?;
//! let worker = Worker::builder(punctual.clone()).register::<SendEmail>(()).start().await?;
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
//! | feature | adds |
//! |---|---|
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
    Admin, Context, Draft, Failure, HeldLock, Job, ParentResult, Punctual, Recurring, Subscription, Synced, Unique,
    Workflow, admin, input, trace,
};
pub use punctual_core as core;
pub use punctual_core::{
    AttemptStatus, Enqueued, Error, Filter, JobId, Json, ManualClock, Misfire, OnParentFailure, Overlap, Page,
    ParentResults, RetryPolicy, Role, Settled, Status, Timestamp, TokenId, Verb, WorkflowId,
};
#[cfg(feature = "webhooks")]
pub use punctual_worker::Webhook;
pub use punctual_worker::{
    ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertState, Alerts, Handler, HandlerResult, ManualWorker, QueueOrder,
    Ran, RunningWorker, Stats, Worker, WorkerBuilder,
};
#[cfg(unix)]
pub use punctual_worker::{
    Program, ProgramHandler, ProgramLimits, ResultFrom, RunningSupervisor, Supervised, Supervisor,
};
