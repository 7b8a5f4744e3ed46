//! The worker: claims jobs from the store, runs their handlers, and stores the outcomes.
//!
//! | step | file |
//! |---|---|
//! | which handlers are registered? | [`registry`](Handler) |
//! | claim jobs, no more than can start | `claimer` |
//! | confirm those that run at most once | `confirmer` |
//! | run one: timeout, panic, cancellation | `executor`, its reports go by `outbox` |
//! | isolate jobs that may crash the process | `isolation` |
//! | its trace span | `span` |
//! | record how it ended, until it is stored or stale | `settler` |
//! | which executions are held, and until when | `running` |
//! | renew leases, detect lost ones | `lease` |
//! | requeue the jobs of lost workers, retention | `maintenance` |
//! | enqueue occurrences of schedules | `ticker` |
//! | raise alerts | `alerts`: [`Alerts`] |
//! | run programs as handlers | `program`: [`Program`] |
//! | several processes, restarted when they die | `process`: [`Supervisor`], [`Supervised`] |
//! | start it, stop it | `worker`: [`Worker`], [`RunningWorker`]; what its parts share: `shared` |
//! | step by step, for tests | `manual`: [`ManualWorker`] |

mod alerts;
mod claimer;
mod confirmer;
mod executor;
mod isolation;
mod lease;
mod maintenance;
mod manual;
mod outbox;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod program;
mod registry;
mod running;
mod settler;
mod shared;
mod span;
mod ticker;
mod worker;

#[cfg(feature = "webhooks")]
pub use alerts::Webhook;
pub use alerts::{ALERT_JOB, ALERTS_QUEUE, Alert, AlertKind, AlertState, Alerts};
pub use manual::{ManualWorker, Ran};
#[cfg(unix)]
pub use process::{RunningSupervisor, Supervised, Supervisor};
#[cfg(unix)]
pub use program::{Program, ProgramHandler, ProgramLimits, ResultFrom, STOP_GRACE_MAX};
pub use registry::{Handler, HandlerResult};
pub use shared::{QueueOrder, Stats};
pub use worker::{RunningWorker, Worker, WorkerBuilder};
