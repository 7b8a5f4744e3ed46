//! Tests of Punctual's engines, and tools for users to test their own jobs.
//!
//! - [`mod@conformance`]: one function for each behaviour that every engine must have; [`conformance!`] runs them all.
//! - [`ModelStore`]: the port in memory, written for readability.
//! - [`random`]: random operations on an engine and on the model, whose results must agree.
//! - [`FaultyStore`]: an engine that fails on request.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

pub mod conformance;
mod faulty;
mod fixture;
mod model;
pub mod random;

pub use faulty::{FaultyStore, When};
pub use fixture::Fixture;
pub use model::{ModelStore, Ties};
#[doc(hidden)]
pub use tokio;
