//! The SQL engines of Punctual: one module per engine, and the code that engines share. `ops` contains the operations
//! that SQLite and SQL Server share.

// `sections` searches whole files at compile time; it ends where they end.
#![allow(long_running_const_eval)]

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
mod sections;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "sqlserver")]
pub mod sqlserver;
mod wakes;
