//! Schedules, from their definition to the jobs that they enqueue.

#![allow(clippy::unwrap_used, clippy::panic)]

mod changes;
mod clocks;
mod definitions;
mod occurrences;
mod processes;
mod scene;
