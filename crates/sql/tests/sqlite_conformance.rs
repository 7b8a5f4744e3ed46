//! SQLite passes the suite, and agrees with the model on random operations.

#![allow(clippy::unwrap_used)]

use punctual_core::{Outcome, Settled};
use punctual_sql::sqlite::{Options, SqliteStore};
use punctual_testkit::{Fixture, conformance, random};

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Fixture::start();
    let options = Options::new(folder.path().join("punctual.db")).clock(clock.clone());
    Fixture::new(SqliteStore::open(options).await.unwrap(), clock).keep(folder)
}

conformance!(fixture);

#[tokio::test]
async fn random_operations_agree_with_the_model() {
    for seed in random::seeds(1..=5) {
        random::replay(&fixture().await, seed, 400).await;
    }
}

#[tokio::test]
async fn what_is_handed_over_goes_on_as_it_would_have() {
    for seed in random::seeds(1..=5) {
        random::replay_handed_over(&fixture().await, seed, 200).await;
    }
}

/// A process remembers what it claimed. What others have done to it since must count more.
#[tokio::test]
async fn what_one_process_remembers_of_a_claim_does_not_hinder_another() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Fixture::start();
    let open = || SqliteStore::open(Options::new(folder.path().join("punctual.db")).clock(clock.clone()));
    let one = Fixture::new(open().await.unwrap(), clock.clone());
    let two = Fixture::new(open().await.unwrap(), clock.clone());
    let id = one.enqueue(|_| ()).await;
    let first = one.claim_one(one.worker()).await;
    one.pass(60);
    assert_eq!(two.reap().await, 1);
    let second = two.claim_one(two.worker()).await;
    let success = || Outcome::Succeeded { result: None };
    // The second execution ends by way of the process that remembers the first.
    assert_eq!(one.settle(&second, success()).await, Settled::Done);
    assert_eq!(two.settle(&second, success()).await, Settled::Stale);
    assert_eq!(one.settle(&first, success()).await, Settled::Stale);
    assert_eq!(one.story(id).await, two.story(id).await);
    assert_eq!(one.store.attempts(id).await.unwrap().len(), 2);
    // What the first process remembers is not true any more.
    one.enqueue(|_| ()).await;
    let first = one.claim_one(one.worker()).await;
    one.pass(60);
    assert_eq!(two.reap().await, 1);
    assert_eq!(one.settle(&first, success()).await, Settled::Stale);
    let second = two.claim_one(two.worker()).await;
    assert_eq!(two.settle(&second, success()).await, Settled::Done);
}

/// The first to come makes the file; nobody is turned away meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let open = || SqliteStore::open(Options::new(folder.path().join("punctual.db")));
        let opened = tokio::join!(open(), open(), open(), open(), open(), open());
        for store in [opened.0, opened.1, opened.2, opened.3, opened.4, opened.5] {
            Fixture::new(store.unwrap(), Fixture::start()).store.counts().await.unwrap();
        }
    }
}
