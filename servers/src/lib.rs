//! Temporary servers for tests and benchmarks: each in a temporary folder, on a free port, removed when its process
//! ends.

#![allow(clippy::print_stderr)]

mod browser;
mod certificate;
mod debian;
mod disk;
mod page_checkers;
mod pgbouncer;
mod postgres;
mod proxy;
mod redis;
mod watchdog;

pub use browser::Browser;
pub use debian::program_on_path;
pub use disk::{DiskFault, FaultyDisk};
pub use page_checkers::PageCheckers;
pub use pgbouncer::PgBouncer;
pub use postgres::{Care, Postgres};
pub use proxy::{Direction, Fault, Proxy};
pub use redis::{Redis, RedisCluster};
