//! Locks on five independent servers: a lock has one owner, even if nodes lose their data or a client is suspended.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use punctual_core::{Lock, ManualClock, Timestamp, store::ports::*};
use punctual_redis::{DispatchStore, Options};
use punctual_servers::Redis;
use punctual_testkit::{Fixture, random};

use crate::common;

const TTL: Duration = Duration::from_secs(10);

fn nodes() -> Vec<Redis> {
    (0..5).map(|_| Redis::start().unwrap()).collect()
}

fn options(nodes: &[Redis], lock_jobs: bool) -> Options {
    let locks = nodes.iter().map(|node| node.url().parse().unwrap()).collect();
    Options { address: common::redis(), locks, lock_jobs }
}

/// Two clients as in two processes, with the same clock.
async fn clients(nodes: &[Redis]) -> (DispatchStore, DispatchStore, ManualClock) {
    let (schema, clock) = (common::schema(), Fixture::start());
    let ada = common::open(&schema, Some(&clock), options(nodes, false)).await;
    let bob = common::open(&schema, Some(&clock), options(nodes, false)).await;
    (ada, bob, clock)
}

async fn take(store: &DispatchStore, owner: &str) -> Option<Lock> {
    store.lock("report".to_owned(), owner.to_owned(), TTL).await.unwrap()
}

/// The number of nodes on which the owner has the lock.
fn held(nodes: &[Redis], owner: &str) -> usize {
    let keys = |node: &Redis| node.execute("KEYS punctual:*:lock:report").unwrap_or_default();
    let has = |node: &&Redis| {
        let values = keys(node).into_iter().flat_map(|key| node.execute(&format!("GET {key}")).unwrap());
        values.into_iter().any(|value| value.ends_with(owner))
    };
    nodes.iter().filter(has).count()
}

#[tokio::test]
async fn a_lock_is_taken_on_all_nodes_and_freed_on_all() {
    let nodes = nodes();
    let (ada, bob, _) = clients(&nodes).await;
    assert!(take(&ada, "ada").await.is_some());
    assert_eq!(held(&nodes, "ada"), 5);
    assert_eq!(take(&bob, "bob").await, None);
    assert_eq!((held(&nodes, "ada"), held(&nodes, "bob")), (5, 0), "a client that fails leaves nothing behind");
    assert!(!bob.unlock("report".into(), "bob".into()).await.unwrap());
    assert!(ada.unlock("report".into(), "ada".into()).await.unwrap());
    assert_eq!(held(&nodes, "ada"), 0);
}

#[tokio::test]
async fn two_of_five_nodes_may_be_down() {
    let mut nodes = nodes();
    let (ada, bob, _) = clients(&nodes).await;
    nodes[1].kill().unwrap();
    nodes[4].freeze().unwrap();
    let lock = take(&ada, "ada").await.unwrap();
    assert_eq!(take(&bob, "bob").await, None);
    assert!(ada.unlock("report".into(), "ada".into()).await.unwrap());
    assert!(take(&bob, "bob").await.unwrap().token > lock.token);
}

#[tokio::test]
async fn with_most_nodes_down_the_primary_store_decides_alone() {
    let mut nodes = nodes();
    let (ada, bob, _) = clients(&nodes).await;
    nodes.iter_mut().take(3).for_each(|node| node.kill().unwrap());
    assert!(take(&ada, "ada").await.is_some());
    assert_eq!(take(&bob, "bob").await, None);
}

/// Redlock alone fails in this case: two majorities, because nodes have lost the locks that they granted.
#[tokio::test]
async fn a_node_that_restarts_empty_does_not_lead_to_a_second_owner() {
    let mut nodes = nodes();
    let (ada, bob, clock) = clients(&nodes).await;
    nodes[3].kill().unwrap();
    nodes[4].kill().unwrap();
    let first = take(&ada, "ada").await.unwrap();
    nodes[2].kill().unwrap();
    nodes[2..].iter_mut().for_each(|node| node.start_again().unwrap());
    assert_eq!(held(&nodes, "ada"), 2, "three nodes would give it to anybody");
    assert_eq!(take(&bob, "bob").await, None);
    assert_eq!(held(&nodes, "bob"), 0);
    clock.advance(TTL);
    let second = take(&bob, "bob").await.unwrap();
    assert!(second.token > first.token);
}

/// A resource that remembers the greatest token.
#[derive(Default)]
struct Resource(u64);

