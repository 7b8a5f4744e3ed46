//! Schedules, from their definition to the jobs that they enqueue.

// The types of these tests' futures are deeper than the compiler looks by default.
#![recursion_limit = "256"]
#![allow(clippy::unwrap_used, clippy::panic)]

mod changes;
mod clocks;
mod definitions;
mod occurrences;
mod processes;
mod scene;
