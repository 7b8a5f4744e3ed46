//! PostgreSQL passes the conformance suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use punctual_sql::postgres::{Options, PostgresStore};
use punctual_testkit::{Fixture, Ties, conformance, random};

async fn fixture() -> Fixture {
    let url = std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it");
    let clock = Fixture::start();
    let mut options: Options = url.parse().unwrap();
    options.schema = format!("test_{:016x}", fastrand::u64(..));
    options.days_ahead = 0;
    Fixture::new(PostgresStore::open(options.clock(clock.clone())).await.unwrap(), clock).ties(Ties::Id)
}

conformance!(fixture);

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in random::seeds(1..=2) {
        random::replay(&fixture().await, seed, 400).await;
    }
}

#[tokio::test]
async fn transferred_data_behaves_as_in_the_original_store() {
    for seed in random::seeds(1..=2) {
        random::replay_transferred(&fixture().await, seed, 200).await;
    }
}
