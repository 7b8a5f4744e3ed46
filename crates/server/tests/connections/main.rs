//! Connections that stay open: the live stream, and clients that are slow, endless, or too many.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod hardening;
mod stream;
