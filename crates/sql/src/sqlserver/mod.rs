//! The engine for SQL Server 2017 or later, and for servers that are compatible with its protocol and dialect.
//!
//! | question | file |
//! |---|---|
//! | which tables are there? | `migrations/` |
//! | which statements? | `sql/`, a file per noun; `engine.sql` has those of this engine alone; by `statements` |
//! | how are they run? | `db`, on connections of `session`; writes by `write_buffer`; exclusion by `locking` |
//! | how is it opened? | `store`, `options`; its connections, `connection` |
//! | how are values converted? | `value` |
//! | how are counters added up? | `rollups` |
//! | what do operations do? | `../ops/` |
//! | how is the URL read? | `url` |
//! | how is the database brought to this build's schema? | `schema` |
//! | how are errors mapped? | `error` |

mod connection;
mod db;
mod error;
mod locking;
mod options;
mod rollups;
mod schema;
mod session;
mod statements;
mod store;
mod url;
mod value;
mod write_buffer;

pub use tiberius;

pub use self::{connection::Client, options::Options, schema::MIGRATIONS, store::SqlServerStore};
