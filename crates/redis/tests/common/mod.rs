//! What the tests share.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use punctual_core::{ManualClock, StoreResult};
use punctual_redis::{Address, DispatchStore, Options};
use punctual_sql::postgres::{self, PostgresStore};
use punctual_testkit::{Fixture, Ties};

fn url(name: &str) -> String {
    std::env::var(name).expect("the tests need servers of their own; `cargo xtask test` starts them and names them")
}

/// The Redis that was started for the tests.
pub fn redis() -> Address {
    url("PUNCTUAL_TEST_REDIS_URL").parse().unwrap()
}

/// A schema that nobody else has.
pub fn schema() -> String {
    format!("test_{:016x}", fastrand::u64(..))
}

/// A store with these options, if they are good.
pub async fn try_open(options: Options) -> StoreResult<DispatchStore> {
    DispatchStore::open(Arc::new(ledger(&schema(), None).await), options).await
}

/// The store in a schema, as one process has it; by its own clock if none is given.
pub async fn open(schema: &str, clock: Option<&ManualClock>, options: impl Into<Options>) -> DispatchStore {
    DispatchStore::open(Arc::new(ledger(schema, clock).await), options).await.unwrap()
}

async fn ledger(schema: &str, clock: Option<&ManualClock>) -> PostgresStore {
    let mut ledger: postgres::Options = url("PUNCTUAL_TEST_POSTGRES_URL").parse().unwrap();
    (ledger.schema, ledger.days_ahead, ledger.dispatched) = (schema.to_owned(), 0, true);
    if let Some(clock) = clock {
        ledger = ledger.clock(clock.clone());
    }
    PostgresStore::open(ledger).await.unwrap()
}

/// A store of its own for a behaviour.
pub async fn fixture(options: impl Into<Options>) -> Fixture {
    let clock = Fixture::start();
    Fixture::new(open(&schema(), Some(&clock), options).await, clock).ties(Ties::Id)
}

/// Two ends of one execution in one batch, before its start is recorded: the later one counted once.
const TWO_ENDS: u64 = 13_672_616_674_303_588_797;

/// A job waits for its time in a queue whose limit ends, and a worker of another queue looks first: it started late.
const LIMIT_ENDS: u64 = 15_526_164_152_184;

/// One seed of every run is new, so that the suite keeps looking; its number is printed when it fails.
pub fn seeds() -> Vec<u64> {
    let given = std::env::var("PUNCTUAL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.map_or_else(|| vec![1, TWO_ENDS, LIMIT_ENDS, fastrand::u64(..)], |seed| vec![seed])
}
