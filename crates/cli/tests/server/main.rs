//! `punctual up` and `serve`: the HTTP API, clients, alerts, traces, and failures of their store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alerts;
mod clients;
mod containers;
mod disk;
mod http;
mod locked;
mod serve;
#[path = "../shell/mod.rs"]
mod shell;
mod traces;
