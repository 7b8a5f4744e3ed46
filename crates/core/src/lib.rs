//! The domain of Punctual, pure: no runtime, no SQL, no clock and no randomness of its own.
//!
//! | question | file |
//! |---|---|
//! | what is a job? | [`spec`], [`job`] |
//! | which states exist, and which transitions? | [`state`] |
//! | what does a transition write besides the job's row? | [`effects`] |
//! | what happens when an attempt ends? | [`settle`](mod@settle), [`retry`] |
//! | what is a schedule, and when are its occurrences? | [`schedule`] |
//! | which jobs wait for others, and what happens to them when a job ends? | [`flow`], [`workflow`] |
//! | when is a job a duplicate of another? | [`unique`] |
//! | what is configured per queue? | [`queue`] |
//! | how many jobs do the limits of a queue allow to start, and which start next? | [`limiter`] |
//! | why is a job not running? | [`explain`] |
//! | why is a job dead? | [`death`] |
//! | what is a notification? | [`notification`] |
//! | which actions can operators take on jobs? | [`change`] |
//! | which jobs have changed since an earlier read? | [`changes`] |
//! | what must an engine implement? | [`store`]; [`dispatch`] if another store dispatches its jobs |
//! | which jobs does a list contain? | [`filter`] |
//! | which tokens allow which requests? | [`token`] |
//! | to which trace does a job belong? | [`trace`] |
//! | how large may inputs be, and which are rejected? | [`limits`], [`check`] |
//! | which values are redacted? | [`redact`] |
//! | which measurements do reports use? | [`measure`] |
//! | how are jobs moved between stores? | [`transfer`] |
//! | which parameter of a store's URL was meant? | [`url_parameter`] |
//! | which errors exist? | [`error`] |
//! | ids, times, clocks, JSON, numbers, order of names | [`id`], [`time`], [`clock`], [`json`], [`number`], [`natural`] |
//! | how does a server pass a result to a client that may have disconnected? | [`offer`] |
//! | JSON schemas of types that are serialised as text | `schema` |
//! | how do tests and examples create jobs? | [`testing`] |
//!
//! | feature | adds |
//! |---|---|
//! | `schema` | JSON schemas of the types that go over the wire |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod change;
pub mod changes;
pub mod check;
pub mod clock;
pub mod death;
pub mod dispatch;
pub mod effects;
pub mod error;
pub mod explain;
pub mod filter;
pub mod flow;
pub mod id;
pub mod job;
pub mod json;
pub mod limiter;
pub mod limits;
pub mod measure;
pub mod natural;
pub mod notification;
pub mod number;
pub mod offer;
pub mod queue;
pub mod redact;
pub mod retry;
pub mod schedule;
#[cfg(feature = "schema")]
mod schema;
pub mod settle;
pub mod spec;
pub mod state;
pub mod store;
pub mod testing;
pub mod time;
pub mod token;
pub mod trace;
pub mod transfer;
pub mod unique;
pub mod url_parameter;
pub mod workflow;

pub use change::{Change, Changed, Verb};
pub use changes::{Changes, JobEvent};
pub use clock::{Clock, ClockStep, ManualClock, Steady, SystemClock};
pub use error::{Error, Invalid, Refused, StoreError};
pub use filter::{Filter, JobPage, Order, Page};
pub use flow::{OnParentFailure, ParentResults, Relative};
pub use id::{AttemptId, EventId, Ids, JobId, ScheduleId, TokenId, WorkerId, WorkflowId};
pub use job::{Attempt, Event, Job, JobError, LeaseGrant, LogLevel, LogLine, NewJob, Progress};
pub use json::Json;
pub use limiter::{Limits, Rate};
pub use notification::{NewNotification, Notification};
pub use offer::Offer;
pub use queue::{JobDefaults, Queue, QueueEvent, QueueSave, QueueSettings, UnreadableSettings};
pub use retry::{Backoff, RetryPolicy};
pub use schedule::{
    Cadence, Misfire, Occurrence, Overlap, Schedule, ScheduleEvent, ScheduleSave, ScheduleSpec, Timing,
};
pub use settle::{Claim, Ending, Outcome, Retry, Settled, Settlement, settle};
pub use spec::{JobOptions, Spec};
pub use state::{AttemptStatus, Status};
pub use store::{
    AppliedMigration, ClaimRequest, Claimed, Count, Create, Diagnostic, Enqueued, Heartbeat, History, Lock, Pending,
    ProgressReport, RetentionPolicy, Schema, Store, StoreInfo, StoreResult, Watch, WorkerRecord,
};
pub use time::Timestamp;
pub use token::{IdempotentRequest, Role, Token};
pub use trace::Trace;
pub use unique::Unique;
pub use workflow::{Ends, NewWorkflow, Node, Workflow, WorkflowStatus};
