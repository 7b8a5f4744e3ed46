//! The conformance suite on a cluster of three nodes, with each queue on one of them.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::LazyLock;

use punctual_redis::Address;
use punctual_servers::RedisCluster;
use punctual_testkit::{Fixture, conformance, random};

/// Stopped when this process ends.
static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| RedisCluster::start(3).unwrap());

async fn fixture() -> Fixture {
    let address: Address = CLUSTER.url().parse().unwrap();
    common::fixture(address).await
}

conformance!(fixture);

// Several threads: while a comparison with the model takes long, another task has to extend the dispatch lease.
#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_the_model() {
    let seed = common::new_seed();
    common::without_pauses(fixture, move |fx| async move { random::replay(&fx, seed, 400).await }).await;
}

#[tokio::test]
async fn queues_are_spread_over_the_nodes() {
    let fx = fixture().await;
    let queues = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for queue in queues {
        fx.enqueue(|spec| spec.queue = queue.to_owned()).await;
    }
    assert_eq!(fx.claim(fx.worker(), 10).await.len(), queues.len());
    let known = |node: &punctual_servers::Redis| node.execute("KEYS punctual:*:state").unwrap().len();
    assert!(CLUSTER.0.iter().all(|node| known(node) > 0));
}
