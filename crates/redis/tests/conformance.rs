//! PostgreSQL with Redis in front passes the conformance suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used)]

mod common;

use punctual_testkit::{Fixture, conformance, random};

async fn fixture() -> Fixture {
    common::fixture(common::redis()).await
}

conformance!(fixture);

// Several threads: while a comparison with the model takes long, another task has to extend the dispatch lease.
#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_the_model() {
    for seed in common::seeds() {
        common::without_pauses(fixture, move |fx| async move { random::replay(&fx, seed, 400).await }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transferred_jobs_continue_as_in_the_source() {
    let seed = common::new_seed();
    common::without_pauses(fixture, move |fx| async move { random::replay_transferred(&fx, seed, 200).await }).await;
}
