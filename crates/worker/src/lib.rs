//! The worker: claims jobs from the store, runs their handlers, and stores the outcomes.
//!
//! | step | file |
//! |---|---|
//! | define handlers | `job_handler`: [`JobHandler`]; any payload: `registry`, [`Handler`] |
//! | register handlers | `registrations`; the states that they take: `states`; layers around them: `layer`, [`Next`] |
//! | claim jobs, at most as many as can start | `claimer`; the slots that they occupy: `slot` |
//! | confirm the start of jobs that run at most once | `confirmer` |
//! | execute a job: timeout, panic, cancellation | `executor`; it sends its reports to `outbox` |
//! | isolate jobs that may crash the process | `isolation` |
//! | trace an execution | `span` |
//! | settle: repeat an outcome until it is stored or stale | `settler` |
//! | track executions and their leases | `running` |
//! | renew leases, detect lost ones | `lease` |
//! | requeue the jobs of lost workers, retention | `maintenance` |
//! | enqueue occurrences of schedules | `ticker` |
//! | raise alerts | `alerts`: [`Alerts`] |
//! | run programs as handlers | `program`: [`Program`] |
//! | supervise worker processes, and restart them when they die | `process`: [`Supervisor`], [`Supervised`] |
//! | count what a worker does, and report it as metrics | `stats`: [`Stats`] |
//! | configure and start a worker | `builder`: [`Worker`], [`WorkerBuilder`] |
//! | stop a worker | `worker`: [`RunningWorker`]; state that its parts share: `shared` |
//! | run a worker step by step, for tests | `manual`: [`ManualWorker`] |
//!
//! | feature | adds |
//! |---|---|
//! | `webhooks` | alerts as signed webhooks |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod alerts;
mod builder;
mod claimer;
mod confirmer;
mod executor;
mod isolation;
mod job_handler;
mod layer;
mod lease;
mod maintenance;
mod manual;
mod outbox;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod program;
mod registrations;
mod registry;
mod running;
mod settler;
mod shared;
mod slot;
mod span;
mod states;
mod stats;
mod ticker;
mod worker;

#[cfg(feature = "webhooks")]
pub use alerts::Webhook;
pub use alerts::{ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertState, Alerts};
pub use builder::{Worker, WorkerBuilder};
pub use job_handler::JobHandler;
pub use layer::Next;
pub use manual::{ManualWorker, Ran};
#[cfg(unix)]
pub use process::{RunningSupervisor, Supervised, Supervisor};
#[cfg(unix)]
pub use program::{Program, ProgramHandler, ProgramLimits, ResultFrom, STOP_GRACE_MAX};
pub use registry::{Handler, HandlerFuture, HandlerResult};
pub use shared::QueueOrder;
pub use stats::Stats;
pub use worker::RunningWorker;
