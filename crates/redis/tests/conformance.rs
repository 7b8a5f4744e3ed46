//! PostgreSQL with Redis in front passes the suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used)]

mod common;

use punctual_testkit::{Fixture, conformance, random};

async fn fixture() -> Fixture {
    common::fixture(common::redis()).await
}

conformance!(fixture);

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in common::seeds() {
        random::replay(&fixture().await, seed, 400).await;
    }
}
