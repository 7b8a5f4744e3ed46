//! What proves Punctual's engines, and helps users test their own jobs.
//!
//! - [`mod@conformance`]: one function for each behaviour that every engine must have; [`conformance!`] runs them all.
//! - [`ModelStore`]: the port in memory, written to be read.
//! - [`random`]: random operations on an engine and on the model, which must agree.
//! - [`FaultyStore`]: an engine that fails when it is told to.

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
