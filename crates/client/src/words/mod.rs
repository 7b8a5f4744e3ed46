//! Jobs, schedules and workflows in the words of users: those of files, of the command line and of HTTP.

mod job;
mod schedule;
mod workflow;

pub use job::{DefaultWords, JobWords, OnConflict, UniqueWords, defaults_in_words, policy_in_words};
pub use schedule::ScheduleWords;
pub use workflow::WorkflowWords;
