//! PostgreSQL with Redis in front passes the suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used)]

mod common;

use punctual_testkit::{Fixture, conformance, random};

async fn fixture() -> Fixture {
    common::fixture(common::redis()).await
}

conformance!(fixture);

// On threads of their own: while a comparison with the model takes long, somebody has to say that Redis hands out jobs.
#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_the_model() {
    for seed in common::seeds() {
        common::without_pauses(fixture, move |fx| async move { random::replay(&fx, seed, 400).await }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_over_goes_on_as_it_would_have() {
    let seed = common::new_seed();
    common::without_pauses(fixture, move |fx| async move { random::replay_handed_over(&fx, seed, 200).await }).await;
}
