//! SQL Server passes the suite, and agrees with the model on random operations. Run where `PUNCTUAL_TEST_SQLSERVER_URL` names a server; `cargo xtask test`
//! says whether it was.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Mutex, PoisonError};

use punctual_sql::sqlserver::{MIGRATIONS, Options, SqlServerStore};
use punctual_testkit::{Fixture, conformance, random};

/// Databases of this run that no test uses now.
static IDLE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Removes all rows, but for which migrations were applied.
fn empty() -> String {
    let lines = MIGRATIONS.iter().flat_map(|migration| migration.sql.lines());
    let tables = lines.filter_map(|line| line.strip_prefix("create table ")?.split([' ', '(']).next());
    let removed: String = tables.map(|table| format!("delete from {table}\n")).collect();
    removed
        + "insert into punctual_event_numbers (only_one, last) values (1, 0)
        insert into punctual_notification_numbers (only_one, last) values (1, 0)"
}

static MAKING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A database that others may use once this is gone.
struct Database(String);

impl Drop for Database {
    fn drop(&mut self) {
        IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.0));
    }
}

impl Database {
    /// An empty one.
    async fn empty() -> (Self, Options) {
        let server = std::env::var("PUNCTUAL_TEST_SQLSERVER_URL")
            .expect("PUNCTUAL_TEST_SQLSERVER_URL names no server, such as sqlserver://sa:password@host?trust_server_certificate=true");
        let server: Options = server.parse().unwrap();
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(name) = idle {
            let options = server.in_database(&name);
            options.run(&empty()).await.unwrap();
            return (Self(name), options);
        }
        // Some servers make one database at a time.
        let _alone = MAKING.lock().await;
        let name = format!("punctual_test_{:016x}", fastrand::u64(..));
        server.run(&format!("create database {name}")).await.unwrap();
        let options = server.in_database(&name);
        (Self(name), options)
    }
}

async fn fixture() -> Fixture {
    let clock = Fixture::start();
    let (database, options) = Database::empty().await;
    Fixture::new(SqlServerStore::open(options.clock(clock.clone())).await.unwrap(), clock).keep(database)
}

conformance!(fixture);

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in random::seeds(1..=2) {
        random::replay(&fixture().await, seed, 400).await;
    }
}

#[tokio::test]
async fn what_is_handed_over_goes_on_as_it_would_have() {
    for seed in random::seeds(1..=2) {
        random::replay_handed_over(&fixture().await, seed, 200).await;
    }
}
