//! The commands that administer, over HTTP: the same output, errors and exit codes as with the store itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod both_ways;
mod contexts;
mod failures;
mod roles;
#[path = "../shell/mod.rs"]
mod shell;
mod world;
