//! Common setups of servers.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)]

mod postgres;
mod redis;
