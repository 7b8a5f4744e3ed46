//! Subscribers receive every notification of jobs, once and in order, including those that they missed.

use punctual::{Punctual, Subscription, admin::Retention};
use punctual_tests::{TestStore, on_each_engine, until};

on_each_engine! {
    a_subscriber_receives_each_message_once_and_in_order
    a_subscriber_that_reconnects_receives_missed_messages
    a_listener_that_is_far_behind_misses_nothing
    messages_of_other_processes_are_received
    a_message_that_breaks_a_limit_is_refused_and_nothing_is_stored
}

async fn next(listener: &mut Subscription) -> String {
    listener.next().await.unwrap().message.read().unwrap()
}

async fn send(punctual: &Punctual, user: &str, count: usize) {
    for number in 0..count {
        punctual.notify(user, &format!("{user} {number}")).await.unwrap();
    }
}

async fn a_subscriber_receives_each_message_once_and_in_order(new_store: impl Fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    send(&punctual, "ada", 3).await;
    let mut ada = punctual.subscribe("ada", Some(0)).await.unwrap();
    let mut again = punctual.subscribe("ada", Some(0)).await.unwrap();
    let mut bob = punctual.subscribe("bob", Some(0)).await.unwrap();
    tokio::join!(send(&punctual, "ada", 40), send(&punctual, "bob", 40), async {
        punctual.broadcast(&"all").await.unwrap();
    });
    for listener in [&mut ada, &mut again] {
        let mut received = Vec::new();
        while received.len() < 44 {
            received.push(next(listener).await);
        }
        received.retain(|text| text != "all");
        let expected = (0..3).chain(0..40).map(|number| format!("ada {number}"));
        assert!(received.iter().eq(expected.collect::<Vec<_>>().iter()), "{received:?}");
    }
    let mut received = Vec::new();
    while received.len() < 41 {
        received.push(next(&mut bob).await);
    }
    assert!(received.iter().all(|text| text == "all" || text.starts_with("bob")));
}

async fn a_subscriber_that_reconnects_receives_missed_messages(new_store: impl Fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let mut ada = punctual.subscribe("ada", Some(0)).await.unwrap();
    punctual.notify("ada", &"one").await.unwrap();
    let seen = ada.next().await.unwrap();
    drop(ada);
    punctual.notify("ada", &"two").await.unwrap();
    punctual.broadcast(&"three").await.unwrap();
    let mut ada = punctual.subscribe("ada", Some(seen.id)).await.unwrap();
    assert_eq!([next(&mut ada).await, next(&mut ada).await], ["two", "three"]);
    punctual.notify("ada", &"four").await.unwrap();
    assert_eq!(next(&mut ada).await, "four");
    let all = punctual.notifications("ada", 0, 10).await.unwrap();
    assert_eq!(all.len(), 4);
    let nothing_kept = Retention { notifications: std::time::Duration::ZERO, ..Retention::default() };
    until("retention to drop them", async || {
        punctual.admin("test").cleanup(nothing_kept, |_| ()).await.unwrap();
        punctual.notifications("ada", 0, 10).await.unwrap().is_empty()
    })
    .await;
    punctual.notify("ada", &"five").await.unwrap();
    assert_eq!(next(&mut ada).await, "five");
}

async fn a_listener_that_is_far_behind_misses_nothing(new_store: impl Fn() -> TestStore) {
    const COUNT: usize = 1_300;
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let (mut slow, mut quick) =
        (punctual.subscribe("ada", Some(0)).await.unwrap(), punctual.subscribe("ada", Some(0)).await.unwrap());
    punctual.notify("ada", &0).await.unwrap();
    assert_eq!(slow.next().await.unwrap().message.as_str(), "0");
    let batch = |from: usize| {
        let messages = (from..from + 100).map(|number| punctual::core::NewNotification {
            user_id: Some("ada".into()),
            message: punctual::Json::of(&number).unwrap(),
            job: None,
        });
        messages.collect::<Vec<_>>()
    };
    for from in (1..COUNT).step_by(100) {
        punctual.store().notify(batch(from)).await.unwrap();
    }
    for listener in [&mut quick, &mut slow] {
        let mut last = None;
        while last != Some(COUNT) {
            let number: usize = listener.next().await.unwrap().message.read().unwrap();
            assert!(last.is_none_or(|last| number == last + 1), "{number} after {last:?}");
            last = Some(number);
        }
    }
}

async fn messages_of_other_processes_are_received(new_store: impl Fn() -> TestStore) {
    let test_store = new_store();
    let (here, there) = (test_store.connect().await, test_store.connect().await);
    let mut ada = here.subscribe("ada", Some(0)).await.unwrap();
    there.notify("ada", &"from afar").await.unwrap();
    assert_eq!(next(&mut ada).await, "from afar");
    drop(ada);
    // There is no subscriber for a while, and then one again.
    let mut ada = here.subscribe("ada", None).await.unwrap();
    there.broadcast(&"again").await.unwrap();
    assert_eq!(next(&mut ada).await, "again", "from then on, at any time");
}

async fn a_message_that_breaks_a_limit_is_refused_and_nothing_is_stored(new_store: impl Fn() -> TestStore) {
    let test_store = new_store();
    let punctual = test_store.connect().await;
    let long = "x".repeat(65_536);
    let refused = punctual.notify("ada", &long).await.unwrap_err().to_string();
    assert_eq!(refused, "message: 65538 bytes, at most 65536 are allowed");
    let refused = punctual.notify("", &1).await.unwrap_err().to_string();
    assert!(refused.starts_with("user: "), "{refused}");
    let refused = punctual.notify("a".repeat(257), &1).await.unwrap_err().to_string();
    assert!(refused.contains("at most 256"), "{refused}");
    assert_eq!(punctual.store().last_notification().await.unwrap(), 0);
}
