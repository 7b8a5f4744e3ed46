//! SQLite passes the suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used)]

use punctual_sql::sqlite::{Options, SqliteStore};
use punctual_testkit::{Fixture, conformance, random};

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Fixture::start();
    let options = Options::new(folder.path().join("punctual.db")).clock(clock.clone());
    Fixture::new(SqliteStore::open(options).await.unwrap(), clock).keep(folder)
}

conformance!(fixture);

/// One seed of every run is new, so that the suite keeps looking; its number is printed when it fails.
fn seeds() -> impl Iterator<Item = u64> {
    let given = std::env::var("PUNCTUAL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let fresh = given.unwrap_or_else(|| fastrand::u64(..));
    [1, 2, 3, 4, 5, fresh].into_iter()
}

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in seeds() {
        random::replay(&fixture().await, seed, 400).await;
    }
}
