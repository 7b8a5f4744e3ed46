//! PostgreSQL with Redis in front does what it does behind slow networks to both. The whole suite behind them takes
//! minutes; random operations call all of the port.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use punctual_redis::{Address, DispatchStore};
use punctual_servers::{Fault, Proxy};
use punctual_testkit::{Fixture, Ties, random};

/// Answers come in small parts, so that none is complete when its first bytes come.
fn slow(url: &str) -> Proxy {
    let proxy = Proxy::before(url).unwrap();
    proxy.set(Fault::Throttle { bytes: 700, pause: Duration::ZERO });
    proxy
}

async fn fixture() -> Fixture {
    static POSTGRES: LazyLock<Proxy> = LazyLock::new(|| slow(&common::url("PUNCTUAL_TEST_POSTGRES_URL")));
    static REDIS: LazyLock<Proxy> = LazyLock::new(|| slow(&common::url("PUNCTUAL_TEST_REDIS_URL")));
    let clock = Fixture::start();
    let postgres = POSTGRES.url_of(&common::url("PUNCTUAL_TEST_POSTGRES_URL")).unwrap();
    let redis: Address = REDIS.url_of(&common::url("PUNCTUAL_TEST_REDIS_URL")).unwrap().parse().unwrap();
    let primary = common::primary_at(&postgres, &common::schema(), Some(&clock)).await;
    Fixture::new(DispatchStore::open(Arc::new(primary), redis).await.unwrap(), clock).ties(Ties::Id)
}

// On threads of their own: while a comparison with the model takes long, somebody has to say that Redis hands out jobs.
#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_the_model_when_answers_come_in_small_parts() {
    let seed = common::new_seed();
    common::without_pauses(fixture, move |fx| async move { random::replay(&fx, seed, 150).await }).await;
}
