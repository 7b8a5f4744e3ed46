//! Jobs, schedules, workflows and limits as users write them: in files, on the command line and over HTTP.

mod job;
mod limits;
mod schedule;
mod workflow;

pub use job::{DefaultsInput, JobInput, OnConflict, UniqueInput, defaults_in_words, policy_in_words};
pub use limits::LimitChanges;
pub use schedule::ScheduleInput;
pub use workflow::WorkflowInput;
