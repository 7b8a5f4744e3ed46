//! Subscribers receive every notification of jobs, once and in order, including those that they missed.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Place, until};
use punctual::{Punctual, Subscription, admin::Retention};

on_each_engine! {
    who_listens_hears_everything_once_and_in_order
    who_comes_back_hears_what_was_missed
    a_listener_that_is_far_behind_misses_nothing
    other_processes_are_heard
    a_message_that_breaks_a_limit_is_refused_and_nothing_is_stored
}

async fn next(listener: &mut Subscription) -> String {
    listener.next().await.unwrap().message.read().unwrap()
}

async fn tell(punctual: &Punctual, user: &str, count: usize) {
    for number in 0..count {
        punctual.notify(user, &format!("{user} {number}")).await.unwrap();
    }
}

async fn who_listens_hears_everything_once_and_in_order(place: impl Fn() -> Place) {
    let place = place();
    let punctual = place.connect().await;
    tell(&punctual, "ada", 3).await;
    let mut ada = punctual.subscribe("ada", Some(0)).await.unwrap();
    let mut again = punctual.subscribe("ada", Some(0)).await.unwrap();
    let mut bob = punctual.subscribe("bob", Some(0)).await.unwrap();
    tokio::join!(tell(&punctual, "ada", 40), tell(&punctual, "bob", 40), async {
        punctual.broadcast(&"all").await.unwrap();
    });
    for listener in [&mut ada, &mut again] {
        let mut heard = Vec::new();
        while heard.len() < 44 {
            heard.push(next(listener).await);
        }
        heard.retain(|text| text != "all");
        let expected = (0..3).chain(0..40).map(|number| format!("ada {number}"));
        assert!(heard.iter().eq(expected.collect::<Vec<_>>().iter()), "{heard:?}");
    }
    let mut heard = Vec::new();
    while heard.len() < 41 {
        heard.push(next(&mut bob).await);
    }
    assert!(heard.iter().all(|text| text == "all" || text.starts_with("bob")));
}

async fn who_comes_back_hears_what_was_missed(place: impl Fn() -> Place) {
    let place = place();
    let punctual = place.connect().await;
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

async fn a_listener_that_is_far_behind_misses_nothing(place: impl Fn() -> Place) {
    const COUNT: usize = 1_300;
    let place = place();
    let punctual = place.connect().await;
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

async fn other_processes_are_heard(place: impl Fn() -> Place) {
    let place = place();
    let (here, there) = (place.connect().await, place.connect().await);
    let mut ada = here.subscribe("ada", Some(0)).await.unwrap();
    there.notify("ada", &"from afar").await.unwrap();
    assert_eq!(next(&mut ada).await, "from afar");
    drop(ada);
    // There is no subscriber for a while, and then one again.
    let mut ada = here.subscribe("ada", None).await.unwrap();
    there.broadcast(&"again").await.unwrap();
    assert_eq!(next(&mut ada).await, "again", "from then on, whoever asks when");
}

async fn a_message_that_breaks_a_limit_is_refused_and_nothing_is_stored(place: impl Fn() -> Place) {
    let place = place();
    let punctual = place.connect().await;
    let long = "x".repeat(65_536);
    let refused = punctual.notify("ada", &long).await.unwrap_err().to_string();
    assert_eq!(refused, "message: 65538 bytes, at most 65536 are allowed");
    let refused = punctual.notify("", &1).await.unwrap_err().to_string();
    assert!(refused.starts_with("user: "), "{refused}");
    let refused = punctual.notify("a".repeat(257), &1).await.unwrap_err().to_string();
    assert!(refused.contains("at most 256"), "{refused}");
    assert_eq!(punctual.store().last_notification().await.unwrap(), 0);
}
