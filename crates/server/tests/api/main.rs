//! What the server answers: every noun of the API, the dashboard without JavaScript, and refused requests.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod fuzz;
mod jobs;
mod metrics;
mod nouns;
mod openapi;
mod pages;
mod requests;
mod work;
