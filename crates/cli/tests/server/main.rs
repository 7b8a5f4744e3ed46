//! `punctual up` and `serve`: the HTTP API, clients, alerts, traces, deployments, and failures of their store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod alerts;
mod clients;
mod containers;
mod deploy;
mod disk;
mod health;
mod http;
mod locked;
mod serve;
#[path = "../shell/mod.rs"]
mod shell;
mod traces;
