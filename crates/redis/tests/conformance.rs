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

#[tokio::test]
async fn what_is_handed_over_goes_on_as_it_would_have() {
    for seed in common::seeds() {
        random::replay_handed_over(&fixture().await, seed, 200).await;
    }
}
