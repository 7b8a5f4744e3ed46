//! PostgreSQL with Redis in front passes the suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;

use punctual_redis::DispatchStore;
use punctual_sql::postgres::{Options, PostgresStore};
use punctual_testkit::{Fixture, Ties, conformance, random};

fn url(name: &str) -> String {
    std::env::var(name).expect("the tests need servers of their own; `cargo xtask test` starts them and names them")
}

async fn fixture() -> Fixture {
    let clock = Fixture::start();
    let mut options: Options = url("PUNCTUAL_TEST_POSTGRES_URL").parse().unwrap();
    options.schema = format!("test_{:016x}", fastrand::u64(..));
    options.days_ahead = 0;
    options.dispatched = true;
    let ledger = PostgresStore::open(options.clock(clock.clone())).await.unwrap();
    let store = DispatchStore::open(Arc::new(ledger), url("PUNCTUAL_TEST_REDIS_URL").parse().unwrap()).await.unwrap();
    Fixture::new(store, clock).ties(Ties::Id)
}

conformance!(fixture);

/// One seed of every run is new, so that the suite keeps looking; its number is printed when it fails.
fn seeds() -> impl Iterator<Item = u64> {
    let given = std::env::var("PUNCTUAL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.map_or_else(|| vec![1, 2, fastrand::u64(..)], |seed| vec![seed]).into_iter()
}

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in seeds() {
        random::replay(&fixture().await, seed, 400).await;
    }
}
