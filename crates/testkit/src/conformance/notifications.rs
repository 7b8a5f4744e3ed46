use std::{collections::BTreeSet, time::Duration};

use futures_util::future::join_all;
use punctual_core::{JobId, Json, NewNotification, Notification};

use crate::Fixture;

fn to(user: Option<&str>, text: &str) -> NewNotification {
    NewNotification { user_id: user.map(str::to_owned), message: Json::of(&text).unwrap(), job: None }
}

async fn notify(fx: &Fixture, user: Option<&str>, text: &str) -> u64 {
    fx.store.notify(vec![to(user, text)]).await.unwrap()[0].id
}

async fn texts(fx: &Fixture, user: Option<&str>, after: u64, limit: usize) -> Vec<String> {
    let found = fx.store.notifications(user.map(str::to_owned), after, limit).await.unwrap();
    found.iter().map(|one| one.message.read().unwrap()).collect()
}

pub async fn a_notification_is_read_back_as_it_was_sent(fx: &Fixture) {
    let job = Some(JobId::from_bits(7));
    let new =
        NewNotification { user_id: Some("ada ✓".into()), message: r#"{"b": 1, "a": [1e9]}"#.parse().unwrap(), job };
    let actual = fx.store.notify(vec![new.clone()]).await.unwrap();
    assert_eq!(actual, [Notification::new(actual[0].id, new, fx.now())]);
    assert_eq!(fx.store.notifications(None, 0, 10).await.unwrap(), actual);
    assert_eq!(fx.store.last_notification().await.unwrap(), actual[0].id);
    assert!(fx.store.notify(Vec::new()).await.unwrap().is_empty());
}

pub async fn a_user_receives_own_messages_and_broadcasts(fx: &Fixture) {
    assert_eq!(fx.store.last_notification().await.unwrap(), 0);
    let batch = vec![to(Some("ada"), "a1"), to(Some("bob"), "b1"), to(None, "all"), to(Some("ada"), "a2")];
    let ids: Vec<u64> = fx.store.notify(batch).await.unwrap().iter().map(|one| one.id).collect();
    assert!(ids.is_sorted() && ids[0] > 0, "{ids:?}");
    assert_eq!(texts(fx, Some("ada"), 0, 10).await, ["a1", "all", "a2"]);
    assert_eq!(texts(fx, Some("bob"), 0, 10).await, ["b1", "all"]);
    assert_eq!(texts(fx, Some("cyd"), 0, 10).await, ["all"]);
    assert_eq!(texts(fx, None, 0, 10).await, ["a1", "b1", "all", "a2"]);
    assert_eq!(texts(fx, Some("ada"), ids[0], 1).await, ["all"], "from where they had come to");
    assert_eq!(texts(fx, Some("ada"), ids[3], 10).await, [""; 0]);
    assert_eq!(texts(fx, Some("ada"), u64::MAX, 10).await, [""; 0]);
}

pub async fn notifications_are_dropped_by_age_and_their_numbers_never_used_again(fx: &Fixture) {
    let old = notify(fx, Some("ada"), "old").await;
    notify(fx, None, "old too").await;
    fx.pass(60);
    let new = notify(fx, Some("ada"), "new").await;
    let minute = Duration::from_secs(60);
    assert_eq!(fx.store.drop_notifications(minute, 10).await.unwrap(), 0, "exactly so old is not older");
    fx.pass(1);
    assert_eq!(fx.store.drop_notifications(minute, 1).await.unwrap(), 1);
    assert_eq!(texts(fx, None, 0, 10).await, ["old too", "new"]);
    assert_eq!(fx.store.drop_notifications(minute, 10).await.unwrap(), 1);
    assert_eq!(fx.store.drop_notifications(minute, 10).await.unwrap(), 0);
    fx.pass(60);
    assert_eq!(fx.store.drop_notifications(minute, 10).await.unwrap(), 1);
    assert_eq!(fx.store.last_notification().await.unwrap(), new, "it is known how far they had come");
    assert!(notify(fx, None, "newer").await > new && new > old);
}

pub async fn a_reader_by_number_misses_no_notification(fx: &Fixture) {
    const WRITERS: usize = 8;
    const EACH: usize = 20;
    let send = async |writer: usize| {
        for number in 0..EACH {
            notify(fx, Some("ada"), &format!("{writer}.{number}")).await;
        }
    };
    let follow = async {
        let (mut last, mut received) = (0, Vec::new());
        while received.len() < WRITERS * EACH {
            for one in fx.store.notifications(Some("ada".into()), last, 7).await.unwrap() {
                assert!(one.id > last);
                last = one.id;
                received.push(one.message.read::<String>().unwrap());
            }
        }
        received
    };
    let (_, received) = tokio::join!(join_all((0..WRITERS).map(send)), follow);
    assert_eq!(received.iter().collect::<BTreeSet<_>>().len(), WRITERS * EACH);
}

pub async fn a_notification_is_hinted_at(fx: &Fixture) {
    let mut watch = fx.store.watch();
    notify(fx, None, "hello").await;
    watch.changed().await;
}
