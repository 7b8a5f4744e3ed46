//! The SQL engines of Punctual: what they share, once; then one folder for each.

#[cfg(any(feature = "sqlite", feature = "sqlserver"))]
mod db;
mod labels;
mod level;
mod list;
pub mod migrate;
#[cfg(any(feature = "sqlite", feature = "sqlserver"))]
mod ops;
mod pending;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlserver")]
pub mod sqlserver;
mod wakes;
