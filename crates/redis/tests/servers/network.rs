//! PostgreSQL with Redis in front behaves the same behind slow networks to both. The whole suite would take minutes
//! there; random operations cover all of the port.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use punctual_redis::{Address, DispatchStore};
use punctual_servers::{Fault, Proxy};
use punctual_testkit::{Fixture, Ties, random};

use crate::common;

/// Answers arrive in small parts, so that none is complete with its first bytes.
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

// Several threads: while a comparison with the model takes long, another task has to extend the dispatch lease.
#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_the_model_when_answers_come_in_small_parts() {
    let seed = common::new_seed();
    common::without_pauses(fixture, move |fx| async move { random::replay(&fx, seed, 150).await }).await;
}
