//! PostgreSQL behind a bad network: it passes the conformance suite behind a slow one, and a silent one delays
//! operations for at most their timeouts.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{sync::LazyLock, time::Duration};

use punctual_core::{Change, ClaimRequest, Enqueued, Outcome, Settled, Status, StoreError, Verb, Watch, settle};
use punctual_servers::{Direction, Fault, Proxy};
use punctual_sql::postgres::{Options, PostgresStore};
use punctual_testkit::{Fixture, Ties, conformance};
use tokio::time::{sleep, timeout};

/// How long an operation waits for an answer in these tests.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Much longer than that, for a busy machine.
const GENEROUS: Duration = Duration::from_secs(60);

fn url() -> String {
    std::env::var("PUNCTUAL_TEST_POSTGRES_URL")
        .expect("PUNCTUAL_TEST_POSTGRES_URL names no server; `cargo xtask test` starts one and names it")
}

/// Options of a store behind a proxy.
fn options(proxy: &Proxy) -> Options {
    let mut options: Options = proxy.url_of(&url()).unwrap().parse().unwrap();
    (options.schema, options.days_ahead) = (format!("test_{:016x}", fastrand::u64(..)), 0);
    options
}

async fn fixture() -> Fixture {
    /// Splits answers into small parts, so that the first bytes never complete an answer.
    static SLOW: LazyLock<Proxy> = LazyLock::new(|| {
        let proxy = Proxy::before(&url()).unwrap();
        proxy.set(Fault::Throttle { bytes: 700, pause: Duration::ZERO });
        proxy
    });
    let clock = Fixture::start();
    Fixture::new(PostgresStore::open(options(&SLOW).clock(clock.clone())).await.unwrap(), clock).ties(Ties::Id)
}

conformance!(fixture);

async fn impatient(proxy: &Proxy) -> Fixture {
    let clock = Fixture::start();
    let mut options = options(proxy).clock(clock.clone());
    options.answer_timeout = ANSWER_TIMEOUT;
    Fixture::new(PostgresStore::open(options).await.unwrap(), clock)
}

/// Asserts that an operation stops waiting for an answer, and reports the timeout.
async fn fails_in_time<T: std::fmt::Debug>(operation: impl Future<Output = Result<T, StoreError>>) {
    let failed = timeout(GENEROUS, operation).await.expect("the operation waits for an answer without end");
    let error = failed.expect_err("nothing came through");
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    let actual = error.to_string();
    assert!(actual.contains("no answer within 1 s") || actual.contains("no connection became free"), "{actual}");
}

#[tokio::test]
async fn operations_on_a_silent_network_time_out_and_succeed_once_it_is_healed() {
    for direction in [Direction::Both, Direction::ToServer, Direction::ToClient] {
        let proxy = Proxy::before(&url()).unwrap();
        let fx = impatient(&proxy).await;
        let id = fx.enqueue(|_| ()).await;
        let claim = fx.claim_one(fx.worker()).await;
        proxy.set(Fault::Swallow(direction));
        let store = &fx.store;
        let end = settle(&claim, Outcome::Succeeded { result: None }, 0.5);
        tokio::join!(
            fails_in_time(store.enqueue(vec![fx.new_job(|_| ())])),
            fails_in_time(store.claim(ClaimRequest { wait: GENEROUS, ..fx.request(fx.worker(), 1) })),
            fails_in_time(store.extend(claim.worker, Duration::from_secs(30), vec![claim.attempt_id()])),
            fails_in_time(store.settle(vec![end.clone()])),
            fails_in_time(store.get(id)),
        );
        proxy.heal();
        // Broken connections are detected; new ones work.
        let settled = timeout(GENEROUS, async {
            loop {
                match store.settle(vec![end.clone()]).await {
                    Ok(settled) => break settled,
                    Err(error) => assert!(error.is_transient(), "{error}"),
                }
            }
        });
        let settled = settled.await.expect("nothing goes on after the network is healed");
        // Either the answer or the request was lost.
        assert!(matches!(settled[..], [Settled::Done | Settled::Stale]), "{settled:?}");
        assert_eq!(fx.job(id).await.status, Status::Succeeded);
        assert_eq!(fx.history(id).await.len(), 3, "one end");
    }
}

