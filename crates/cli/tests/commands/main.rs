//! The program as users run it: a real process, real files, real exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backups;
mod config;
mod deaths;
mod input;
mod jobs;
mod json;
mod moves;
mod nouns;
mod program;
mod queues;
mod schedules;
mod secrets;
#[path = "../shell/mod.rs"]
mod shell;
mod stores;
mod workflows;
