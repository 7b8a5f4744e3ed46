//! A worker: its handlers, its claims and leases, its end; on a store that works, on one that fails, and on a file that
//! other programs use.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bench;
mod claims;
mod cut_off;
mod failing_store;
mod handlers;
mod layers;
mod one_job;
mod repeated_claims;
mod sharing;
mod slots;
mod stopping;
mod suspects;