impl Resource {
    fn write(&mut self, token: u64) -> bool {
        let accepted = token >= self.0;
        self.0 = self.0.max(token);
        accepted
    }
}

#[tokio::test]
async fn a_client_that_stood_still_is_stopped_by_its_token() {
    let nodes = nodes();
    let (ada, bob, clock) = clients(&nodes).await;
    let (mut resource, stale) = (Resource::default(), take(&ada, "ada").await.unwrap());
    assert!(resource.write(stale.token));
    // Ada is suspended until her lease has expired.
    clock.advance(TTL);
    let fresh = take(&bob, "bob").await.unwrap();
    assert!(resource.write(fresh.token));
    assert!(!resource.write(stale.token), "what she still believes to be hers is refused");
    assert!(!ada.extend_lock("report".into(), "ada".into(), TTL).await.unwrap());
    assert!(!ada.unlock("report".into(), "ada".into()).await.unwrap());
    assert_eq!(held(&nodes, "bob"), 5, "and she frees nothing of his");
}

/// The token of a lock, and from when until when it was held.
type Held = (u64, Timestamp, Timestamp);

/// Clients contend while nodes are killed, emptied and frozen.
#[tokio::test(flavor = "multi_thread")]
async fn there_are_never_two_owners_whatever_becomes_of_the_nodes() {
    const ROUNDS: usize = 25;
    let mut nodes = nodes();
    let (schema, stop, history) =
        (common::schema(), Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<Held>>>::default());
    let mut clients = Vec::new();
    for _ in 0..4 {
        let store = common::open(&schema, None, options(&nodes, false)).await;
        clients.push(tokio::spawn(contend(store, stop.clone(), history.clone())));
    }
    for _ in 0..ROUNDS {
        let enough = history.lock().unwrap().len() + 3;
        let node = &mut nodes[fastrand::usize(..5)];
        match fastrand::u8(..3) {
            0 => node.kill().and_then(|()| node.start_again()).unwrap(),
            1 => drop(node.execute("FLUSHALL").unwrap()),
            _ => node.freeze().unwrap(),
        }
        while history.lock().unwrap().len() < enough {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        nodes.iter().for_each(|node| node.thaw().unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let mut history = std::mem::take(&mut *history.lock().unwrap());
    history.sort_unstable();
    for pair in history.windows(2) {
        let ((token, _, until), (next, since, _)) = (pair[0], pair[1]);
        assert!(token < next, "{token} was given twice");
        assert!(until <= since, "{token} was held until {until}, and {next} since {since}");
    }
}

/// Takes the lock repeatedly; sometimes lets it expire.
async fn contend(store: DispatchStore, stop: Arc<AtomicBool>, history: Arc<Mutex<Vec<Held>>>) {
    while !stop.load(Ordering::Relaxed) {
        let (owner, ttl) = (fastrand::u64(..).to_string(), Duration::from_millis(200));
        let Some(lock) = store.lock("contended".to_owned(), owner.clone(), ttl).await.unwrap() else {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
            continue;
        };
        let since = lock.expires_at.before(ttl);
        let mut until = lock.expires_at;
        if fastrand::bool() && store.unlock("contended".to_owned(), owner.clone()).await.unwrap() {
            // The exact time of the release is unknown: some time after the lock was taken.
            until = since;
        }
        history.lock().unwrap().push((lock.token, since, until));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_jobs_locked_random_operations_agree_with_the_model() {
    let nodes = nodes();
    let (seed, fixture) = (common::new_seed(), async || common::fixture(options(&nodes, true)).await);
    common::without_pauses(fixture, move |fx| async move { random::replay(&fx, seed, 200).await }).await;
    for node in &nodes {
        assert_eq!(node.execute("KEYS punctual:*:job:*").unwrap(), [] as [&str; 0], "locks of jobs are freed");
    }
}

#[tokio::test]
async fn locks_are_refused_that_cannot_be_decided() {
    let address = common::redis();
    let open = async |locks: Vec<&str>, lock_jobs: bool| {
        let locks = locks.iter().map(|address| address.parse().unwrap()).collect();
        let store = common::try_open(Options { address: address.clone(), locks, lock_jobs }).await;
        store.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(open(Vec::new(), true).await.contains("lock_jobs needs locks"));
    assert!(open(vec!["redis://a", "redis://b"], false).await.contains("an odd number"));
    assert!(open(vec!["redis+cluster://a"], false).await.contains("one independent server"));
}
