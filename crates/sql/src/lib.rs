//! The SQL engines of Punctual: what they share, once; then one folder for each.

pub mod migrate;
pub mod sqlite;
