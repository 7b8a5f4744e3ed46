use std::time::Duration;

use punctual_core::{ClaimRequest, JobDefaults, JobId, QueueSave, QueueSettings, RetryPolicy};

use crate::Fixture;

async fn save(fx: &Fixture, name: &str, paused: bool) -> bool {
    let known = fx.store.queues().await.unwrap().into_iter().find(|queue| queue.name == name);
    let revision = known.map_or(0, |queue| queue.revision);
    let settings = QueueSettings { paused, ..QueueSettings::default() };
    let what = if paused { "paused" } else { "resumed" };
    let save = QueueSave { name: name.into(), settings, revision, actor: "ada".into(), action: what.into() };
    fx.store.save_queue(save).await.unwrap()
}

async fn in_queue(fx: &Fixture, queue: &str, priority: u8) -> JobId {
    fx.enqueue(|spec| (spec.queue, spec.priority) = (queue.into(), priority)).await
}

pub async fn a_paused_queue_is_not_claimed_until_it_is_resumed(fx: &Fixture) {
    let paused = in_queue(fx, "a", 9).await;
    let other = in_queue(fx, "b", 1).await;
    let running = fx.claim(fx.worker(), 1).await.remove(0);
    assert_eq!(running.job.id, paused);
    let second = in_queue(fx, "a", 9).await;
    let soon = fx.enqueue_in(5, |spec| spec.queue = "a".into()).await;
    assert!(save(fx, "a", true).await);
    assert_eq!(fx.claim_one(fx.worker()).await.job.id, other, "nothing of the paused one");
    let ahead = ClaimRequest { ahead: Duration::from_secs(10), ..fx.request(fx.worker(), 10) };
    assert!(fx.store.claim(ahead).await.unwrap().claims.is_empty(), "nor ahead of its time");
    // A running job continues, and may return to its queue.
    fx.settle(&running, punctual_core::Outcome::Released).await;
    assert!(fx.claim(fx.worker(), 10).await.is_empty());
    assert!(save(fx, "a", false).await);
    fx.pass(5);
    let claimed: Vec<JobId> = fx.claim(fx.worker(), 10).await.into_iter().map(|claim| claim.job.id).collect();
    assert_eq!(claimed, [paused, second, soon]);
}

pub async fn settings_of_a_queue_are_stored_with_their_history(fx: &Fixture) {
    assert!(fx.store.queues().await.unwrap().is_empty());
    let defaults = JobDefaults {
        priority: Some(8),
        max_attempts: Some(9),
        timeout: Some(Duration::from_millis(1_500)),
        retry: Some(RetryPolicy::fixed(Duration::from_secs(1))),
        keep_for: Some(Duration::from_secs(60)),
    };
    let settings = QueueSettings { defaults, ..QueueSettings::default() };
    let first = QueueSave { name: "mail".into(), settings, revision: 0, actor: "ada".into(), action: "made".into() };
    assert!(fx.store.save_queue(first.clone()).await.unwrap());
    assert!(!fx.store.save_queue(first.clone()).await.unwrap(), "another client was first");
    fx.pass(1);
    let second = QueueSave { revision: 1, actor: "bob".into(), action: "changed".into(), ..first.clone() };
    assert!(fx.store.save_queue(second.clone()).await.unwrap());
    let unknown = QueueSave { name: "none".into(), ..second };
    assert!(!fx.store.save_queue(unknown).await.unwrap(), "it has no settings that could be changed");
    let queues = fx.store.queues().await.unwrap();
    assert_eq!(queues.len(), 1);
    assert_eq!(&*queues[0].name, "mail");
    assert_eq!(queues[0].settings, first.settings);
    assert_eq!(queues[0].revision, 2);
    assert_eq!((&*queues[0].updated_by, queues[0].updated_at), ("bob", fx.now()));
    let events = fx.store.queue_events("mail".into(), 10).await.unwrap();
    let actual: Vec<_> = events.iter().map(|event| (&*event.actor, &*event.action)).collect();
    assert_eq!(actual, [("bob", "changed"), ("ada", "made")]);
    assert_eq!(fx.store.queue_events("mail".into(), 1).await.unwrap().len(), 1);
}

pub async fn a_claim_may_take_queues_in_their_order(fx: &Fixture) {
    let late = in_queue(fx, "b", 9).await;
    let early = in_queue(fx, "a", 1).await;
    let urgent = in_queue(fx, "a", 3).await;
    let request = |queues: [&str; 2], in_order| ClaimRequest {
        queues: queues.map(str::to_owned).to_vec(),
        in_order,
        ..fx.request(fx.worker(), 2)
    };
    let claim = async |request| -> Vec<JobId> {
        let claims = fx.store.claim(request).await.unwrap().claims;
        for claim in &claims {
            fx.settle(claim, punctual_core::Outcome::Released).await;
        }
        claims.into_iter().map(|claim| claim.job.id).collect()
    };
    assert_eq!(claim(request(["a", "b"], true)).await, [urgent, early]);
    assert_eq!(claim(request(["b", "a"], true)).await, [late, urgent]);
    assert_eq!(claim(request(["a", "b"], false)).await, [late, urgent]);
}
