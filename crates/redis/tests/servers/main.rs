//! Redis servers that fail, lose data, disagree, or are slow; and locks on several of them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod locks;
mod network;
mod partial;
mod repair;