/// The driver treats a `BEGIN` that was abandoned as not sent; its answer arrives after the caller has stopped waiting.
#[tokio::test]
async fn a_transaction_whose_begin_was_given_up_is_not_left_open() {
    let proxy = Proxy::before(&url()).unwrap();
    let (mut far, mut near) = (options(&proxy), url().parse::<Options>().unwrap());
    (far.answer_timeout, far.max_connections) = (ANSWER_TIMEOUT, 1);
    (near.schema, near.days_ahead) = (far.schema.clone(), 0);
    let far = Fixture::new(PostgresStore::open(far).await.unwrap(), Fixture::start());
    let near = Fixture::new(PostgresStore::open(near).await.unwrap(), Fixture::start());
    let job = far.enqueue(|_| ()).await;
    let cancel = Change { job, verb: Verb::Cancel, actor: "ada".into(), reason: None };
    proxy.set(Fault::Delay(2 * ANSWER_TIMEOUT));
    // The wait is ended once by the store's timeout and once by the caller's.
    fails_in_time(far.store.change(vec![cancel.clone()])).await;
    let impatient = timeout(ANSWER_TIMEOUT / 10, far.store.change(vec![cancel])).await;
    assert!(impatient.is_err(), "{impatient:?}");
    proxy.heal();
    for _ in 0..5 {
        let new = far.new_job(|_| ());
        let stored = timeout(GENEROUS, async {
            while let Err(error) = far.store.enqueue(vec![new.clone()]).await {
                assert!(error.is_transient(), "{error}");
            }
        });
        stored.await.expect("nothing goes on after the network is healed");
        assert!(near.store.get(new.id).await.unwrap().is_some(), "what was stored is committed");
    }
}

/// A firewall or a load balancer drops connections that are idle for long, and notifies neither end.
#[tokio::test]
async fn connections_that_a_firewall_dropped_are_replaced_without_an_error() {
    let proxy = Proxy::before(&url()).unwrap();
    let fx = Fixture::new(PostgresStore::open(options(&proxy)).await.unwrap(), Fixture::start());
    fx.enqueue(|_| ()).await;
    // Connections are checked only after they were idle for a while.
    sleep(Duration::from_millis(1_500)).await;
    proxy.forget();
    let id = fx.enqueue(|_| ()).await;
    assert_eq!(fx.job(id).await.status, Status::Queued);
}

#[tokio::test]
async fn hints_are_received_again_after_a_firewall_dropped_the_listening_connection() {
    let proxy = Proxy::before(&url()).unwrap();
    let (mut far, mut near) = (options(&proxy), url().parse::<Options>().unwrap());
    far.answer_timeout = ANSWER_TIMEOUT;
    (near.schema, near.days_ahead) = (far.schema.clone(), 0);
    let listener = Fixture::new(PostgresStore::open(far).await.unwrap(), Fixture::start());
    let sender = Fixture::new(PostgresStore::open(near).await.unwrap(), Fixture::start());
    let mut hints = listener.store.watch();
    await_hint(&sender, &mut *hints).await;
    // Drains hints that are still in transit.
    while timeout(Duration::from_millis(300), hints.changed()).await.is_ok() {}
    proxy.forget();
    await_hint(&sender, &mut *hints).await;
}

/// Changes jobs until a listener receives a hint.
async fn await_hint(sender: &Fixture, hints: &mut dyn Watch) {
    let received = async {
        loop {
            let job = sender.enqueue(|_| ()).await;
            let cancel = Change { job, verb: Verb::Cancel, actor: "ada".into(), reason: None };
            sender.store.change(vec![cancel]).await.unwrap();
            if timeout(Duration::from_millis(200), hints.changed()).await.is_ok() {
                break;
            }
        }
    };
    timeout(GENEROUS, received).await.expect("no hint comes");
}

#[tokio::test]
async fn an_enqueue_whose_answer_is_lost_is_stored_once() {
    let proxy = Proxy::before(&url()).unwrap();
    let fx = impatient(&proxy).await;
    fx.enqueue(|_| ()).await;
    let job = fx.new_job(|_| ());
    proxy.set(Fault::LoseAnswer { after: 0, to: "insert into punctual_jobs".to_owned() });
    let lost = fx.store.enqueue(vec![job.clone()]).await.unwrap_err();
    assert!(matches!(lost, StoreError::Unreachable { .. }), "{lost}");
    assert_eq!(proxy.lost(), 1);
    let again = fx.store.enqueue(vec![job.clone()]).await.unwrap();
    assert!(matches!(again[..], [Enqueued { existing: true, .. }]), "{again:?}");
    assert_eq!(fx.claim(fx.worker(), 10).await.len(), 2);
}
