use std::time::Duration;

use punctual_core::{Heartbeat, Lock, TokenId};

use crate::Fixture;

pub async fn workers_come_heartbeat_and_leave(fx: &Fixture) {
    let heartbeat = |running| Heartbeat {
        id: punctual_core::WorkerId::from_bits(9),
        host: "host".into(),
        pid: 7,
        queues: vec!["a".into()],
        names: vec!["x".into(), "y".into()],
        concurrency: 4,
        running,
        registered_by: Some(TokenId::from_bits(5)),
    };
    let started = fx.now();
    fx.store.heartbeat(heartbeat(0)).await.unwrap();
    fx.pass(10);
    // A heartbeat with another token does not change the owner of the worker.
    fx.store.heartbeat(Heartbeat { registered_by: Some(TokenId::from_bits(6)), ..heartbeat(3) }).await.unwrap();
    let workers = fx.store.workers().await.unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].heartbeat, heartbeat(3));
    assert_eq!(workers[0].started_at, started);
    assert_eq!(workers[0].seen_at, fx.now());
    fx.store.deregister(heartbeat(0).id).await.unwrap();
    assert!(fx.store.workers().await.unwrap().is_empty());
}

async fn lock(fx: &Fixture, owner: &str) -> Option<Lock> {
    fx.store.lock("tick".into(), owner.into(), Duration::from_secs(10)).await.unwrap()
}

pub async fn a_lock_is_taken_once_until_it_expires(fx: &Fixture) {
    let first = lock(fx, "ada").await.unwrap();
    assert_eq!((first.expires_at, first.owner.as_str()), (fx.now().after(Duration::from_secs(10)), "ada"));
    assert_eq!(lock(fx, "bob").await, None);
    assert_eq!(fx.store.locks().await.unwrap(), [first]);
    fx.pass(9);
    assert_eq!(lock(fx, "bob").await, None);
    fx.pass(1);
    assert!(fx.store.locks().await.unwrap().is_empty(), "it has expired");
    assert!(lock(fx, "bob").await.is_some());
}

pub async fn a_lock_belongs_to_its_owner_alone(fx: &Fixture) {
    let ttl = Duration::from_secs(10);
    lock(fx, "ada").await.unwrap();
    assert!(!fx.store.unlock("tick".into(), "bob".into()).await.unwrap());
    assert!(!fx.store.extend_lock("tick".into(), "bob".into(), ttl).await.unwrap());
    assert!(!fx.store.unlock("other".into(), "ada".into()).await.unwrap());
    fx.pass(5);
    assert!(fx.store.extend_lock("tick".into(), "ada".into(), ttl).await.unwrap());
    fx.pass(9);
    assert_eq!(lock(fx, "bob").await, None, "it was extended");
    assert!(fx.store.unlock("tick".into(), "ada".into()).await.unwrap());
    assert!(!fx.store.unlock("tick".into(), "ada".into()).await.unwrap());
    assert!(lock(fx, "bob").await.is_some());
    fx.pass(10);
    assert!(!fx.store.extend_lock("tick".into(), "bob".into(), ttl).await.unwrap(), "what has expired is lost");
}

pub async fn lock_tokens_only_grow(fx: &Fixture) {
    let mut last = 0;
    for owner in ["ada", "ada", "bob", "cyd"] {
        let token = lock(fx, owner).await.unwrap().token;
        assert!(token > last, "{owner}");
        last = token;
        match owner {
            "bob" => fx.pass(10),
            "ada" if last == 2 => assert!(fx.store.unlock("tick".into(), owner.into()).await.unwrap()),
            _ => {}
        }
    }
}
