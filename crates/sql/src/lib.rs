//! The SQL engines of Punctual: what they share, once; then one folder for each.

mod list;
pub mod migrate;
mod pending;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod wakes;
