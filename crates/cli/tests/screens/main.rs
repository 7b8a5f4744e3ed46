//! What people look at: the dashboard in a browser, and `punctual top` in a terminal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod accessibility;
mod browser;
mod dashboard;
mod recording;
#[path = "../shell/mod.rs"]
mod shell;
mod top;
