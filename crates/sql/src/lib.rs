//! The SQL engines of Punctual: one module per engine, and the code that they share. `ops` contains the operations of
//! SQLite and SQL Server; PostgreSQL uses those that change no jobs.
//!
//! | feature | adds |
//! |---|---|
//! | `sqlite` (default) | SQLite: one file, any number of processes |
//! | `postgres` (default) | PostgreSQL 13 or later |
//! | `sqlserver` | SQL Server 2017 or later, Azure SQL |

#![cfg_attr(docsrs, feature(doc_cfg))]
// `sections` searches whole files at compile time; it ends where they end.
#![allow(long_running_const_eval)]

// Built alone, PostgreSQL leaves parts of these two unused.
#[cfg_attr(not(any(feature = "sqlite", feature = "sqlserver")), allow(dead_code))]
mod db;
mod labels;
mod level;
mod list;
pub mod migrate;
#[cfg_attr(not(any(feature = "sqlite", feature = "sqlserver")), allow(dead_code))]
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
