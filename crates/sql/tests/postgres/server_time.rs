//! The server's time, where a store has no clock of its own, as in production; the other tests set the time.

use std::time::Duration;

use punctual_core::{Heartbeat, Json, NewNotification, Timestamp, WorkerId, store::ports::*};
use punctual_sql::postgres::{
    Options, PostgresStore,
    sqlx::{Connection, PgConnection, query_scalar},
};
use punctual_testkit::Fixture;

async fn server_time(options: &Options) -> Timestamp {
    let mut connection = PgConnection::connect_with(&options.connect).await.unwrap();
    let micros = query_scalar("select (extract(epoch from clock_timestamp()) * 1000000)::int8");
    Timestamp::from_micros(micros.fetch_one(&mut connection).await.unwrap())
}

#[tokio::test]
async fn what_one_statement_writes_has_the_servers_time() {
    let mut options = super::options(&Fixture::start());
    options.clock = None;
    let store = PostgresStore::open(options.clone()).await.unwrap();
    let (name, owner, ttl) = ("tick".to_owned(), "ada".to_owned(), Duration::from_secs(3_600));
    let heartbeat = Heartbeat {
        id: WorkerId::from_bits(9),
        host: "host".into(),
        pid: 7,
        queues: Vec::new(),
        names: Vec::new(),
        concurrency: 4,
        running: 0,
        registered_by: None,
    };
    let message = NewNotification { user_id: None, message: Json::null(), job: None };

    let before = server_time(&options).await;
    store.heartbeat(heartbeat).await.unwrap();
    let lock = store.lock(name.clone(), owner.clone(), ttl).await.unwrap().unwrap();
    assert!(store.extend_lock(name.clone(), owner.clone(), ttl).await.unwrap());
    let single = store.notify(vec![message.clone()]).await.unwrap();
    let several = store.notify(vec![message.clone(), message]).await.unwrap();
    let request = store.idempotent_request("key".into(), [1; 32], 7).await.unwrap();
    let after = server_time(&options).await;

    let (worker, locks) = (store.workers().await.unwrap().remove(0), store.locks().await.unwrap());
    assert_eq!(store.notifications(None, 0, 10).await.unwrap(), [single.clone(), several.clone()].concat());
    assert!(locks[0].expires_at >= lock.expires_at, "it was extended");
    let expiries = [lock.expires_at, locks[0].expires_at].map(|at| at.before(ttl));
    let times = [worker.started_at, worker.seen_at, request.at, single[0].created_at, several[1].created_at];
    for time in expiries.into_iter().chain(times) {
        assert!(before <= time && time <= after, "{time:?} is not between {before:?} and {after:?}");
    }
    assert!(store.unlock(name, owner).await.unwrap());
    assert!(store.locks().await.unwrap().is_empty());
}
